/* SPDX-License-Identifier: MIT */
/* source_raw DSN copy N | binary N | table: reads all live codes of short_link and drops them, by keyset
 * pages of N rows as COPY sends them, by prepared pages in binary, or by one COPY. Prints rows and
 * seconds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/number.h"
#include "deploy/keyset.h"

enum { PAGE_ROWS_MAX = 10000000, TEXT_MAX = 256 };

static enum err failed(PGconn *pg, struct error *e)
{
    return error_set(e, ERR_UNREACHABLE, "Postgres says: %s", PQerrorMessage(pg));
}

/* Read how the statement ended, which comes after the last line. */
static enum err end_copy(PGconn *pg, struct error *e)
{
    enum err err = ERR_OK;
    PGresult *r;
    while ((r = PQgetResult(pg)) != NULL) {
        if (PQresultStatus(r) != PGRES_COMMAND_OK)
            err = failed(pg, e);
        PQclear(r);
    }
    return err;
}

/* Read one page after @last, and move @last. */
static enum err copy_page(PGconn *pg, uint64_t *last, uint64_t page_rows, uint64_t *rows, struct error *e)
{
    char text[TEXT_MAX];
    (void)snprintf(text, sizeof(text),
                   "COPY (SELECT id, code FROM short_link WHERE id > %llu AND deleted_at IS NULL "
                   "ORDER BY id LIMIT %llu) TO STDOUT",
                   (unsigned long long)*last, (unsigned long long)page_rows);
    PGresult *r = PQexec(pg, text);
    ExecStatusType status = PQresultStatus(r);
    PQclear(r);
    if (status != PGRES_COPY_OUT)
        return failed(pg, e);
    char *line;
    int length;
    *rows = 0;
    while ((length = PQgetCopyData(pg, &line, 0)) > 0) {
        *last = strtoull(line, NULL, 10);
        PQfreemem(line);
        ++*rows;
    }
    return length == -1 ? end_copy(pg, e) : failed(pg, e);
}

static enum err copy_pages(PGconn *pg, uint64_t page_rows, struct keyset_result *out, struct error *e)
{
    uint64_t began = clock_mono_us(), last = 0, rows = page_rows;
    enum err err = ERR_OK;
    out->rows = 0;
    while (err == ERR_OK && rows == page_rows) {
        err = copy_page(pg, &last, page_rows, &rows, e);
        out->rows += rows;
    }
    out->seconds = (double)(clock_mono_us() - began) / 1e6;
    return err;
}

int main(int argc, char **argv)
{
    const char *way = argc < 3 ? "" : argv[2];
    uint64_t page_rows = 0;
    bool paged = strcmp(way, "copy") == 0 || strcmp(way, "binary") == 0;
    if (argc != 3 + paged || (!paged && strcmp(way, "table") != 0) ||
        (paged && (!number_u64(argv[3], strlen(argv[3]), &page_rows) || page_rows == 0 ||
                   page_rows > PAGE_ROWS_MAX))) {
        (void)fprintf(stderr, "usage: source_raw DSN copy ROWS | binary ROWS | table\n");
        return 2;
    }
    struct error e = {.text = ""};
    struct keyset_result result = {0};
    PGconn *pg = PQconnectdb(argv[1]);
    enum err err = PQstatus(pg) == CONNECTION_OK ? ERR_OK : failed(pg, &e);
    if (err == ERR_OK)
        err = !paged                       ? keyset_copy(pg, NULL, NULL, &result, &e)
              : strcmp(way, "binary") == 0 ? keyset_scan(pg, (unsigned)page_rows, &result, &e)
                                           : copy_pages(pg, page_rows, &result, &e);
    PQfinish(pg);
    if (err != ERR_OK) {
        (void)fprintf(stderr, "source_raw: %s\n", e.text);
        return 1;
    }
    (void)printf("%llu %.6f\n", (unsigned long long)result.rows, result.seconds);
    return 0;
}
