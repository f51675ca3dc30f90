/* SPDX-License-Identifier: MIT */
/* The happy path of a roll call is: read the era; look for the own entries; append those that are missing;
 * look for them; say it. Possible failure modes are: the era changes meanwhile (all of it again), the lane is
 * missing (it is to be replaced), the view has another stream or era by now (it is to be read again), a
 * connection breaks (the caller repeats all of it). */
#include "shard/view/roll.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "shard/log/lane_sync.h"
#include "shard/view/view_load.h"

extern const char embedded_roll_register[], embedded_roll_leave[], embedded_roll_say[], embedded_roll_take[],
    embedded_roll_remove[], embedded_roll_draw[], embedded_roll_replace[];

enum {
    PUT_COUNT = 64, /* entries in one write */
    LOOKS_MAX = 16  /* until an era is given up, or an entry that does not come */
};

void roll_init(struct roll *r, struct link *l, const struct names *names,
               const uint8_t writer[LOG_WRITER_BYTES])
{
    struct key_name key;
    *r = (struct roll){.link = l, .names = names};
    memcpy(r->writer, writer, LOG_WRITER_BYTES);
    for (unsigned i = 0; i < LOG_LANES_MAX; i++) {
        lane_key(&key, names, i, 1);
        r->where[i] = nodes_key(link_nodes(l), key.text, key.length);
    }
}

void roll_fini(struct roll *r)
{
    script_fini(&r->call);
}

static struct lane lane_of(const struct roll *r, unsigned lane, const struct log_lane *stream)
{
    struct lane out = {.where = r->where[lane], .era = stream->era};
    lane_key(&out.key, r->names, lane, stream->number);
    return out;
}

void roll_lane(const struct roll *r, const struct log_view *v, unsigned lane, struct lane *out)
{
    *out = lane_of(r, lane, &v->lane[lane]);
}

/* --- scripts --- */

static void begin(struct roll *r, const char *text)
{
    struct key_name key;
    names_filter_key(r->names, "view", &key);
    script_begin(&r->call, text);
    script_key(&r->call, &key);
}

static void put_writer(struct roll *r, const uint8_t writer[LOG_WRITER_BYTES])
{
    char name[LOG_WRITER_NAME_MAX];
    log_writer_name(writer, name);
    script_text(&r->call, name);
}

static void put_lane(struct roll *r, unsigned lane, const struct log_lane *stream)
{
    script_number(&r->call, lane);
    script_number(&r->call, stream->number);
    script_incarnation(&r->call, stream->era); /* 16 digits */
}

static enum err run(struct roll *r, long long *result, struct error *e)
{
    return script_run(&r->call, r->link, link_home(r->link, r->names), result, e);
}

static enum err another_view(const struct roll *r, struct error *e)
{
    return error_set(e, ERR_FENCED, "the view of filter \"%.*s\" is another one by now",
                     (int)r->names->filter_length, r->names->filter);
}

static enum err not_registered(const uint8_t writer[LOG_WRITER_BYTES], struct error *e)
{
    char name[LOG_WRITER_NAME_MAX];
    log_writer_name(writer, name);
    return error_set(e, ERR_NOT_FOUND, "%s is not registered in the view", name);
}

/* --- the register --- */

enum err roll_register(struct roll *r, struct error *e)
{
    long long result = 0;
    struct key_name key;
    begin(r, embedded_roll_register);
    script_incarnation(&r->call, r->names->incarnation);
    put_writer(r, r->writer);
    script_number(&r->call, LOG_WRITERS_MAX);
    enum err code = run(r, &result, e);
    names_filter_key(r->names, "view", &key);
    if (code != ERR_OK || result == 1)
        return code;
    if (result == -1)
        return error_set(e, ERR_CONFLICT, "%.*s: the filter is being deleted", (int)key.length, key.text);
    if (result == -2)
        return error_set(e, ERR_RANGE, "%.*s has %d writers, and there may be no more", (int)key.length,
                         key.text, LOG_WRITERS_MAX);
    return error_set(e, ERR_NOT_FOUND, "%.*s: there is no such view, or it is another incarnation's",
                     (int)key.length, key.text);
}

enum err roll_leave(struct roll *r, struct error *e)
{
    long long unused;
    begin(r, embedded_roll_leave);
    script_incarnation(&r->call, r->names->incarnation);
    put_writer(r, r->writer);
    return run(r, &unused, e);
}

/* --- eras --- */

