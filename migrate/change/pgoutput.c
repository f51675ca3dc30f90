/* SPDX-License-Identifier: MIT */
#include "migrate/change/pgoutput.h"

#include <ctype.h>
#include <string.h>

#include "migrate/source/source.h"

/* The rest of the message. Reading beyond its end gives zeros and sets @cut. */
struct reader {
    const uint8_t *at;
    const uint8_t *end;
    bool cut;
};

/* Skip @n bytes and return a pointer to them; NULL: there are fewer. */
static const uint8_t *take(struct reader *r, size_t n)
{
    if (n > (size_t)(r->end - r->at)) {
        r->cut = true;
        r->at = r->end;
        return NULL;
    }
    const uint8_t *from = r->at;
    r->at += n;
    return from;
}

/* Read a big-endian number of at most 8 bytes. */
static uint64_t take_number(struct reader *r, size_t bytes)
{
    const uint8_t *p = take(r, bytes);
    uint64_t value = 0;
    for (size_t i = 0; p != NULL && i < bytes; i++)
        value = value << 8 | p[i];
    return value;
}

static uint8_t take_u8(struct reader *r)
{
    return (uint8_t)take_number(r, 1);
}

static uint16_t take_u16(struct reader *r)
{
    return (uint16_t)take_number(r, 2);
}

static uint32_t take_u32(struct reader *r)
{
    return (uint32_t)take_number(r, 4);
}

static uint64_t take_u64(struct reader *r)
{
    return take_number(r, 8);
}

/* Read a NUL-terminated string; "": its end is missing. */
static const char *take_string(struct reader *r)
{
    const uint8_t *nul = r->at == r->end ? NULL : memchr(r->at, '\0', (size_t)(r->end - r->at));
    if (nul == NULL) {
        r->cut = true;
        r->at = r->end;
        return "";
    }
    const uint8_t *from = r->at;
    r->at = nul + 1;
    return (const char *)from;
}

static enum err malformed(struct error *e, const char *what, unsigned byte)
{
    return error_set(e, ERR_PARSE, "pgoutput: %s 0x%02x ('%c')", what, byte,
                     isprint((int)byte) ? (int)byte : '?');
}

/* --- relations --- */

static const char *take_column(struct reader *r)
{
    (void)take_u8(r); /* 1: part of the replica identity */
    const char *name = take_string(r);
    (void)take_u32(r); /* type's oid */
    (void)take_u32(r); /* type modifier */
    return name;
}

static void decode_relation(struct pgoutput_relation *out, struct reader *r)
{
    out->relid = take_u32(r);
    out->schema = take_string(r);
    out->name = take_string(r);
    out->identity = (char)take_u8(r);
    out->column_count = take_u16(r);
    out->columns = r->at;
    for (unsigned i = 0; i < out->column_count && !r->cut; i++)
        (void)take_column(r);
    out->end = r->at;
}

