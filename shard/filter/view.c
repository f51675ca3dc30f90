/* SPDX-License-Identifier: MIT */
#include "shard/filter/view.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>
#include "base/log.h"

/* --- fields --- */

bool view_is_bit(const char *value, size_t length)
{
    return length == 1 && (*value == '0' || *value == '1');
}

static bool parse_number(uint64_t *out, uint64_t least, uint64_t most, const char *value, size_t length)
{
    uint64_t n = 0;
    bool ok = number_u64(value, length, &n) && n >= least && n <= most;
    *out = n;
    return ok;
}

static bool parse_word(uint32_t *out, const char *value, size_t length)
{
    uint64_t n = 0;
    bool ok = parse_number(&n, 0, UINT32_MAX, value, length);
    *out = (uint32_t)n;
    return ok;
}

static bool parse_generation(struct generation *g, const char *value, size_t length, struct error *e)
{
    g->number = 0;
    return length == 0 || generation_parse(g, value, length, e) == ERR_OK;
}

static bool parse_value(void *out, const struct view_row *row, const char *value, size_t length,
                        struct error *why)
{
    void *member = (char *)out + row->offset;
    switch (row->kind) {
    case VIEW_HEX:
        return length == 16 && number_hex64(value, length, member);
    case VIEW_NUMBER:
        return parse_number(member, 0, UINT64_MAX, value, length);
    case VIEW_POSITIVE:
        return parse_number(member, 1, UINT64_MAX, value, length);
    case VIEW_WORD:
        return parse_word(member, value, length);
    case VIEW_BIT:
        *(bool *)member = view_is_bit(value, length) && *value == '1';
        return view_is_bit(value, length);
    case VIEW_GENERATION:
        return parse_generation(member, value, length, why);
    case VIEW_OTHER:
        break;
    }
    return row->parse(member, (struct span){value, length});
}

static const char *expected(const struct view_row *row)
{
    static const char *const texts[] = {[VIEW_HEX] = "16 hexadecimal digits",
                                        [VIEW_NUMBER] = "a whole number",
                                        [VIEW_POSITIVE] = "a whole number, 1 or more",
                                        [VIEW_WORD] = "a whole number below 2^32",
                                        [VIEW_BIT] = "0 or 1",
                                        [VIEW_GENERATION] = "a generation"};
    return row->kind == VIEW_OTHER ? row->expected : texts[row->kind];
}

enum err view_damaged(struct error *e, const struct view_field *f, const char *wanted)
{
    char text[64]; /* the value's beginning: generations are long */
    size_t n = f->value_length < sizeof(text) - 1 ? f->value_length : sizeof(text) - 1;
    memcpy(text, f->value, n);
    text[n] = '\0';
    return error_set(e, ERR_PARSE, "field %.*s must be %s; here is %s", (int)f->name_length, f->name, wanted,
                     log_quote(text));
}

static enum err parse_field(void *out, const struct view_row *row, const struct view_field *f,
                            struct error *e)
{
    struct error why = {""};
    if (parse_value(out, row, f->value, f->value_length, &why))
        return ERR_OK;
    return why.text[0] == '\0' ? view_damaged(e, f, expected(row)) /* `why` quotes the part that is wrong */
                               : error_set(e, ERR_PARSE, "field %s: %.250s", row->name, why.text);
}

static bool is_named(const struct view_field *f, const char *name)
{
    return strlen(name) == f->name_length && memcmp(name, f->name, f->name_length) == 0;
}

/* Check the format before all else: the fields of another format may mean other things. */
static enum err check_format(const struct view_field *fields, size_t count, uint64_t format, struct error *e)
{
    for (size_t i = 0; i < count; i++)
        if (is_named(&fields[i], "format") && !number_u64(fields[i].value, fields[i].value_length, &format))
            return view_damaged(e, &fields[i], "a whole number");
    if (format > VIEW_FORMAT)
        return error_set(e, ERR_FORMAT,
                         "filter format %" PRIu64 " is newer than this coordinator supports (%d); upgrade it",
                         format, VIEW_FORMAT);
    if (format < VIEW_FORMAT)
        return error_set(e, ERR_FORMAT,
                         "an earlier version made the filter (format %" PRIu64
                         ", here it is %d): delete it, and "
                         "have it built from its table, or add its keys again",
                         format, VIEW_FORMAT);
    return ERR_OK;
}