void roll_forget(const struct roll *r, const struct log_view *v, unsigned lane, struct own *own)
{
    struct lane there = lane_of(r, lane, &v->lane[lane]);
    struct log_id least = {UINT64_MAX, UINT64_MAX};
    for (unsigned slot = 0; slot < 2; slot++) {
        const struct log_generation *g = &v->slot[slot];
        if (g->shape.number == 0 || (!g->shape.built && slot != v->current))
            continue; /* a build begins anew where a lane loses something */
        if (!log_view_is_folded(v, g, lane))
            return;
        if (log_id_compare(g->folded[lane].position.id, least) < 0)
            least = g->folded[lane].position.id;
    }
    own_folded(own, &there, least);
}

static enum err ignore(void *arg, const struct tail_record *record, struct error *e)
{
    (void)arg;
    (void)record;
    (void)e;
    return ERR_OK;
}

/* The era of the lane's node, with what @apply (as lane_apply_fn) is shown: the lane's first entry. */
static enum err look_at_era(struct roll *r, const struct lane *lane, lane_apply_fn *apply, void *arg,
                            struct lane_page *page, struct error *e)
{
    struct lane any = *lane;
    any.era = 0;
    enum err code = lane_look(r->link, &any, (struct log_id){0}, 1, apply, arg, page, e);
    if (code == ERR_OK && page->era == 0)
        code = error_set(e, ERR_UNREACHABLE, "lane %.*s: its node is no master", (int)lane->key.length,
                         lane->key.text);
    return code;
}

static enum err is_missing(const struct lane *lane, struct error *e)
{
    return error_set(e, ERR_LOST, "lane %.*s is missing", (int)lane->key.length, lane->key.text);
}

/* --- answering --- */

struct looking {
    const struct roll *roll;
    const struct lane *lane;
    struct own *own;
};

static enum err note_own(void *arg, const struct tail_record *record, struct error *e)
{
    const struct looking *k = arg;
    (void)e;
    if (record->entry.count > 0 && memcmp(record->entry.writer, k->roll->writer, LOG_WRITER_BYTES) == 0)
        own_found(k->own, k->lane, record->entry.sequence, record->id);
    return ERR_OK;
}

/* The id behind @id; the highest there is stays. */
static struct log_id behind(struct log_id id)
{
    if (++id.number == 0 && ++id.ms == 0)
        return (struct log_id){UINT64_MAX, UINT64_MAX};
    return id;
}

/* Look for all that is missing, to the end of the lane. *@same: the lane's era did not change, and counts. */
static enum err look_for_own(struct roll *r, const struct lane *lane, struct own *own, bool *same,
                             struct error *e)
{
    struct looking k = {r, lane, own};
    struct lane_page page = {.era = lane->era, .length = 1, .more = true};
    struct log_id from;
    enum err code = ERR_OK;
    *same = true;
    if (!own_from(own, &from))
        return ERR_OK;
    while (code == ERR_OK && page.more && *same) {
        code = lane_look(r->link, lane, from, LANE_RANGE_COUNT, note_own, &k, &page, e);
        *same = page.era == lane->era;
        if (code == ERR_OK && *same && page.length == 0)
            code = is_missing(lane, e);
        from = behind(page.last);
    }
    return code;
}

/* Append a batch of what is missing, from *@sequence on. *@count: how many. */
static enum err put_batch(struct roll *r, const struct lane *lane, struct own *own, struct lane_put *put,
                          uint64_t *sequence, unsigned *count, struct error *e)
{
    uint64_t sequences[PUT_COUNT];
    for (*count = 0; *count < PUT_COUNT &&
                     own_missing(own, *sequence, &sequences[*count], put[*count].bytes, &put[*count].length);
         ++*count)
        *sequence = sequences[*count] + 1;
    enum err code = lane_put(r->link, lane, put, *count, e);
    for (unsigned i = 0; i < *count; i++)
        if (put[i].id.ms != 0 || put[i].id.number != 0)
            own_sent(own, lane, sequences[i], put[i].id);
    return code == ERR_NOT_FOUND ? is_missing(lane, e) : code;
}