bool pgoutput_find_column(const struct pgoutput_relation *relation, const char *name, uint16_t *out)
{
    struct reader r = {.at = relation->columns, .end = relation->end};
    for (uint16_t i = 0; i < relation->column_count; i++) {
        if (strcmp(take_column(&r), name) == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

/* --- rows --- */

static struct pgoutput_value take_value(struct reader *r)
{
    struct pgoutput_value value = {.kind = (enum pgoutput_value_kind)take_u8(r), .bytes = ""};
    if (value.kind != PGOUTPUT_TEXT && value.kind != PGOUTPUT_BINARY)
        return value;
    size_t length = take_u32(r);
    const uint8_t *bytes = take(r, length);
    if (bytes != NULL) {
        value.bytes = (const char *)bytes;
        value.length = length;
    }
    return value;
}

static enum err decode_row(struct pgoutput_row *out, struct reader *r, struct error *e)
{
    out->count = take_u16(r);
    out->values = r->at;
    for (unsigned i = 0; i < out->count && !r->cut; i++) {
        struct pgoutput_value value = take_value(r);
        switch (value.kind) {
        case PGOUTPUT_NULL:
        case PGOUTPUT_UNCHANGED:
        case PGOUTPUT_TEXT:
        case PGOUTPUT_BINARY:
            break;
        default:
            return r->cut ? ERR_OK : malformed(e, "a value of unknown kind", value.kind);
        }
    }
    out->end = r->at;
    return ERR_OK;
}

struct pgoutput_value pgoutput_value_at(const struct pgoutput_row *row, uint16_t index)
{
    struct reader r = {.at = row->values, .end = row->end};
    struct pgoutput_value value = take_value(&r);
    for (uint16_t i = 0; i < index; i++)
        value = take_value(&r);
    return value;
}

/* Read the old row, if there is one ('K' or 'O'), then the new one ('N'). */
static enum err decode_change(struct pgoutput_message *m, struct reader *r, struct error *e)
{
    struct pgoutput_change *change = &m->change;
    *change = (struct pgoutput_change){.relid = take_u32(r)};
    uint8_t part = take_u8(r);
    if ((part == 'K' || part == 'O') && m->kind != PGOUTPUT_INSERT) {
        change->old_kind = (char)part;
        enum err err = decode_row(&change->old_row, r, e);
        if (err != ERR_OK || m->kind == PGOUTPUT_DELETE)
            return err;
        part = take_u8(r);
    }
    if (r->cut)
        return ERR_OK;
    if (part != 'N' || m->kind == PGOUTPUT_DELETE)
        return malformed(e, "a row of unexpected kind", part);
    change->has_new = true;
    return decode_row(&change->new_row, r, e);
}

/* --- messages --- */

static enum err decode_commit(struct pgoutput_message *m, struct reader *r, struct error *e)
{
    uint8_t flags = take_u8(r);
    if (flags != 0)
        return malformed(e, "a commit with unknown flags", flags);
    m->commit.commit_lsn = take_u64(r);
    m->commit.end_lsn = take_u64(r);
    (void)take_u64(r); /* time */
    return ERR_OK;
}

/* Messages without use are decoded, too: malformed bytes must not pass. */
static enum err decode_body(struct pgoutput_message *m, struct reader *r, struct error *e)
{
    uint32_t relations;
    switch (m->kind) {
    case PGOUTPUT_BEGIN:
        m->begin.commit_lsn = take_u64(r);
        m->begin.commit_us = take_u64(r) + (uint64_t)PGOUTPUT_EPOCH_S * 1000 * 1000;
        m->begin.xid = take_u32(r);
        return ERR_OK;
    case PGOUTPUT_COMMIT:
        return decode_commit(m, r, e);
    case PGOUTPUT_RELATION:
        decode_relation(&m->relation, r);
        return ERR_OK;
    case PGOUTPUT_INSERT:
    case PGOUTPUT_UPDATE:
    case PGOUTPUT_DELETE:
        return decode_change(m, r, e);
    case PGOUTPUT_TRUNCATE:
        relations = take_u32(r);
        (void)take_u8(r); /* options */
        (void)take(r, (size_t)relations * 4);
        return ERR_OK;
    case PGOUTPUT_ORIGIN:
        (void)take_u64(r); /* position */
        (void)take_string(r);
        return ERR_OK;
    case PGOUTPUT_TYPE:
        (void)take_u32(r); /* oid */
        (void)take_string(r);
        (void)take_string(r);
        return ERR_OK;
    case PGOUTPUT_MESSAGE:
        (void)take_u8(r);  /* flags */
        (void)take_u64(r); /* position */
        (void)take_string(r);
        (void)take(r, take_u32(r));
        return ERR_OK;
    default:
        return malformed(e, "an unknown message", m->kind);
    }
}

enum err pgoutput_decode(struct pgoutput_message *out, const void *bytes, size_t length, struct error *e)
{
    if (length == 0)
        return error_set(e, ERR_PARSE, "pgoutput: an empty message");
    struct reader r = {.at = bytes, .end = (const uint8_t *)bytes + length};
    out->kind = (enum pgoutput_kind)take_u8(&r);
    enum err err = decode_body(out, &r, e);
    if (err != ERR_OK)
        return err;
    if (r.cut)
        return malformed(e, "a message that is cut,", out->kind);
    if (r.at != r.end)
        return malformed(e, "a message with bytes behind its end,", out->kind);
    return ERR_OK;
}

/* --- ids --- */

/* The current value of a column: if it was not sent because it did not change, the old row may have it. */
static struct pgoutput_value current_value(const struct pgoutput_change *change, uint16_t column)
{
    struct pgoutput_value value = pgoutput_value_at(&change->new_row, column);
    if (value.kind != PGOUTPUT_UNCHANGED || change->old_kind == '\0' || column >= change->old_row.count)
        return value;
    struct pgoutput_value old = pgoutput_value_at(&change->old_row, column);
    /* a NULL in an old row of key columns may only mean that the column is not in the key */
    return old.kind == PGOUTPUT_NULL ? value : old;
}

static enum err put_column(const struct pgoutput_change *change, uint16_t column, struct buffer *out,
                           struct error *e)
{
    if (!change->has_new || column >= change->new_row.count)
        return error_set(e, ERR_PARSE, "pgoutput: a row of %u columns has no column %u",
                         (unsigned)change->new_row.count, column + 1u);
    struct pgoutput_value value = current_value(change, column);
    switch (value.kind) {
    case PGOUTPUT_TEXT:
        source_put_value(out, value.bytes, value.length);
        return ERR_OK;
    case PGOUTPUT_NULL:
        return error_set(e, ERR_CONFIG, "a row's id is NULL; ALTER TABLE ... ALTER COLUMN ... SET NOT NULL");
    case PGOUTPUT_UNCHANGED:
        return error_set(e, ERR_CONFIG,
                         "a row's id is so long that Postgres keeps it out of line and did not send it; "
                         "ALTER TABLE ... REPLICA IDENTITY FULL");
    case PGOUTPUT_BINARY:
        break;
    }
    return error_set(e, ERR_PARSE, "pgoutput: a row's id came in binary");
}

enum err pgoutput_put_id(const struct pgoutput_change *change, const uint16_t *columns, size_t count,
                         struct buffer *out, struct error *e)
{
    size_t start = out->length;
    enum err err = ERR_OK;
    for (size_t i = 0; i < count && err == ERR_OK; i++) {
        if (i > 0)
            buffer_append(out, "\t", 1);
        err = put_column(change, columns[i], out, e);
    }
    if (err == ERR_OK && buffer_failed(out))
        err = error_set(e, ERR_NOMEM, "out of memory");
    if (err != ERR_OK)
        out->length = start;
    return err;
}
