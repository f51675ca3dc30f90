/* SPDX-License-Identifier: MIT */
#include "deploy/keyset.h"

#include <arpa/inet.h>
#include <endian.h>
#include <string.h>
#include "base/clock.h"

static enum err pg_error(PGconn *pg, struct error *e, const char *what)
{
    const char *text = PQerrorMessage(pg);
    return error_set(e, PQstatus(pg) == CONNECTION_OK ? ERR_REFUSED : ERR_UNREACHABLE,
                     "%s: Postgres says: %.*s", what, (int)strcspn(text, "\n"), text);
}

static enum err prepare(PGconn *pg, struct error *e)
{
    PGresult *r = PQexec(pg, "DEALLOCATE ALL");
    PQclear(r);
    r = PQprepare(pg, "keyset_page",
                  "SELECT id, code FROM short_link WHERE id > $1::bigint AND deleted_at IS NULL ORDER BY id "
                  "LIMIT $2::int",
                  2, NULL);
    enum err err =
        PQresultStatus(r) == PGRES_COMMAND_OK ? ERR_OK : pg_error(pg, e, "preparing the keyset scan");
    PQclear(r);
    return err;
}

/* One page after @last; binary, so that this side spends nothing on parsing. */
static PGresult *page(PGconn *pg, uint64_t last, unsigned page_rows)
{
    uint64_t after = htobe64(last);
    uint32_t limit = htonl(page_rows);
    const char *values[] = {(const char *)&after, (const char *)&limit};
    const int lengths[] = {(int)sizeof(after), (int)sizeof(limit)};
    const int formats[] = {1, 1};
    return PQexecPrepared(pg, "keyset_page", 2, values, lengths, formats, 1);
}

enum err keyset_scan(PGconn *pg, unsigned page_rows, struct keyset_result *out, struct error *e)
{
    enum err err = prepare(pg, e);
    if (err != ERR_OK)
        return err;
    uint64_t start = clock_mono_us();
    uint64_t rows = 0;
    uint64_t last = 0;
    for (;;) {
        PGresult *r = page(pg, last, page_rows);
        if (PQresultStatus(r) != PGRES_TUPLES_OK) {
            PQclear(r);
            return pg_error(pg, e, "reading a page");
        }
        int n = PQntuples(r);
        if (n > 0) {
            uint64_t id;
            memcpy(&id, PQgetvalue(r, n - 1, 0), sizeof(id));
            last = be64toh(id);
        }
        rows += (uint64_t)n;
        PQclear(r);
        if (n < (int)page_rows)
            break;
    }
    *out = (struct keyset_result){.rows = rows, .seconds = (double)(clock_mono_us() - start) / 1e6};
    return ERR_OK;
}

enum err keyset_copy(PGconn *pg, keyset_row_fn *fn, void *arg, struct keyset_result *out, struct error *e)
{
    uint64_t start = clock_mono_us();
    PGresult *r = PQexec(pg, "COPY (SELECT code FROM short_link WHERE deleted_at IS NULL) TO STDOUT");
    ExecStatusType status = PQresultStatus(r);
    PQclear(r);
    if (status != PGRES_COPY_OUT)
        return pg_error(pg, e, "COPY");
    uint64_t rows = 0;
    char *line;
    int length;
    while ((length = PQgetCopyData(pg, &line, 0)) > 0) {
        if (fn != NULL)
            fn(arg, line, (size_t)length - 1);
        PQfreemem(line);
        rows++;
    }
    if (length != -1)
        return pg_error(pg, e, "COPY");
    enum err err = ERR_OK;
    while ((r = PQgetResult(pg)) != NULL) {
        if (PQresultStatus(r) != PGRES_COMMAND_OK)
            err = pg_error(pg, e, "COPY");
        PQclear(r);
    }
    *out = (struct keyset_result){.rows = rows, .seconds = (double)(clock_mono_us() - start) / 1e6};
    return err;
}
