/* SPDX-License-Identifier: MIT */
/* Parsing a view: the fields that occur once, those for each lane or writer, and the conditions between
 * fields. */
#include "shard/view/log_view.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "base/log.h"
#include "base/number.h"
#include "base/span.h"

/* --- fields that occur once, or once for each slot --- */

/* "<number>:<era>" */
static bool parse_lane(struct log_lane *out, struct span text)
{
    return span_cut_u64(&text, ':', &out->number) && out->number != 0 &&
           text.length == REPLICATION_ID_DIGITS && number_hex64(text.at, text.length, &out->era);
}

/* The last piece of a value. */
static bool parse_id(struct log_id *out, struct span *rest)
{
    struct span id;
    return span_cut(rest, ' ', &id) && rest->at == NULL && log_id_parse(out, id.at, id.length);
}

static bool parse_lanes(void *view, struct span value)
{
    struct log_view *v = view;
    struct span one;
    for (v->lane_count = 0; span_cut(&value, ',', &one); v->lane_count++)
        if (v->lane_count == LOG_LANES_MAX || !parse_lane(&v->lane[v->lane_count], one))
            return false;
    return true;
}

/* "<node>,<node>..." */
static bool parse_lane_nodes(void *view, struct span value)
{
    struct log_view *v = view;
    struct span one;
    bool any = value.length > 0;
    for (v->lane_node_count = 0; any && span_cut(&value, ',', &one);) {
        if (one.length == 0 || one.length >= NODE_NAME_MAX || v->lane_node_count == LOG_LANES_MAX)
            return false;
        (void)snprintf(v->lane_node[v->lane_node_count++], NODE_NAME_MAX, "%.*s", (int)one.length, one.at);
    }
    return true;
}

static bool parse_eras(void *eras, struct span value)
{
    return trusted_parse(eras, value.at, value.length);
}

static bool parse_token(void *writer, struct span value)
{
    return log_token_parse(writer, value.at, value.length);
}

/* "<generation> <n>[ <lane number>:<era> <id>...]". Keys of a generation that had the slot before do not
 * count. */
static bool parse_keys(void *generation, struct span value)
{
    struct log_generation *g = generation;
    struct span lane, id;
    if (!span_cut_u64(&value, ' ', &g->keys_of) || !span_cut_u64(&value, ' ', &g->keys))
        return false;
    for (; span_cut(&value, ' ', &lane); g->counted_lanes++) {
        struct log_counted *out = &g->counted[g->counted_lanes];
        if (g->counted_lanes == LOG_LANES_MAX || !parse_lane(&out->lane, lane) ||
            !span_cut(&value, ' ', &id) || !log_id_parse(&out->id, id.at, id.length))
            return false;
    }
    return true;
}

/* "<generation> <layer>.<shard> <ms>" */
static bool parse_lost(void *lost, struct span value)
{
    struct log_lost *out = lost;
    uint64_t layer, shard;
    if (!span_cut_u64(&value, ' ', &out->generation) || !span_cut_u64(&value, '.', &layer) ||
        layer >= GENERATION_LAYERS_MAX || !span_cut_u64(&value, ' ', &shard) || shard > UINT32_MAX ||
        !span_cut_u64(&value, ' ', &out->since_ms))
        return false;
    out->layer = (unsigned)layer;
    out->shard = (uint32_t)shard;
    return value.at == NULL;
}

static bool parse_writer_id(uint8_t id[LOG_WRITER_BYTES], struct span text)
{
    uint64_t byte = 0;
    if (text.length != (size_t)2 * LOG_WRITER_BYTES)
        return false;
    for (unsigned i = 0; i < LOG_WRITER_BYTES; i++) {
        if (!number_hex64(text.at + (size_t)2 * i, 2, &byte))
            return false;
        id[i] = (uint8_t)byte;
    }
    return true;
}

/* "<id>:<registration> ...", separated by blanks */
static bool parse_left(void *view, struct span value)
{
    struct log_view *v = view;
    struct span one, id;
    while (value.length > 0 && span_cut(&value, ' ', &one)) {
        struct log_left *out = &v->left[v->left_count];
        if (v->left_count == LOG_LEFT_MAX || !span_cut(&one, ':', &id) || !parse_writer_id(out->id, id) ||
            !span_cut_u64(&one, ':', &out->registration) || one.at != NULL)
            return false;
        v->left_count++;
    }
    return true;
}

