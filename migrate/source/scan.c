/* SPDX-License-Identifier: MIT */
/* The happy path is: the statement of a page is sent, its lines are parsed as they come, and behind the last
 * line the range advances. Possible failure modes are: no line comes in time, or the watch ends the wait (the
 * statement is stopped); the connection is lost; the table was rewritten. Then the range stays, and the next
 * call reads the page again. */
#include "migrate/source/scan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "migrate/source/source_internal.h"

enum {
    SAMPLE_TIMEOUT_MS = 600 * 1000, /* a sample may read much of a table; the watch may end it */
    SAMPLE_SMALL_ROWS = 50 * 1000,  /* tables with up to this many rows are sampled row by row */
    ID_TUPLES_MAX = 20,             /* ids of several columns in one statement */
    SAMPLE_ROWS_MIN = 20 * 1000, /* TABLESAMPLE draws pages: with few of them the count would vary too much */
};

/* --- lines --- */

struct lines {
    struct source *source;
    unsigned timeout_ms;
    unsigned id_columns; /* columns in front of the key */
    bool bytes;          /* the key is a bytea: \\x and hexadecimal digits */
    scan_row_fn *row;
    void *arg;
    size_t count;
    char last[SOURCE_ID_MAX]; /* id of the last line */
    struct buffer key;        /* scratch memory */
};

/* The beginning of the key in a line; NULL: the line is malformed. */
static const char *skip_id(const char *line, size_t length, unsigned columns)
{
    const char *p = line, *end = line + length;
    for (unsigned i = 0; i < columns && p != NULL; i++) {
        p = memchr(p, '\t', (size_t)(end - p));
        p = p == NULL ? NULL : p + 1;
    }
    return p;
}

static void unescape(struct buffer *out, const char *p, const char *end)
{
    static const char plain[] = "\b\f\n\r\t\v", escaped[] = "bfnrtv";
    buffer_clear(out);
    for (; p < end; p++) {
        const char *at = *p == '\\' && p + 1 < end ? memchr(escaped, p[1], sizeof(escaped) - 1) : NULL;
        if (*p == '\\' && p + 1 < end)
            p++;
        buffer_append(out, at != NULL ? &plain[at - escaped] : p, 1);
    }
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 0;
}

/* COPY doubles the backslash of \x. */
static void decode_bytes(struct buffer *out, const char *p, const char *end)
{
    buffer_clear(out);
    p += (size_t)(end - p) >= 3 ? 3 : (size_t)(end - p);
    for (; p + 1 < end; p += 2) {
        char byte = (char)(digit(p[0]) << 4 | digit(p[1]));
        buffer_append(out, &byte, 1);
    }
}

static void hand_out(struct lines *l, const char *key, const char *end)
{
    size_t length = (size_t)(end - key);
    bool escaped = memchr(key, '\\', length) != NULL;
    if (escaped && length == 2 && key[1] == 'N') {
        l->row(l->arg, NULL, 0);
    } else if (!escaped) {
        l->row(l->arg, key, length);
    } else {
        if (l->bytes)
            decode_bytes(&l->key, key, end);
        else
            unescape(&l->key, key, end);
        l->row(l->arg, buffer_text(&l->key), l->key.length);
    }
}

static enum err take_line(struct lines *l, const char *line, size_t length, struct error *e)
{
    const char *key = skip_id(line, length, l->id_columns);
    size_t id = key == NULL || l->id_columns == 0 ? 0 : (size_t)(key - line) - 1;
    if (key == NULL)
        return error_set(e, ERR_PARSE, "a line of COPY has too few columns");
    if (id >= SOURCE_ID_MAX || (id == 0 && l->id_columns > 0))
        return error_set(e, ERR_RANGE, "an id of %zu bytes cannot be a position; 1 to %d are supported", id,
                         SOURCE_ID_MAX - 1);
    memcpy(l->last, line, id);
    l->last[id] = '\0';
    l->count++;
    hand_out(l, key, line + length);
    return buffer_failed(&l->key) ? error_set(e, ERR_NOMEM, "out of memory for a key") : ERR_OK;
}

/* Read all lines of a statement. */
static enum err read_lines(struct lines *l, unsigned table, const char *statement,
                           const struct sql_binding *more, struct error *e)
{
    struct connection *c = l->source->connection;
    struct sql_binding bindings[SOURCE_BINDINGS_MAX];
    source_bind(bindings, l->source, table, more);
    enum err err = connection_copy(c, statement, bindings, e);
    while (err == ERR_OK) {
        const char *line;
        size_t length;
        err = connection_copy_line(c, l->timeout_ms, &line, &length, e);
        if (err != ERR_OK || line == NULL)
            break;
        err = take_line(l, line, length, e);
        if (err != ERR_OK)
            connection_abandon(c);
    }
    buffer_fini(&l->key);
    return err;
}

