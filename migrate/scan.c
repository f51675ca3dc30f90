/* SPDX-License-Identifier: MIT */
/* The happy path is: scan_open() prepares the page statements and sends the first; each scan_next() waits for
 * the page that is under way, sends the statement for the one behind it, and hands the page out; a page that
 * is not full is the last. Possible failure modes are: the page does not come in time or the watch ends
 * the wait (the statement is stopped, and the next scan_next() asks for the same page again); the connection
 * is lost (every later call says so); memory fails while a page is handed out (the same page is asked for
 * again). The position only moves with a page handed out. */
#include "migrate/scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "migrate/source_internal.h"

enum {
    SAMPLE_TIMEOUT_MS = 600 * 1000, /* a sample may read much of a table; the watch may end it */
    SAMPLE_SMALL_ROWS = 50 * 1000,  /* up to here a sample looks at all rows */
    SAMPLE_ROWS_MIN =
        20 * 1000, /* pages are what is drawn: with few of them the count would be a matter of luck */
};

struct scan {
    struct source *source;
    size_t page_rows;
    char limit[24];
    char position[SCAN_ID_MAX]; /* "" at the beginning */
    char upto[SCAN_ID_MAX];     /* "" for none */
    bool under_way;             /* a page was asked for */
    bool ended;
    PGresult *result;
    struct scan_row *rows;
    size_t row_capacity;
};

static enum err prepare_once(struct source *s, const struct statement *statement, unsigned bit,
                             struct error *e)
{
    if ((s->prepared & bit) != 0)
        return ERR_OK;
    enum err err = connection_prepare(s->connection, statement, e);
    if (err == ERR_OK)
        s->prepared |= bit;
    return err;
}

/* The page statement for a position, and the bit that says whether it was prepared. */
static struct statement page_statement(const struct scan *scan, bool first, unsigned *bit)
{
    bool bounded = scan->upto[0] != '\0';
    static const char *const names[2][2] = {{"page_next", "page_next_upto"},
                                            {"page_first", "page_first_upto"}};
    struct statement s = source_statement(scan->source, names[first][bounded]);
    if (!first)
        s.params[s.param_count++] = (struct connection_param){"after", scan->position};
    if (bounded)
        s.params[s.param_count++] = (struct connection_param){"upto", scan->upto};
    s.params[s.param_count++] = (struct connection_param){"limit", scan->limit};
    *bit = 1u << ((first ? 2 : 0) + (bounded ? 1 : 0));
    return s;
}

static enum err send_page(struct scan *scan, struct error *e)
{
    unsigned bit;
    struct statement s = page_statement(scan, scan->position[0] == '\0', &bit);
    enum err err = prepare_once(scan->source, &s, bit, e);
    if (err == ERR_OK)
        err = connection_send(scan->source->connection, &s, e);
    scan->under_way = err == ERR_OK;
    return err;
}

