/* SPDX-License-Identifier: MIT */
/* Parsing a view: families of fields, with one field for each lane, slot or writer. Only scripts store
 * them. */
#include "shard/view/log_view_internal.h"

#include <string.h>
#include "base/number.h"

/* The part of the name of @f behind @prefix; NULL: the name does not begin with @prefix. */
static const char *behind(const struct view_field *f, const char *prefix, size_t *length)
{
    size_t at = strlen(prefix);
    if (f->name_length < at || memcmp(f->name, prefix, at) != 0)
        return NULL;
    *length = f->name_length - at;
    return f->name + at;
}

static bool parse_lane_index(const char *text, size_t length, unsigned *lane)
{
    uint64_t n;
    if (!number_u64(text, length, &n) || n >= LOG_LANES_MAX)
        return false;
    *lane = (unsigned)n;
    return true;
}

/* Split "<number> <rest>". */
static bool parse_numbered(const struct view_field *f, uint64_t *number, const char **rest, size_t *length)
{
    const char *blank = memchr(f->value, ' ', f->value_length);
    if (blank == NULL || !number_u64(f->value, (size_t)(blank - f->value), number))
        return false;
    *rest = blank + 1;
    *length = f->value_length - (size_t)(*rest - f->value);
    return true;
}

/* "<slot>.<lane>" */
static bool parse_slot_lane(const char *name, size_t length, unsigned *slot, unsigned *lane)
{
    if (length < 3 || !view_is_bit(name, 1) || name[1] != '.' ||
        !parse_lane_index(name + 2, length - 2, lane))
        return false;
    *slot = *name == '1';
    return true;
}

/* Split " <layers>" off the end. */
static bool take_layers(const char *text, size_t *length, unsigned *layers)
{
    const char *blank = memrchr(text, ' ', *length);
    uint64_t n;
    if (blank == NULL || !number_u64(blank + 1, *length - (size_t)(blank + 1 - text), &n) ||
        n > GENERATION_LAYERS_MAX)
        return false;
    *length = (size_t)(blank - text);
    *layers = (unsigned)n;
    return true;
}

/* "folded<slot>.<lane>=<lane number> <position> <layers>" */
static enum err parse_folded(struct log_view *v, const struct view_field *f, const char *name, size_t length,
                             struct error *e)
{
    struct log_folded *out;
    const char *text;
    unsigned slot, lane;
    if (!parse_slot_lane(name, length, &slot, &lane))
        return ERR_OK; /* a field of a later version */
    out = &v->slot[slot].folded[lane];
    if (!parse_numbered(f, &out->lane_number, &text, &length) || !take_layers(text, &length, &out->layers) ||
        log_position_parse(&out->position, text, length, NULL) != ERR_OK)
        return view_damaged(e, f, "\"<lane number> <position> <layers>\"");
    return ERR_OK;
}

/* "full<slot>.<lane>=<generation> <lane number>:<era> <id>" */
static enum err parse_full(struct log_view *v, const struct view_field *f, const char *name, size_t length,
                           struct error *e)
{
    const char *text, *blank;
    unsigned slot, lane;
    if (!parse_slot_lane(name, length, &slot, &lane))
        return ERR_OK;
    struct log_full_at *out = &v->slot[slot].full[lane];
    if (!parse_numbered(f, &out->generation, &text, &length) || (blank = memchr(text, ' ', length)) == NULL ||
        !log_view_parse_lane(&out->lane, text, (size_t)(blank - text)) ||
        !log_id_parse(&out->id, blank + 1, length - (size_t)(blank + 1 - text)))
        return view_damaged(e, f, "\"<generation> <lane number>:<era> <id>\"");
    return ERR_OK;
}

/* " <lane number>:<era> <id>", repeated */
static bool parse_counted(struct log_generation *g, const char *text, size_t length)
{
    const char *end = text + length;
    while (text < end) {
        const char *first = text + 1, *blank = memchr(first, ' ', (size_t)(end - first));
        const char *next = blank == NULL ? NULL : memchr(blank + 1, ' ', (size_t)(end - blank - 1));
        struct log_counted *out = &g->counted[g->counted_lanes];
        next = next == NULL ? end : next;
        if (blank == NULL || g->counted_lanes == LOG_LANES_MAX ||
            !log_view_parse_lane(&out->lane, first, (size_t)(blank - first)) ||
            !log_id_parse(&out->id, blank + 1, (size_t)(next - blank - 1)))
            return false;
        g->counted_lanes++;
        text = next;
    }
    return true;
}

/* "keys<slot>=<generation> <n>[ <lane number>:<era> <id>...]". Keys of a generation that had the slot before
 * do not count. */