static struct lines lines_of(struct source *s, unsigned table, unsigned id_columns, unsigned timeout_ms,
                             scan_row_fn *row, void *arg)
{
    return (struct lines){.source = s,
                          .timeout_ms = timeout_ms,
                          .id_columns = id_columns,
                          .bytes = strcmp(s->tables[table].key.type, "bytea") == 0,
                          .row = row,
                          .arg = arg};
}

/* --- pages by id --- */

static enum err page_by_id(struct source *s, struct scan_range *r, const struct scan_options *o, size_t *rows,
                           bool *ended, struct error *e)
{
    struct lines l = lines_of(s, r->table, s->id_columns, o->timeout_ms, o->row, o->arg);
    const struct source_table *t = &s->tables[r->table];
    SCOPED(buffer_fini) struct buffer after = {0}, upto = {0};
    char limit[24];
    source_put_bound(&after, t, ">", r->after);
    source_put_bound(&upto, t, "<=", r->upto);
    (void)snprintf(limit, sizeof(limit), "%zu", o->limit);
    enum err err = read_lines(
        &l, r->table, "page",
        SQL_BINDINGS({"after", buffer_text(&after)}, {"upto", buffer_text(&upto)}, {"limit", limit}), e);
    if (err != ERR_OK)
        return error_prefix(e, err, "table %s: a page of rows could not be read", t->name);
    *rows = l.count;
    *ended = l.count < o->limit;
    if (l.count > 0)
        memcpy(r->after, l.last, sizeof(r->after));
    return ERR_OK;
}

/* --- pages of blocks --- */

enum { AGE_PIECE_MAX = 256 };

/* Compare age(t.xmin) with a horizon's age, which is computed once. Ages are those of 32-bit ids: a horizon
 * too far in the past counts as older than every row. */
static void put_age(char out[AGE_PIECE_MAX], const char *operator, const char * horizon)
{
    unsigned long long id = strtoull(horizon, NULL, 10);
    (void)snprintf(out, AGE_PIECE_MAX,
                   "age(t.xmin) %s (SELECT CASE WHEN pg_snapshot_xmax(pg_current_snapshot())::text::numeric "
                   "- %llu < 2000000000 THEN age('%llu'::xid) ELSE 2147483647 END)",
                   operator, id, id % (1ull << 32));
}

/* Check the file behind the page: a rewrite before or during the page is visible by now. */
static enum err check_file(struct source *s, const struct source_part *part, struct error *e)
{
    if (part->file[0] == '\0')
        return ERR_OK;
    char file[sizeof(part->file)];
    enum err err =
        source_read(s, part->table, "file", SQL_BINDINGS({"name", part->name}), file, sizeof(file), e);
    if (err == ERR_OK && strcmp(file, part->file) != 0)
        err = error_set(
            e, ERR_CHANGED,
            "table %s was rewritten (VACUUM FULL, CLUSTER, TRUNCATE) while it was read: start again",
            part->name);
    return err;
}

static enum err page_of_blocks(struct source *s, struct scan_range *r, const struct scan_options *o,
                               size_t *rows, bool *ended, struct error *e)
{
    const struct source_part *part = &o->parts[r->table];
    struct lines l = lines_of(s, part->table, 0, o->timeout_ms, o->row, o->arg);
    uint64_t from = strtoull(r->after, NULL, 10), end = strtoull(r->upto, NULL, 10);
    bool whole = r->upto[0] == '\0';
    *ended = !whole && from >= end;
    *rows = 0;
    if (*ended)
        return ERR_OK;
    uint64_t to = end - from > o->limit ? from + o->limit : end;
    char blocks[96] = "true", newer[AGE_PIECE_MAX] = "true";
    if (!whole)
        (void)snprintf(blocks, sizeof(blocks), "t.ctid >= '(%llu,0)' AND t.ctid < '(%llu,0)'",
                       (unsigned long long)from, (unsigned long long)to);
    if (o->newer != NULL)
        put_age(newer, "<=", o->newer);
    /* A whole table may consist of several relations, so its ctids do not identify places. */
    enum err err = read_lines(&l, part->table, o->newer != NULL && !whole ? "blocks_newer" : "blocks",
                              SQL_BINDINGS({"table", part->name}, {"blocks", blocks}, {"newer", newer}), e);
    if (err == ERR_OK)
        err = check_file(s, part, e);
    if (err == ERR_OK && s->in_snapshot)
        err = connection_run(s->connection, "snapshot_page_end", NULL, NULL, e);
    if (err != ERR_OK)
        return error_prefix(e, err, "table %s from block %s on", part->name, r->after);
    *rows = l.count;
    *ended = whole || to == end;
    (void)snprintf(r->after, sizeof(r->after), "%llu", (unsigned long long)to);
    return ERR_OK;
}

