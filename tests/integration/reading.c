/* SPDX-License-Identifier: MIT */
#include "tests/integration/reading.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"

enum { PATIENCE_MS = 60000 };

/* In the order of READING_TABLES. A row's id is three times its place in its table, from 1 on. */
static const struct {
    const char *name;
    unsigned rows;
} tables[] = {{"r_none", 0},  {"r_large", 210000}, {"r_small", 1000},
              {"r_empty", 0}, {"r_few", 3},        {"r_medium", 20000}};

enum { TABLES = sizeof(tables) / sizeof(tables[0]) };

void reading_tables(PGconn *pg)
{
    unsigned first = 0;
    for (size_t i = 0; i < TABLES; i++) {
        database_run(pg, "CREATE TABLE %s (id bigint PRIMARY KEY, code text)", tables[i].name);
        database_run(pg, "INSERT INTO %s SELECT 3 * n, 'k' || %u + n - 1 FROM generate_series(1, %u) AS n",
                     tables[i].name, first, tables[i].rows);
        database_run(pg, "ANALYZE %s", tables[i].name);
        first += tables[i].rows;
    }
    assert_int_equal(first, READING_ROWS);
}

struct reading *reading_new(void)
{
    struct reading *reading = calloc(1, sizeof(*reading));
    assert_non_null(reading);
    (void)pthread_mutex_init(&reading->lock, NULL);
    return reading;
}

void reading_free(struct reading *reading)
{
    for (size_t i = 0; i < READERS_MAX; i++)
        free(reading->pending[i].rows);
    (void)pthread_mutex_destroy(&reading->lock);
    free(reading);
}

/* --- in the readers' threads, where nothing may be asserted --- */

static void on_row(void *arg, unsigned i, const char *key, size_t length)
{
    struct reading_pending *p = &((struct reading *)arg)->pending[i];
    char digits[16] = {0};
    if (length < 2 || length > sizeof(digits) || key[0] != 'k')
        abort();
    memcpy(digits, key + 1, length - 1);
    if (p->count == p->room) {
        p->room = 2 * p->room + 1000;
        p->rows = reallocarray(p->rows, p->room, sizeof(*p->rows));
        if (p->rows == NULL)
            abort();
    }
    p->rows[p->count++] = (uint32_t)strtoul(digits, NULL, 10);
}

static void take_page(struct reading *reading, const struct reading_pending *p)
{
    for (size_t i = 0; i < p->count; i++) {
        uint32_t row = p->rows[i];
        if (row >= READING_ROWS)
            abort();
        reading->times[row]++;
        if (reading->first[row] == 0)
            reading->first[row] = reading->pages;
    }
}

static enum err on_page(void *arg, unsigned i, struct error *e)
{
    struct reading *reading = arg;
    enum err code = ERR_OK;
    (void)pthread_mutex_lock(&reading->lock);
    if (++reading->at_once > reading->most_at_once)
        reading->most_at_once = reading->at_once;
    (void)pthread_mutex_unlock(&reading->lock);
    clock_sleep_us(reading->nap_us); /* sleep first: a page counts as ended only when it is noted */
    (void)pthread_mutex_lock(&reading->lock);
    reading->at_once--;
    reading->pages++;
    if (reading->pages == reading->fail_at)
        code = error_set(e, ERR_FULL, "no room on page %u", reading->pages);
    else
        take_page(reading, &reading->pending[i]);
    reading->pending[i].count = 0;
    (void)pthread_mutex_unlock(&reading->lock);
    return code;
}

/* --- from outside --- */

struct readers_options reading_options(struct reading *reading, const struct source *s,
                                       const struct source_part *blocks, size_t block_count)
{
    return (struct readers_options){.source = s,
                                    .count = READING_READERS,
                                    .timeout_ms = 20000,
                                    .page_ms = 50,
                                    .page_rows = READING_PAGE_ROWS,
                                    .work = {.blocks = blocks != NULL,
                                             .tables = blocks != NULL ? (unsigned)block_count : TABLES,
                                             .parts = blocks},
                                    .row = on_row,
                                    .page = on_page,
                                    .arg = reading};
}

struct readers *reading_start(const struct readers_options *o)
{
    struct reading *reading = o->arg;
    for (size_t i = 0; i < READERS_MAX; i++)
        reading->pending[i].count = 0; /* drop rows of pages that did not end */
    struct readers *r = NULL;
    struct error e = {0};
    must(readers_start(&r, o, &e), &e);
    return r;
}

void reading_end(struct readers *r)
{
    enum err code = ERR_OK;
    struct error e = {0};
    uint64_t until = clock_mono_us() + PATIENCE_MS * UINT64_C(1000);
    while (!readers_ended(r, 100, &code, &e))
        if (clock_mono_us() > until)
            fail_msg("the readers do not end");
    must(code, &e);
}

unsigned reading_pages(struct reading *reading)
{
    (void)pthread_mutex_lock(&reading->lock);
    unsigned pages = reading->pages;
    (void)pthread_mutex_unlock(&reading->lock);
    return pages;
}

unsigned reading_most_at_once(struct reading *reading)
{
    (void)pthread_mutex_lock(&reading->lock);
    unsigned most = reading->most_at_once;
    (void)pthread_mutex_unlock(&reading->lock);
    return most;
}

void reading_wait(struct reading *reading, unsigned pages)
{
    uint64_t until = clock_mono_us() + PATIENCE_MS * UINT64_C(1000);
    while (reading_pages(reading) < pages) {
        if (clock_mono_us() > until)
            fail_msg("page %u does not come", pages);
        clock_sleep_us(500);
    }
}

void reading_left(struct reading *reading, struct readers *r, struct reading_left *out)
{
    out->count = readers_left(r, &out->next_table, out->ranges, &out->done);
    out->pages = reading_pages(reading);
}

void reading_forget(struct reading *reading, const struct reading_left *left)
{
    (void)pthread_mutex_lock(&reading->lock);
    for (size_t row = 0; row < READING_ROWS; row++)
        if (reading->first[row] > left->pages)
            reading->first[row] = 0;
    reading->pages = left->pages;
    (void)pthread_mutex_unlock(&reading->lock);
}

static bool is_left(const struct reading_left *left, unsigned table, uint64_t id)
{
    if (table >= left->next_table)
        return true;
    for (size_t i = 0; i < left->count; i++) {
        const struct scan_range *at = &left->ranges[i];
        if (at->table == table && id > strtoull(at->after, NULL, 10) &&
            (at->upto[0] == '\0' || id <= strtoull(at->upto, NULL, 10)))
            return true;
    }
    return false;
}

void reading_expect_left(struct reading *reading, const struct reading_left *left)
{
    unsigned table = 0, first = 0;
    (void)pthread_mutex_lock(&reading->lock);
    for (unsigned row = 0; row < READING_ROWS; row++) {
        while (row - first == tables[table].rows)
            first += tables[table++].rows;
        bool came = reading->first[row] != 0 && reading->first[row] <= left->pages;
        if (!came && !is_left(left, table, 3 * (row - first + 1)))
            fail_msg("row %u did not come in %u pages, and is not left", row, left->pages);
    }
    (void)pthread_mutex_unlock(&reading->lock);
}

void reading_expect_all(struct reading *reading, bool once)
{
    (void)pthread_mutex_lock(&reading->lock);
    for (unsigned row = 0; row < READING_ROWS; row++)
        if (reading->first[row] == 0 || (once && reading->times[row] != 1))
            fail_msg("row %u came %u times, first on page %u", row, reading->times[row], reading->first[row]);
    (void)pthread_mutex_unlock(&reading->lock);
}