static enum err parse_keys(struct log_view *v, const struct view_field *f, const char *name, size_t length,
                           struct error *e)
{
    const char *text;
    if (length != 1 || !view_is_bit(name, 1))
        return ERR_OK;
    struct log_generation *out = &v->slot[*name == '1'];
    if (!parse_numbered(f, &out->keys_of, &text, &length))
        return view_damaged(e, f, "\"<generation> <keys>...\"");
    const char *blank = memchr(text, ' ', length);
    size_t first = blank == NULL ? length : (size_t)(blank - text);
    if (!number_u64(text, first, &out->keys) || !parse_counted(out, text + first, length - first))
        return view_damaged(e, f, "\"<generation> <keys>[ <lane number>:<era> <id>...]\"");
    return ERR_OK;
}

/* "next<slot>=<generation>" */
static enum err parse_next(struct log_view *v, const struct view_field *f, const char *name, size_t length,
                           struct error *e)
{
    struct error why = {""};
    if (length != 1 || !view_is_bit(name, 1))
        return ERR_OK;
    if (generation_parse(&v->slot[*name == '1'].next, f->value, f->value_length, &why) != ERR_OK)
        return error_set(e, ERR_PARSE, "field %.*s: %.250s", (int)f->name_length, f->name, why.text);
    return ERR_OK;
}

/* "lost<slot>=<generation> <layer>.<shard> <ms>" */
static enum err parse_lost(struct log_view *v, const struct view_field *f, const char *name, size_t length,
                           struct error *e)
{
    const char *text, *dot, *blank = NULL;
    uint64_t layer, shard;
    if (length != 1 || !view_is_bit(name, 1))
        return ERR_OK;
    struct log_lost *out = &v->slot[*name == '1'].lost;
    if (!parse_numbered(f, &out->generation, &text, &length) || (dot = memchr(text, '.', length)) == NULL ||
        !number_u64(text, (size_t)(dot - text), &layer) || layer >= GENERATION_LAYERS_MAX ||
        (blank = memchr(dot, ' ', length - (size_t)(dot - text))) == NULL ||
        !number_u64(dot + 1, (size_t)(blank - dot - 1), &shard) || shard > UINT32_MAX ||
        !number_u64(blank + 1, length - (size_t)(blank + 1 - text), &out->since_ms))
        return view_damaged(e, f, "\"<generation> <layer>.<shard> <ms>\"");
    out->layer = (unsigned)layer;
    out->shard = (uint32_t)shard;
    return ERR_OK;
}

/* "hold.<lane>=<lane number> <id>" */
static enum err parse_hold(struct log_view *v, const struct view_field *f, const char *name, size_t length,
                           struct error *e)
{
    const char *text;
    unsigned lane;
    if (!parse_lane_index(name, length, &lane))
        return ERR_OK;
    struct log_hold *out = &v->hold[lane];
    if (!parse_numbered(f, &out->lane_number, &text, &length) || !log_id_parse(&out->from, text, length))
        return view_damaged(e, f, "\"<lane number> <id>\"");
    return ERR_OK;
}

/* "near=<generation>" */
static enum err parse_near(struct log_view *v, const struct view_field *f, const char *name, size_t length,
                           struct error *e)
{
    (void)name;
    return length == 0 && !number_u64(f->value, f->value_length, &v->near)
               ? view_damaged(e, f, "the number of a generation")
               : ERR_OK;
}

static bool parse_writer_id(uint8_t id[LOG_WRITER_BYTES], const char *text, size_t length)
{
    uint64_t byte = 0;
    if (length != (size_t)2 * LOG_WRITER_BYTES)
        return false;
    for (unsigned i = 0; i < LOG_WRITER_BYTES; i++) {
        if (!number_hex64(text + (size_t)2 * i, 2, &byte))
            return false;
        id[i] = (uint8_t)byte;
    }
    return true;
}

/* "<lane>.<number>:<era>" */
static bool parse_one_said(struct log_said *out, const char *text, size_t length)
{
    struct log_lane lane;
    const char *dot = memchr(text, '.', length);
    if (dot == NULL || !parse_lane_index(text, (size_t)(dot - text), &out->lane) ||
        !log_view_parse_lane(&lane, dot + 1, length - (size_t)(dot + 1 - text)))
        return false;
    out->number = lane.number;
    out->era = lane.era;
    return true;
}

/* "<id>:<registration>" */
static bool parse_one_left(struct log_left *out, const char *text, size_t length)
{
    enum { DIGITS = 2 * LOG_WRITER_BYTES };
    return length > DIGITS && text[DIGITS] == ':' && parse_writer_id(out->id, text, DIGITS) &&
           number_u64(text + DIGITS + 1, length - DIGITS - 1, &out->registration);
}