enum err scan_open(struct scan **out, struct source *s, const char *after, const char *upto, size_t page_rows,
                   struct error *e)
{
    enum err err = source_ready(s, e);
    if (err != ERR_OK)
        return err;
    if (page_rows == 0 || strlen(after) >= SCAN_ID_MAX || strlen(upto) >= SCAN_ID_MAX)
        return error_set(e, ERR_RANGE, "scan: a page has at least one row, an id at most %d bytes",
                         SCAN_ID_MAX - 1);
    struct scan *scan = calloc(1, sizeof(*scan));
    if (scan == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    scan->source = s;
    scan->page_rows = page_rows;
    (void)snprintf(scan->limit, sizeof(scan->limit), "%zu", page_rows);
    (void)snprintf(scan->position, sizeof(scan->position), "%s", after);
    (void)snprintf(scan->upto, sizeof(scan->upto), "%s", upto);
    unsigned bit;
    struct statement next = page_statement(scan, false, &bit);
    err = prepare_once(s, &next, bit, e);
    if (err == ERR_OK)
        err = send_page(scan, e);
    if (err != ERR_OK) {
        scan_close(scan);
        return error_prefix(e, err, "table %s", s->table);
    }
    *out = scan;
    return ERR_OK;
}

/* The result's keys as rows. */
static enum err fill_rows(struct scan *scan, size_t count, struct error *e)
{
    if (count > scan->row_capacity) {
        struct scan_row *rows = reallocarray(scan->rows, count, sizeof(*rows));
        if (rows == NULL)
            return error_set(e, ERR_NOMEM, "out of memory for a page of %zu rows", count);
        scan->rows = rows;
        scan->row_capacity = count;
    }
    for (size_t i = 0; i < count; i++) {
        bool null = PQgetisnull(scan->result, (int)i, 1) != 0;
        scan->rows[i].key = null ? NULL : PQgetvalue(scan->result, (int)i, 1);
        scan->rows[i].length = null ? 0 : (size_t)PQgetlength(scan->result, (int)i, 1);
    }
    return ERR_OK;
}

/* Move to the last id of the result and ask for the page behind it. A failure to send will be met by the next
 * call. */
static enum err step_on(struct scan *scan, size_t count, struct error *e)
{
    const char *id = PQgetvalue(scan->result, (int)count - 1, 0);
    size_t length = (size_t)PQgetlength(scan->result, (int)count - 1, 0);
    if (length >= SCAN_ID_MAX || length == 0)
        return error_set(e, ERR_RANGE, "an id of %zu bytes cannot be a position; 1 to %d are supported",
                         length, SCAN_ID_MAX - 1);
    memcpy(scan->position, id, length);
    scan->position[length] = '\0';
    scan->ended = count < scan->page_rows;
    if (!scan->ended)
        (void)send_page(scan, e);
    return ERR_OK;
}

static enum err receive_page(struct scan *scan, size_t *count, unsigned timeout_ms, struct error *e)
{
    enum err err = scan->under_way ? ERR_OK : send_page(scan, e);
    if (err == ERR_OK)
        err = connection_receive(scan->source->connection, timeout_ms, &scan->result, e);
    scan->under_way = false;
    if (err != ERR_OK)
        return err;
    *count = (size_t)PQntuples(scan->result);
    err = fill_rows(scan, *count, e);
    if (err == ERR_OK && *count > 0)
        err = step_on(scan, *count, e);
    return err;
}

enum err scan_next(struct scan *scan, struct scan_page *page, unsigned timeout_ms, struct error *e)
{
    PQclear(scan->result);
    scan->result = NULL;
    size_t count = 0;
    enum err err = scan->ended ? ERR_OK : receive_page(scan, &count, timeout_ms, e);
    if (err != ERR_OK)
        return error_prefix(e, err, "table %s after id \"%.60s\"", scan->source->table, scan->position);
    scan->ended = scan->ended || count == 0;
    page->count = count;
    page->rows = scan->rows;
    memcpy(page->last_id, scan->position, sizeof(page->last_id));
    return ERR_OK;
}

void scan_take(struct scan *scan)
{
    if (scan->under_way)
        connection_take(scan->source->connection);
}

void scan_close(struct scan *scan)
{
    if (scan == NULL)
        return;
    if (scan->under_way)
        connection_abandon(scan->source->connection);
    PQclear(scan->result);
    free(scan->rows);
    free(scan);
}

/* Samples. */

enum { SAMPLE_BIT = 1 << 4, SAMPLE_SMALL_BIT = 1 << 5 };

static enum err run_sample(struct source *s, const struct statement *statement, unsigned bit,
                           scan_sample_fn *fn, void *arg, struct error *e)
{
    enum err err = prepare_once(s, statement, bit, e);
    if (err == ERR_OK)
        err = connection_send(s->connection, statement, e);
    PGresult *r = NULL;
    if (err == ERR_OK)
        err = connection_receive(s->connection, SAMPLE_TIMEOUT_MS, &r, e);
    if (err != ERR_OK)
        return error_prefix(e, err, "sample of table %s", s->table);
    for (int i = 0; i < PQntuples(r); i++)
        if (!PQgetisnull(r, i, 0) && PQgetlength(r, i, 0) > 0)
            fn(arg, PQgetvalue(r, i, 0), (size_t)PQgetlength(r, i, 0));
    PQclear(r);
    return ERR_OK;
}

/* Per cent of the pages that will give @count rows, with some to spare: a share of what the planner expects.
 */
static double percent_for(size_t count, uint64_t rows)
{
    double wanted = 1.5 * (double)count;
    if (wanted < SAMPLE_ROWS_MIN)
        wanted = SAMPLE_ROWS_MIN;
    double percent = 100.0 * wanted / (double)rows;
    return percent > 100.0 ? 100.0 : percent;
}

enum err scan_sample(struct source *s, const char *upto, size_t count, scan_sample_fn *fn, void *arg,
                     struct error *e)
{
    char last[SCAN_ID_MAX];
    enum err err = source_ready(s, e);
    if (err == ERR_OK && strlen(upto) >= sizeof(last))
        err = error_set(e, ERR_RANGE, "sample: an id has at most %d bytes", SCAN_ID_MAX - 1);
    if (err != ERR_OK || count == 0)
        return err;
    (void)snprintf(last, sizeof(last), "%s", upto);
    if (last[0] == '\0')
        err = source_max_id(s, last, sizeof(last), e);
    uint64_t rows = 0;
    if (err == ERR_OK)
        err = source_rows_estimate(s, &rows, e);
    if (err != ERR_OK || last[0] == '\0')
        return err;
    char limit[24];
    char percent[32];
    (void)snprintf(limit, sizeof(limit), "%zu", count);
    bool small = rows <= SAMPLE_SMALL_ROWS || count >= rows / 4;
    struct statement statement = source_statement(s, small ? "sample_small" : "sample");
    if (!small) {
        (void)snprintf(percent, sizeof(percent), "%.6f", percent_for(count, rows));
        statement.params[statement.param_count++] = (struct connection_param){"percent", percent};
    }
    statement.params[statement.param_count++] = (struct connection_param){"upto", last};
    statement.params[statement.param_count++] = (struct connection_param){"limit", limit};
    return run_sample(s, &statement, small ? SAMPLE_SMALL_BIT : SAMPLE_BIT, fn, arg, e);
}