/* "<id> <id>...", 16 hexadecimal digits each, separated by blanks */
static bool parse_history(void *view, struct span value)
{
    enum { DIGITS = 16 };
    struct log_view *v = view;
    struct span id;
    bool any = value.length > 0;
    while (any && span_cut(&value, ' ', &id))
        if (v->history_count == LOG_HISTORY_MAX || id.length != DIGITS ||
            !number_hex64(id.at, DIGITS, &v->history[v->history_count++]))
            return false;
    return true;
}

/* The format was checked before all other fields. The size is for people; the generation also says it. */
static bool parse_no_more(void *view, struct span value)
{
    uint64_t number;
    (void)view;
    return number_u64(value.at, value.length, &number);
}

/* How to parse a field's value, and the type of the member. */
enum kind {
    HEX,        /* uint64_t, 16 digits */
    NUMBER,     /* uint64_t */
    POSITIVE,   /* uint64_t, not 0 */
    WORD,       /* uint32_t */
    BIT,        /* bool */
    GENERATION, /* struct generation; "" has the number 0 */
    OTHER       /* parsed by row->parse */
};

struct row {
    const char *name;
    size_t offset;                                  /* of the member */
    bool (*parse)(void *member, struct span value); /* OTHER */
    const char *expected;                           /* OTHER: the form of the value, for error texts */
    enum kind kind;
    bool is_optional;
};

#define FIELD(text, as, member) .name = (text), .kind = (as), .offset = offsetof(struct log_view, member)
#define MEMBER(text, member, fn, form) FIELD(text, OTHER, member), .parse = (fn), .expected = (form)
#define WHOLE(text, fn, form) .name = (text), .kind = OTHER, .parse = (fn), .expected = (form)
#define TOKEN "a number and 16 hexadecimal digits"
#define KEYS "\"<generation> <keys>[ <lane number>:<era> <id>...]\""
#define LOST "\"<generation> <layer>.<shard> <ms>\""
static const struct row known[] = {
    {WHOLE("format", parse_no_more, "a whole number")},
    {FIELD("incarnation", HEX, incarnation)},
    {FIELD("version", POSITIVE, version)},
    {FIELD("seed", HEX, seed)},
    {FIELD("last_generation", NUMBER, last_generation)},
    {FIELD("expansion", WORD, expansion)},
    {FIELD("shard_bytes", WORD, shard_bytes)},
    {FIELD("sourced", BIT, sourced)},
    {FIELD("degraded", BIT, degraded)},
    {FIELD("deleting", BIT, deleting)},
    {FIELD("bloom_filter_current_index", BIT, current)},
    {WHOLE("bloom_filter_size", parse_no_more, "a whole number")},
    {WHOLE("lanes", parse_lanes, "\"<number>:<replication id>,...\"")},
    {WHOLE("lane_nodes", parse_lane_nodes, "names of nodes")},
    {MEMBER("eras", eras, parse_eras, "replication ids")},
    {FIELD("generation0", GENERATION, slot[0].shape)},
    {FIELD("generation1", GENERATION, slot[1].shape)},
    {MEMBER("token0", slot[0].writer, parse_token, TOKEN)},
    {MEMBER("token1", slot[1].writer, parse_token, TOKEN)},
    {MEMBER("keys0", slot[0], parse_keys, KEYS), .is_optional = true},
    {MEMBER("keys1", slot[1], parse_keys, KEYS), .is_optional = true},
    {FIELD("filled0", NUMBER, slot[0].filled), .is_optional = true},
    {FIELD("filled1", NUMBER, slot[1].filled), .is_optional = true},
    {FIELD("next0", GENERATION, slot[0].next), .is_optional = true},
    {FIELD("next1", GENERATION, slot[1].next), .is_optional = true},
    {MEMBER("lost0", slot[0].lost, parse_lost, LOST), .is_optional = true},
    {MEMBER("lost1", slot[1].lost, parse_lost, LOST), .is_optional = true},
    {WHOLE("left", parse_left, "writers that have left, each with its registration"), .is_optional = true},
    {WHOLE("history", parse_history, "replication ids of 16 hexadecimal digits each"), .is_optional = true},
    {FIELD("near", NUMBER, near), .is_optional = true},
    {FIELD("strays", BIT, strays), .is_optional = true},
    {FIELD("expire_at", NUMBER, expire_at_ms), .is_optional = true},
    {FIELD("healthy_ms", NUMBER, healthy_ms), .is_optional = true},
};