static enum err put_missing(struct roll *r, const struct lane *lane, struct own *own, struct error *e)
{
    struct lane_put *put = calloc(PUT_COUNT, sizeof(*put));
    uint64_t sequence = 0;
    unsigned count = PUT_COUNT;
    if (put == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    enum err code = ERR_OK;
    while (code == ERR_OK && count == PUT_COUNT)
        code = put_batch(r, lane, own, put, &sequence, &count, e);
    free(put);
    return code;
}

/* *@whole: all own entries were found in the lane under its era. False: the era is another one by now, or an
 * entry is not there yet. */
static enum err make_whole(struct roll *r, const struct lane *lane, struct own *own, bool *whole,
                           struct error *e)
{
    struct log_id unused;
    bool same = true;
    enum err code = look_for_own(r, lane, own, &same, e);
    if (code == ERR_OK && same && own_from(own, &unused)) {
        code = put_missing(r, lane, own, e);
        if (code == ERR_OK)
            code = look_for_own(r, lane, own, &same, e);
    }
    *whole = same && !own_from(own, &unused);
    return code;
}

static enum err say(struct roll *r, unsigned lane, const struct log_lane *stream, struct error *e)
{
    long long result = 0;
    begin(r, embedded_roll_say);
    script_incarnation(&r->call, r->names->incarnation);
    put_writer(r, r->writer);
    put_lane(r, lane, stream);
    enum err code = run(r, &result, e);
    if (code != ERR_OK || result == 1)
        return code;
    return result == -1 ? not_registered(r->writer, e) : another_view(r, e);
}

enum err roll_answer(struct roll *r, const struct log_view *v, unsigned lane, struct own *own, uint64_t *era,
                     struct error *e)
{
    struct lane there = lane_of(r, lane, &v->lane[lane]);
    struct lane_page page;
    enum err code = ERR_OK;
    bool whole = false;
    if (log_view_writer(v, r->writer) == NULL)
        return not_registered(r->writer, e);
    link_forget(r->link); /* replies of before are nobody's */
    for (unsigned i = 0; i < LOOKS_MAX && code == ERR_OK && !whole; i++) {
        code = look_at_era(r, &there, ignore, NULL, &page, e);
        if (code == ERR_OK && page.length == 0)
            code = is_missing(&there, e);
        if (code != ERR_OK)
            break;
        there.era = page.era;
        own_enter(own, &there); /* behind this nothing is acknowledged under an older one */
        code = make_whole(r, &there, own, &whole, e);
    }
    if (code == ERR_OK && !whole)
        code = error_set(e, ERR_UNREACHABLE, "lane %.*s: its replication id does not stay the same",
                         (int)there.key.length, there.key.text);
    *era = there.era;
    const struct log_lane stream = {v->lane[lane].number, there.era};
    return code == ERR_OK && there.era != v->lane[lane].era ? say(r, lane, &stream, e) : code;
}

/* --- taking an era --- */

static enum err keep_position(void *arg, const struct tail_record *record, struct error *e)
{
    (void)e;
    log_position_set(arg, record->id, record->bytes, record->length);
    return ERR_OK;
}

static enum err take(struct roll *r, unsigned lane, const struct log_lane *stream, uint64_t era,
                     const struct log_position *first, unsigned *missing, struct error *e)
{
    struct buffer position = {0};
    long long result = 0;
    log_position_format(first, &position);
    begin(r, embedded_roll_take);
    script_incarnation(&r->call, r->names->incarnation);
    put_lane(r, lane, stream);
    script_incarnation(&r->call, era);
    script_bytes(&r->call, position.data, position.length);
    enum err code =
        buffer_failed(&position) ? error_set(e, ERR_NOMEM, "no memory for a position") : run(r, &result, e);
    buffer_fini(&position);
    if (code == ERR_OK && result < 0)
        code = another_view(r, e);
    if (code == ERR_OK)
        *missing = (unsigned)result;
    return code;
}

enum err roll_take_era(struct roll *r, const struct log_view *v, unsigned lane, unsigned *missing,
                       struct error *e)
{
    struct lane there = lane_of(r, lane, &v->lane[lane]);
    struct log_position first;
    struct lane_page page;
    *missing = 0;
    enum err code = look_at_era(r, &there, keep_position, &first, &page, e);
    if (code == ERR_OK && page.length == 0)
        code = is_missing(&there, e);
    if (code != ERR_OK || page.era == there.era)
        return code;
    return take(r, lane, &v->lane[lane], page.era, &first, missing, e);
}

/* --- another stream for a lane --- */

static enum err draw(struct roll *r, unsigned lane, const struct log_lane *stream, uint64_t *number,
                     struct error *e)
{
    struct key_name token;
    long long result = 0;
    names_filter_key(r->names, "token", &token);
    begin(r, embedded_roll_draw);
    script_key(&r->call, &token);
    script_incarnation(&r->call, r->names->incarnation);
    put_lane(r, lane, stream);
    enum err code = run(r, &result, e);
    *number = (uint64_t)result;
    return code == ERR_OK && result <= 0 ? another_view(r, e) : code;
}

static enum err put_into_view(struct roll *r, unsigned lane, const struct log_lane *stream, uint64_t number,
                              struct error *e)
{
    long long result = 0;
    begin(r, embedded_roll_replace);
    script_incarnation(&r->call, r->names->incarnation);
    put_lane(r, lane, stream);
    script_number(&r->call, number);
    enum err code = run(r, &result, e);
    return code == ERR_OK && result != 1 ? another_view(r, e) : code;
}

/* Delete what no view names, or will name: appends to it make nothing. If that fails, it stays until the
 * filter is deleted. */
static void forget(struct roll *r, const struct lane *lane)
{
    struct error e = {""};
    enum err unused = lane_forget(r->link, lane, &e);
    (void)unused;
}

enum err roll_replace_lane(struct roll *r, const struct log_view *v, unsigned lane, struct error *e)
{
    const struct log_lane *stream = &v->lane[lane];
    struct lane before = lane_of(r, lane, stream), next;
    struct log_position anchor;
    uint64_t number = 0;
    link_forget(r->link);
    enum err code = draw(r, lane, stream, &number, e);
    if (code == ERR_OK)
        code = lane_close(r->link, &before, e);
    if (code != ERR_OK)
        return code;
    next = lane_of(r, lane, &(struct log_lane){.number = number});
    code = lane_make(r->link, &next, r->writer, 0, &anchor, e);
    if (code == ERR_OK)
        code = put_into_view(r, lane, stream, number, e);
    if (code == ERR_OK)
        forget(r, &before);
    else if (code == ERR_FENCED)
        forget(r, &next);
    return code;
}

/* --- a writer that is gone --- */

/* The eras of the lanes' nodes. *@waits: a roll call waits for @w. *@same: a lane's era is the view's. */
static enum err look_at_eras(struct roll *r, const struct log_view *v, const struct log_writer *w,
                             uint64_t era[LOG_LANES_MAX], bool *waits, bool *same, struct error *e)
{
    struct lane_page page;
    enum err code = ERR_OK;
    *waits = *same = false;
    for (unsigned i = 0; i < v->lane_count && code == ERR_OK; i++) {
        struct lane there = lane_of(r, i, &v->lane[i]);
        code = look_at_era(r, &there, ignore, NULL, &page, e);
        era[i] = page.era;
        *same |= page.era == v->lane[i].era;
        *waits |= page.era != v->lane[i].era && !log_writer_has_said(w, i, v->lane[i].number, page.era);
    }
    return code;
}

/* Replace the lanes whose era is the view's, and read the view again. */
static enum err leave_eras(struct roll *r, struct log_view *v, const uint64_t era[LOG_LANES_MAX],
                           struct error *e)
{
    enum err code = ERR_OK;
    for (unsigned i = 0; i < v->lane_count && code == ERR_OK; i++)
        if (era[i] == v->lane[i].era)
            code = roll_replace_lane(r, v, i, e);
    return code == ERR_OK ? log_view_load(r->link, r->names, v, e) : code;
}

static enum err remove_from(struct roll *r, const struct log_view *v, const uint8_t writer[LOG_WRITER_BYTES],
                            const uint64_t era[LOG_LANES_MAX], struct error *e)
{
    struct buffer lanes = {0};
    long long result = 0;
    for (unsigned i = 0; i < v->lane_count; i++)
        buffer_printf(&lanes, "%s%" PRIu64 ":%016" PRIx64, i == 0 ? "" : ",", v->lane[i].number,
                      v->lane[i].era);
    begin(r, embedded_roll_remove);
    script_incarnation(&r->call, r->names->incarnation);
    put_writer(r, writer);
    script_bytes(&r->call, lanes.data, lanes.length);
    for (unsigned i = 0; i < v->lane_count; i++)
        script_incarnation(&r->call, era[i]);
    enum err code = buffer_failed(&lanes) ? error_set(e, ERR_NOMEM, "out of memory") : run(r, &result, e);
    buffer_fini(&lanes);
    if (code != ERR_OK || result == 1)
        return code;
    return result == -1 ? not_registered(writer, e) : another_view(r, e);
}

static enum err remove_with(struct roll *r, struct log_view *v, const uint8_t writer[LOG_WRITER_BYTES],
                            struct error *e)
{
    uint64_t era[LOG_LANES_MAX] = {0};
    char name[LOG_WRITER_NAME_MAX];
    bool waits, same;
    const struct log_writer *w = log_view_writer(v, writer);
    if (w == NULL)
        return not_registered(writer, e);
    enum err code = look_at_eras(r, v, w, era, &waits, &same, e);
    if (code == ERR_OK && !waits) {
        log_writer_name(writer, name);
        code = error_set(e, ERR_CONFLICT, "no roll call waits for %s", name);
    }
    if (code == ERR_OK && same)
        code = leave_eras(r, v, era, e);
    return code == ERR_OK ? remove_from(r, v, writer, era, e) : code;
}

enum err roll_remove(struct roll *r, const struct log_view *v, const uint8_t writer[LOG_WRITER_BYTES],
                     struct error *e)
{
    struct log_view *now = malloc(sizeof(*now));
    if (now == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    *now = *v;
    enum err code = remove_with(r, now, writer, e);
    free(now);
    return code;
}