enum err scan_page(struct source *s, struct scan_range *range, const struct scan_options *o, size_t *rows,
                   bool *ended, struct error *e)
{
    enum err err = source_ready(s, e);
    if (err != ERR_OK)
        return err;
    if (o->limit == 0)
        return error_set(e, ERR_RANGE, "scan: a page has at least one row");
    return range->blocks ? page_of_blocks(s, range, o, rows, ended, e)
                         : page_by_id(s, range, o, rows, ended, e);
}

/* --- rows with known ids --- */

static enum err keys_of_some(struct source *s, unsigned table, const char *const *ids, size_t count,
                             const struct scan_options *o, struct error *e)
{
    SCOPED(buffer_fini) struct buffer list = {0};
    for (size_t i = 0; i < count; i++) {
        buffer_puts(&list, i == 0 ? "(" : ", (");
        source_put_literals(&list, ids[i]);
        buffer_puts(&list, ")");
    }
    struct lines l = lines_of(s, table, 0, o->timeout_ms, o->row, o->arg);
    const char *text = buffer_text(&list);
    return buffer_failed(&list) ? error_set(e, ERR_NOMEM, "out of memory")
                                : read_lines(&l, table, "keys_of", SQL_BINDINGS({"ids", text}), e);
}

/* A list of ids of one column is one condition. One of several columns is as many conditions as ids, which
 * the server plans for each partition, in a time that grows with the square of the list. */
enum err scan_keys_of(struct source *s, unsigned table, const char *const *ids, size_t count,
                      const struct scan_options *o, struct error *e)
{
    enum err err = source_ready(s, e);
    size_t most = s->id_columns > 1 ? ID_TUPLES_MAX : count;
    for (size_t done = 0; done < count && err == ERR_OK; done += most)
        err = keys_of_some(s, table, ids + done, count - done < most ? count - done : most, o, e);
    return err;
}

void scan_keep_key(struct buffer *keys, const char *key, size_t length)
{
    buffer_append(keys, &length, sizeof(length));
    buffer_append(keys, key, length);
}

size_t scan_kept_keys(const struct buffer *kept, size_t *at, size_t max, const char **keys, size_t *lengths)
{
    size_t n = 0;
    for (; n < max && *at < kept->length; n++) {
        memcpy(&lengths[n], kept->data + *at, sizeof(lengths[n]));
        keys[n] = kept->data + *at + sizeof(lengths[n]);
        *at += sizeof(lengths[n]) + lengths[n];
    }
    return n;
}

/* --- samples --- */

struct sample {
    scan_row_fn *fn;
    void *arg;
};

static void pass_on(void *arg, const char *key, size_t length)
{
    const struct sample *sample = arg;
    if (key != NULL)
        sample->fn(sample->arg, key, length);
}

static enum err sample_table(struct source *s, unsigned table, const char *horizon, size_t count,
                             uint64_t rows, struct sample *sample, struct error *e)
{
    struct lines l = lines_of(s, table, 0, SAMPLE_TIMEOUT_MS, pass_on, sample);
    char limit[24], percent[32] = "", older[AGE_PIECE_MAX] = "true";
    bool small = rows <= SAMPLE_SMALL_ROWS || count >= rows / 4;
    (void)snprintf(limit, sizeof(limit), "%zu", count);
    if (horizon[0] != '\0')
        put_age(older, ">", horizon);
    if (!small) { /* the pages that hold about @count of the planner's @rows rows, with a margin */
        double wanted = fmax(1.5 * (double)count, SAMPLE_ROWS_MIN);
        (void)snprintf(percent, sizeof(percent), "%.6f", fmin(100.0 * wanted / (double)rows, 100.0));
    }
    enum err err = read_lines(&l, table, small ? "sample_small" : "sample",
                              SQL_BINDINGS({"older", older}, {"limit", limit}, {"percent", percent}), e);
    return err == ERR_OK ? ERR_OK : error_prefix(e, err, "sample of table %s", s->tables[table].name);
}

/* A table's share of the sample is its share of the rows. */
enum err scan_sample(struct source *s, const char *horizon, size_t count, scan_row_fn *fn, void *arg,
                     struct error *e)
{
    struct sample sample = {fn, arg};
    uint64_t all = 0;
    enum err err = source_ready(s, e);
    if (err != ERR_OK)
        return err;
    uint64_t *rows = calloc(s->table_count, sizeof(*rows));
    if (rows == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    for (unsigned i = 0; i < s->table_count && err == ERR_OK; i++) {
        err = source_table_rows(s, i, &rows[i], e);
        all += rows[i];
    }
    for (unsigned i = 0; i < s->table_count && err == ERR_OK; i++) {
        size_t share = all == 0 ? count : (size_t)((double)count * (double)rows[i] / (double)all + 0.5);
        if (share > 0)
            err = sample_table(s, i, horizon, share, rows[i], &sample, e);
    }
    free(rows);
    return err;
}