enum { ROWS = sizeof(known) / sizeof(known[0]) };

/* --- fields for each lane, or each writer --- */

static bool parse_index(struct span text, unsigned count, unsigned *out)
{
    uint64_t n;
    if (!number_u64(text.at, text.length, &n) || n >= count)
        return false;
    *out = (unsigned)n;
    return true;
}

/* "<lane number> <position> <layers>" */
static bool parse_folded(struct log_view *v, unsigned slot, unsigned lane, struct span value)
{
    struct log_folded *out = &v->slot[slot].folded[lane];
    struct span id, bytes;
    uint64_t layers;
    if (!span_cut_u64(&value, ' ', &out->lane_number) || !span_cut(&value, ' ', &id) ||
        !span_cut(&value, ' ', &bytes) || !span_cut_u64(&value, ' ', &layers) || value.at != NULL ||
        layers > GENERATION_LAYERS_MAX)
        return false;
    size_t length = (size_t)(bytes.at - id.at) + bytes.length;
    out->layers = (unsigned)layers;
    return log_position_parse(&out->position, id.at, length, NULL) == ERR_OK;
}

/* "<generation> <lane number>:<era> <id>" */
static bool parse_full(struct log_view *v, unsigned slot, unsigned lane, struct span value)
{
    struct log_full_at *out = &v->slot[slot].full[lane];
    struct span in;
    return span_cut_u64(&value, ' ', &out->generation) && span_cut(&value, ' ', &in) &&
           parse_lane(&out->lane, in) && parse_id(&out->id, &value);
}

/* "<lane number> <id>" */
static bool parse_hold(struct log_view *v, unsigned slot, unsigned lane, struct span value)
{
    (void)slot;
    struct log_hold *out = &v->hold[lane];
    return span_cut_u64(&value, ' ', &out->lane_number) && parse_id(&out->from, &value);
}

/* "<lane>.<number>:<era>" */
static bool parse_said(struct log_said *out, struct span text)
{
    struct log_lane stream;
    struct span lane;
    if (!span_cut(&text, '.', &lane) || !parse_index(lane, LOG_LANES_MAX, &out->lane) ||
        !parse_lane(&stream, text))
        return false;
    out->number = stream.number;
    out->era = stream.era;
    return true;
}

/* "<registration>[?] <lane>.<number>:<era>...", separated by blanks; @id: the end of the field's name */
static bool parse_writer(struct log_writer *w, struct span id, struct span value)
{
    struct span one;
    *w = (struct log_writer){.said_count = 0};
    if (!parse_writer_id(w->id, id) || !span_cut(&value, ' ', &one))
        return false;
    w->in_doubt = one.length > 0 && one.at[one.length - 1] == '?';
    if (!number_u64(one.at, one.length - w->in_doubt, &w->registration) || w->registration == 0)
        return false;
    while (span_cut(&value, ' ', &one))
        if (w->said_count == LOG_LANES_MAX || !parse_said(&w->said[w->said_count++], one))
            return false;
    return true;
}

/* True if the name of @f begins with @prefix. *@rest: the rest of the name. */
static bool begins(const struct view_field *f, const char *prefix, struct span *rest)
{
    size_t at = strlen(prefix);
    if (f->name_length < at || memcmp(f->name, prefix, at) != 0)
        return false;
    *rest = (struct span){f->name + at, f->name_length - at};
    return true;
}

static const struct family {
    const char *prefix;
    bool of_slot; /* the name ends in "<slot>.<lane>"; else in "<lane>" */
    bool (*parse)(struct log_view *v, unsigned slot, unsigned lane, struct span value);
    const char *expected;
} families[] = {{"folded", true, parse_folded, "\"<lane number> <position> <layers>\""},
                {"full", true, parse_full, "\"<generation> <lane number>:<era> <id>\""},
                {"hold.", false, parse_hold, "\"<lane number> <id>\""}};

