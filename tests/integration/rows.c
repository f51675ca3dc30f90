/* SPDX-License-Identifier: MIT */
#include "tests/integration/rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/buffer.h"
#include "tests/integration/database.h"

void rows_note(void *arg, const char *key, size_t length)
{
    struct rows *rows = arg;
    rows->count++;
    if (key == NULL) {
        rows->nulls++;
    } else if (length == 0) {
        rows->empty++;
    } else {
        char digits[16] = {0};
        assert_true(length < sizeof(digits));
        memcpy(digits, key + 1, length - 1);
        unsigned long id = strtoul(digits, NULL, 10);
        assert_true(id < ROWS_MAX);
        rows->times[id]++;
    }
}

void rows_expect(const struct rows *rows, unsigned from, unsigned to)
{
    for (unsigned id = 0; id < ROWS_MAX; id++)
        if (rows->times[id] != (id % 3 == 0 && id >= from && id <= to))
            fail_msg("row %u was seen %u times; those from %u to %u are wanted", id, rows->times[id], from,
                     to);
}

size_t rows_read(struct source *s, struct scan_range *range, const struct source_part *parts, size_t limit,
                 scan_row_fn *fn, void *arg)
{
    const struct scan_options o = {
        .limit = limit, .parts = parts, .timeout_ms = ROWS_WAIT_MS, .row = fn, .arg = arg};
    struct error e = {0};
    size_t pages = 0;
    for (bool ended = false; !ended;) {
        size_t rows = SIZE_MAX;
        must(scan_page(s, range, &o, &rows, &ended, &e), &e);
        assert_true(range->blocks || rows <= limit);
        pages += rows > 0;
    }
    return pages;
}

size_t rows_between(struct source *s, unsigned table, const char *after, const char *upto, size_t limit,
                    scan_row_fn *fn, void *arg)
{
    struct scan_range range = {.table = table};
    (void)snprintf(range.after, sizeof(range.after), "%s", after);
    (void)snprintf(range.upto, sizeof(range.upto), "%s", upto);
    return rows_read(s, &range, NULL, limit, fn, arg);
}

struct rows_parts rows_parts(struct source *s)
{
    struct rows_parts parts = {0};
    struct error e = {0};
    must(source_parts(s, &parts.list, &parts.count, &e), &e);
    return parts;
}

struct scan_range rows_part_range(const struct rows_parts *parts, unsigned part)
{
    struct scan_range range = {.table = part, .blocks = true, .after = "0"};
    if (parts->list[part].file[0] != '\0')
        (void)snprintf(range.upto, sizeof(range.upto), "%llu", (unsigned long long)parts->list[part].blocks);
    return range;
}

void rows_newer(struct source *s, const char *newer, size_t limit, struct rows *rows)
{
    struct rows_parts parts = rows_parts(s);
    const struct scan_options o = {.limit = limit,
                                   .parts = parts.list,
                                   .newer = newer,
                                   .timeout_ms = ROWS_WAIT_MS,
                                   .row = rows_note,
                                   .arg = rows};
    struct error e = {0};
    for (unsigned i = 0; i < parts.count; i++) {
        struct scan_range range = rows_part_range(&parts, i);
        size_t n = 0;
        for (bool ended = false; !ended;)
            must(scan_page(s, &range, &o, &n, &ended, &e), &e);
    }
    free(parts.list);
}

void rows_join(void *arg, const char *key, size_t length)
{
    buffer_append(arg, key, length);
    buffer_append(arg, "|", 1);
}

void rows_ignore(void *arg, const char *key, size_t length)
{
    (void)arg;
    (void)key;
    (void)length;
}