/* "left=<id>:<registration> ...", separated by blanks */
static enum err parse_left(struct log_view *v, const struct view_field *f, const char *name, size_t length,
                           struct error *e)
{
    const char *text = f->value, *end = f->value + f->value_length;
    (void)name;
    if (length != 0)
        return ERR_OK;
    while (text < end) {
        const char *blank = memchr(text, ' ', (size_t)(end - text)), *stop = blank == NULL ? end : blank;
        if (v->left_count == LOG_LEFT_MAX ||
            !parse_one_left(&v->left[v->left_count++], text, (size_t)(stop - text)))
            return view_damaged(e, f, "writers that have left, each with its registration");
        text = blank == NULL ? end : blank + 1;
    }
    return ERR_OK;
}

/* "history=<id> <id>...", 16 hexadecimal digits each, separated by blanks */
static enum err parse_history(struct log_view *v, const struct view_field *f, const char *name, size_t length,
                              struct error *e)
{
    enum { DIGITS = 16 };
    (void)name;
    if (length != 0)
        return ERR_OK;
    for (size_t at = 0; at < f->value_length; at += DIGITS + 1) {
        bool is_last = at + DIGITS == f->value_length;
        if (v->history_count == LOG_HISTORY_MAX || at + DIGITS > f->value_length ||
            !number_hex64(f->value + at, DIGITS, &v->history[v->history_count++]) ||
            (!is_last && (f->value[at + DIGITS] != ' ' || at + DIGITS + 1 == f->value_length)))
            return view_damaged(e, f, "replication ids of 16 hexadecimal digits each");
    }
    return ERR_OK;
}

/* "strays=<0|1>" */
static enum err parse_strays(struct log_view *v, const struct view_field *f, const char *name, size_t length,
                             struct error *e)
{
    (void)name;
    if (length != 0)
        return ERR_OK;
    if (!view_is_bit(f->value, f->value_length))
        return view_damaged(e, f, "0 or 1");
    v->strays = *f->value == '1';
    return ERR_OK;
}

/* "<registration>" or "<registration>?" */
static bool parse_registration(struct log_writer *w, const char *text, size_t length)
{
    w->in_doubt = length > 0 && text[length - 1] == '?';
    return number_u64(text, length - w->in_doubt, &w->registration) && w->registration != 0;
}

/* "<registration> <lane>.<number>:<era>...", separated by blanks */
static bool parse_said(struct log_writer *w, const char *text, size_t length)
{
    const char *end = text + length, *blank = memchr(text, ' ', length);
    if (!parse_registration(w, text, (size_t)((blank == NULL ? end : blank) - text)))
        return false;
    while (blank != NULL && w->said_count < LOG_LANES_MAX) {
        text = blank + 1;
        blank = memchr(text, ' ', (size_t)(end - text));
        if (!parse_one_said(&w->said[w->said_count++], text, (size_t)((blank == NULL ? end : blank) - text)))
            return false;
    }
    return blank == NULL;
}

/* "writer.<id>=<registration> <lane>.<number>:<era>..." */
static enum err parse_writer(struct log_view *v, const struct view_field *f, const char *name, size_t length,
                             struct error *e)
{
    struct log_writer *w = &v->writer[v->writer_count];
    if (v->writer_count == LOG_WRITERS_MAX)
        return view_damaged(e, f, "left out: there are too many writers");
    *w = (struct log_writer){.said_count = 0};
    if (!parse_writer_id(w->id, name, length) || !parse_said(w, f->value, f->value_length))
        return view_damaged(
            e, f, "a writer's registration and the lanes of which it has said that no entry is missing");
    v->writer_count++;
    return ERR_OK;
}

static const struct family {
    const char *prefix;
    enum err (*parse)(struct log_view *v, const struct view_field *f, const char *name, size_t length,
                      struct error *e);
} families[] = {{"folded", parse_folded},   {"full", parse_full},     {"hold.", parse_hold},
                {"keys", parse_keys},       {"next", parse_next},     {"left", parse_left},
                {"lost", parse_lost},       {"strays", parse_strays}, {"writer.", parse_writer},
                {"history", parse_history}, {"near", parse_near}};

enum err log_view_parse_family(void *out, const struct view_field *f, struct error *e)
{
    for (unsigned i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        size_t length;
        const char *name = behind(f, families[i].prefix, &length);
        if (name != NULL)
            return families[i].parse(out, f, name, length, e);
    }
    return ERR_OK;
}