/* ERR_PARSE, with a text that names the field, what it must be, and its value. */
static enum err damaged(struct error *e, const struct view_field *f, const char *wanted)
{
    char text[64]; /* the value's beginning: generations are long */
    size_t n = f->value_length < sizeof(text) - 1 ? f->value_length : sizeof(text) - 1;
    memcpy(text, f->value, n);
    text[n] = '\0';
    return error_set(e, ERR_PARSE, "field %.*s must be %s; here is %s", (int)f->name_length, f->name, wanted,
                     log_quote(text));
}

/* Parse @f, if its name is that of a family; else skip it. */
static enum err parse_family(struct log_view *v, const struct view_field *f, struct error *e)
{
    struct span rest, piece, value = {f->value, f->value_length};
    unsigned slot = 0, lane;
    if (begins(f, "writer.", &rest)) {
        if (v->writer_count == LOG_WRITERS_MAX)
            return damaged(e, f, "left out: there are too many writers");
        if (!parse_writer(&v->writer[v->writer_count++], rest, value))
            return damaged(
                e, f, "a writer's registration and the lanes of which it has said that no entry is missing");
    }
    for (unsigned i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        const struct family *one = &families[i];
        if (!begins(f, one->prefix, &rest))
            continue;
        bool is_known = !one->of_slot ||
                        (span_cut(&rest, '.', &piece) && parse_index(piece, 2, &slot) && rest.at != NULL);
        if (is_known && parse_index(rest, LOG_LANES_MAX, &lane) && !one->parse(v, slot, lane, value))
            return damaged(e, f, one->expected);
    }
    return ERR_OK; /* also a field of a later version */
}

/* --- rows --- */

static bool parse_number(uint64_t *out, uint64_t least, uint64_t most, struct span value)
{
    uint64_t n = 0;
    bool ok = number_u64(value.at, value.length, &n) && n >= least && n <= most;
    *out = n;
    return ok;
}

static bool parse_value(struct log_view *v, const struct row *row, struct span value, struct error *why)
{
    void *member = (char *)v + row->offset;
    uint64_t n = 0;
    bool ok = false;
    switch (row->kind) {
    case HEX:
        return value.length == 16 && number_hex64(value.at, value.length, member);
    case NUMBER:
        return parse_number(member, 0, UINT64_MAX, value);
    case POSITIVE:
        return parse_number(member, 1, UINT64_MAX, value);
    case WORD:
        ok = parse_number(&n, 0, UINT32_MAX, value);
        *(uint32_t *)member = (uint32_t)n;
        return ok;
    case BIT:
        ok = value.length == 1 && (*value.at == '0' || *value.at == '1');
        *(bool *)member = ok && *value.at == '1';
        return ok;
    case GENERATION:
        ((struct generation *)member)->number = 0;
        return value.length == 0 || generation_parse(member, value.at, value.length, why) == ERR_OK;
    case OTHER:
        break;
    }
    return row->parse(member, value);
}

static const char *expected(const struct row *row)
{
    static const char *const texts[] = {[HEX] = "16 hexadecimal digits",
                                        [NUMBER] = "a whole number",
                                        [POSITIVE] = "a whole number, 1 or more",
                                        [WORD] = "a whole number below 2^32",
                                        [BIT] = "0 or 1",
                                        [GENERATION] = "a generation"};
    return row->kind == OTHER ? row->expected : texts[row->kind];
}

static enum err parse_row(struct log_view *v, const struct row *row, const struct view_field *f,
                          struct error *e)
{
    struct error why = {""};
    if (parse_value(v, row, (struct span){f->value, f->value_length}, &why))
        return ERR_OK;
    return why.text[0] == '\0' ? damaged(e, f, expected(row)) /* `why` quotes the part that is wrong */
                               : error_set(e, ERR_PARSE, "field %s: %.250s", row->name, why.text);
}

static bool is_named(const struct view_field *f, const char *name)
{
    return strlen(name) == f->name_length && memcmp(name, f->name, f->name_length) == 0;
}