enum err view_parse_rows(void *out, const struct view_row *rows, unsigned count, uint64_t absent,
                         const struct view_field *fields, size_t field_count,
                         enum err (*other)(void *out, const struct view_field *f, struct error *e),
                         struct error *e)
{
    bool seen[VIEW_ROWS_MAX] = {false};
    if (field_count == 0)
        return error_set(e, ERR_NOT_FOUND, "the filter has no view");
    enum err code = check_format(fields, field_count, absent, e);
    for (size_t i = 0; i < field_count && code == ERR_OK; i++) {
        unsigned at = 0;
        while (at < count && !is_named(&fields[i], rows[at].name))
            at++;
        if (at == count)
            code = other == NULL ? ERR_OK : other(out, &fields[i], e);
        else if (seen[at])
            code = error_set(e, ERR_PARSE, "field %s occurs twice", rows[at].name);
        else
            code = parse_field(out, &rows[at], &fields[i], e);
        if (at < count)
            seen[at] = true;
    }
    for (unsigned i = 0; i < count && code == ERR_OK; i++)
        if (!seen[i] && !rows[i].is_optional)
            code = error_set(e, ERR_PARSE, "field %s is missing", rows[i].name);
    return code;
}

/* --- the summary --- */

/* "<generation> <keys>", and optionally where the keys were counted */
static bool parse_keys(struct view *v, unsigned slot, struct span value)
{
    return span_cut_u64(&value, ' ', &v->keys_of[slot]) && span_cut_u64(&value, ' ', &v->keys[slot]);
}

static bool parse_keys0(void *v, struct span value)
{
    return parse_keys(v, 0, value);
}

static bool parse_keys1(void *v, struct span value)
{
    return parse_keys(v, 1, value);
}

#define KEYS "a generation's number and keys"
#define FIELD(text, as, member) .name = (text), .kind = (as), .offset = offsetof(struct view, member)
static const struct view_row known[] = {
    {FIELD("incarnation", VIEW_HEX, incarnation)},
    {FIELD("version", VIEW_POSITIVE, epoch)},
    {FIELD("bloom_filter_current_index", VIEW_BIT, current)},
    {FIELD("generation0", VIEW_GENERATION, slot[0])},
    {FIELD("generation1", VIEW_GENERATION, slot[1])},
    {FIELD("last_generation", VIEW_NUMBER, last_generation)},
    {FIELD("expansion", VIEW_WORD, expansion)},
    {FIELD("sourced", VIEW_BIT, sourced)},
    {FIELD("degraded", VIEW_BIT, degraded)},
    {FIELD("deleting", VIEW_BIT, deleting)},
    {.name = "keys0", .kind = VIEW_OTHER, .parse = parse_keys0, .expected = KEYS, .is_optional = true},
    {.name = "keys1", .kind = VIEW_OTHER, .parse = parse_keys1, .expected = KEYS, .is_optional = true},
    {FIELD("expire_at", VIEW_NUMBER, expire_at_ms), .is_optional = true},
    {FIELD("healthy_ms", VIEW_NUMBER, healthy_ms), .is_optional = true},
};

const char *phase_name(enum phase phase)
{
    static const char *const names[] = {[PHASE_STEADY] = "STEADY",
                                        [PHASE_BUILDING] = "BUILDING",
                                        [PHASE_SWITCHED] = "SWITCHED",
                                        [PHASE_OVERFLOW] = "OVERFLOW"};
    return names[phase];
}

/* A later generation beside the current one is being built, or was current before a rollback. An earlier one
 * was current before the cutover. */
static enum phase phase_of(const struct view *v)
{
    const struct generation *current = view_current(v), *other = view_alternate(v);
    if (other == NULL)
        return current->layer_count > 1 ? PHASE_OVERFLOW : PHASE_STEADY;
    return other->number > current->number ? PHASE_BUILDING : PHASE_SWITCHED;
}

enum err view_parse(struct view *out, const struct view_field *fields, size_t count, struct error *e)
{
    for (unsigned s = 0; s < 2; s++)
        out->keys[s] = out->keys_of[s] = 0;
    out->expire_at_ms = out->healthy_ms = 0;
    enum err code = view_parse_rows(out, known, sizeof(known) / sizeof(known[0]), 1, fields, count, NULL, e);
    if (code == ERR_OK && view_current(out)->number == 0)
        code = error_set(e, ERR_PARSE, "bloom_filter_current_index names an empty slot");
    if (code != ERR_OK)
        return code;
    for (unsigned s = 0; s < 2; s++)
        if (out->keys_of[s] != out->slot[s].number)
            out->keys[s] = 0;
    out->phase = phase_of(out);
    return ERR_OK;
}

const struct generation *view_current(const struct view *v)
{
    return &v->slot[v->current];
}

const struct generation *view_alternate(const struct view *v)
{
    const struct generation *g = &v->slot[1 - v->current];
    return g->number == 0 ? NULL : g;
}