/* Check the format before all else: the fields of another format may mean other things. */
static enum err check_format(const struct view_field *fields, size_t count, struct error *e)
{
    uint64_t format = 1; /* it had no such field */
    for (size_t i = 0; i < count; i++)
        if (is_named(&fields[i], "format") && !number_u64(fields[i].value, fields[i].value_length, &format))
            return damaged(e, &fields[i], "a whole number");
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

/* Read the fields that have a row, each at most once, and those of families. */
static enum err parse_fields(struct log_view *v, const struct view_field *fields, size_t count,
                             struct error *e)
{
    bool seen[ROWS] = {false};
    enum err code = ERR_OK;
    for (size_t i = 0; i < count && code == ERR_OK; i++) {
        unsigned at = 0;
        while (at < ROWS && !is_named(&fields[i], known[at].name))
            at++;
        if (at == ROWS)
            code = parse_family(v, &fields[i], e);
        else if (seen[at])
            code = error_set(e, ERR_PARSE, "field %s occurs twice", known[at].name);
        else
            code = parse_row(v, &known[at], &fields[i], e);
        if (at < ROWS)
            seen[at] = true;
    }
    for (unsigned i = 0; i < ROWS && code == ERR_OK; i++)
        if (!seen[i] && !known[i].is_optional)
            code = error_set(e, ERR_PARSE, "field %s is missing", known[i].name);
    return code;
}

/* --- the view --- */

static enum err check(const struct log_view *v, struct error *e)
{
    if (v->incarnation == 0)
        return error_set(e, ERR_PARSE, "field incarnation is 0");
    for (unsigned i = 0; i < 2; i++) {
        uint64_t number = v->slot[i].shape.number;
        if (number != 0 && (number % 2 != i || number > v->last_generation))
            return error_set(e, ERR_PARSE,
                             "generation%u has number %" PRIu64
                             ", which is the other slot's or above last_generation",
                             i, number);
    }
    for (unsigned at = 0; at < 2 * LOG_LANES_MAX; at++) {
        const struct log_generation *g = &v->slot[at % 2];
        const struct log_folded *f = &g->folded[at / 2];
        if (g->shape.number != 0 && f->lane_number != 0 && f->layers > g->shape.layer_count)
            return error_set(e, ERR_PARSE, "folded%u.%u names %u layers of %u", at % 2, at / 2, f->layers,
                             g->shape.layer_count);
    }
    if (v->slot[v->current].shape.number == 0)
        return error_set(e, ERR_PARSE, "bloom_filter_current_index names an empty slot");
    return ERR_OK;
}

static void clear(struct log_generation *g)
{
    g->shape.number = g->next.number = g->keys = g->keys_of = g->lost.generation = 0;
    g->counted_lanes = 0;
    g->filled = 0;
    for (unsigned lane = 0; lane < LOG_LANES_MAX; lane++) {
        g->folded[lane] = (struct log_folded){.lane_number = 0};
        g->full[lane].generation = 0;
    }
}

/* Drop what the generation that had the slot before has left. */
static void drop_foreign(struct log_generation *g)
{
    if (g->keys_of != g->shape.number)
        g->keys = g->counted_lanes = 0;
    if (g->next.number != g->shape.number)
        g->next.number = 0;
}

enum err log_view_parse(struct log_view *out, const struct view_field *fields, size_t count, struct error *e)
{
    if (count == 0)
        return error_set(e, ERR_NOT_FOUND, "the filter has no view");
    out->writer_count = out->left_count = out->history_count = 0;
    out->strays = false;
    out->near = out->expire_at_ms = out->healthy_ms = 0;
    for (unsigned s = 0; s < 2; s++)
        clear(&out->slot[s]);
    for (unsigned lane = 0; lane < LOG_LANES_MAX; lane++)
        out->hold[lane].lane_number = 0;
    enum err code = check_format(fields, count, e);
    if (code == ERR_OK)
        code = parse_fields(out, fields, count, e);
    for (unsigned s = 0; s < 2; s++)
        drop_foreign(&out->slot[s]);
    return code == ERR_OK ? check(out, e) : code;
}
