/* SPDX-License-Identifier: MIT */
/* The happy path of a roll call is: read the era; look for the own entries; append the missing ones; look for
 * them; say so. Possible failure modes are: the era changes meanwhile (repeat all of it), the lane is missing
 * (it must be replaced), the view has another stream or era by now (load it again), a connection breaks (the
 * caller repeats all of it). */
#include "shard/members/roll_internal.h"

#include <stdlib.h>
#include <string.h>
#include "shard/redis/sync_client.h"
#include "shard/redis/wire/replication.h"
#include "shard/log/lane_sync.h"
#include "shard/generations/leftover.h"
#include "shard/view/view_load.h"

extern const char embedded_roll_register[], embedded_roll_leave[], embedded_roll_say[], embedded_roll_take[],
    embedded_roll_draw[], embedded_roll_gap[], embedded_roll_replace[];

enum {
    PUT_COUNT = 64, /* entries in one write */
    LOOKS_MAX = 16  /* attempts until an era, or a missing entry, is given up */
};

void roll_init(struct roll *r, struct sync_client *l, const struct names *names,
               const uint8_t writer[LOG_WRITER_BYTES])
{
    *r = (struct roll){.redis = l, .names = names};
    memcpy(r->writer, writer, LOG_WRITER_BYTES);
}

void roll_fini(struct roll *r)
{
    script_fini(&r->call);
}

enum err roll_lane(const struct roll *r, const struct log_view *v, unsigned lane, struct lane *out,
                   struct error *e)
{
    return log_view_lane_at(v, r->names, sync_client_nodes(r->redis), lane, out, e);
}

/* --- scripts --- */

void roll_begin(struct roll *r, const char *text)
{
    script_begin_view(&r->call, text, r->names);
    script_incarnation(&r->call, r->names->incarnation);
}

void roll_put_writer(struct roll *r, const uint8_t writer[LOG_WRITER_BYTES])
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

enum err roll_run(struct roll *r, long long *result, struct error *e)
{
    return script_run(&r->call, r->redis, sync_client_home(r->redis, r->names), result, e);
}

enum err roll_not_registered(const uint8_t writer[LOG_WRITER_BYTES], struct error *e)
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
    roll_begin(r, embedded_roll_register);
    roll_put_writer(r, r->writer);
    script_number(&r->call, LOG_WRITERS_MAX);
    script_number(&r->call, r->registration > r->left ? r->registration : r->left + 1);
    enum err code = roll_run(r, &result, e);
    names_filter_key(r->names, "view", &key);
    if (code == ERR_OK && result > 0)
        r->registration = (uint64_t)result;
    if (code != ERR_OK || result > 0)
        return code;
    if (result == -1)
        return error_set(e, ERR_CONFLICT, "%.*s: the filter is being deleted", (int)key.length, key.text);
    if (result == -2)
        return error_set(e, ERR_RANGE, "%.*s has %d writers, and there may be no more", (int)key.length,
                         key.text, LOG_WRITERS_MAX);
    return error_set(e, ERR_NOT_FOUND, "%.*s: there is no such view, or it is another incarnation's",
                     (int)key.length, key.text);
}

bool roll_is_registered(const struct roll *r, const struct log_view *v)
{
    const struct log_writer *w = log_view_writer(v, r->writer);
    return w != NULL && !w->in_doubt && w->registration == r->registration;
}

enum err roll_leave(struct roll *r, struct error *e)
{
    long long unused;
    r->left = r->registration;
    roll_begin(r, embedded_roll_leave);
    roll_put_writer(r, r->writer);
    script_number(&r->call, r->registration);
    return roll_run(r, &unused, e);
}

/* --- eras --- */

void roll_forget(const struct roll *r, const struct log_view *v, unsigned lane, struct own *own)
{
    struct lane there;
    struct log_id least = {UINT64_MAX, UINT64_MAX};
    if (roll_lane(r, v, lane, &there, NULL) != ERR_OK)
        return;
    for (unsigned slot = 0; slot < 2; slot++) {
        const struct log_generation *g = &v->slot[slot];
        if (g->shape.number == 0 || (!g->shape.built && slot != v->current))
            continue; /* a build begins again if a lane loses something, until its cutover is near */
        if (!log_view_is_folded(v, g, lane))
            return;
        if (log_id_compare(g->folded[lane].position.id, least) < 0)
            least = g->folded[lane].position.id;
    }
    const struct log_hold *hold = &v->hold[lane];
    if (v->near != 0 && hold->lane_number == v->lane[lane].number && log_id_compare(hold->from, least) < 0)
        least = hold->from;
    own_folded(own, &there, least);
}

static enum err keep_position(void *arg, const struct tail_record *record, struct error *e)
{
    (void)e;
    if (arg != NULL)
        log_position_set(arg, record->id, record->bytes, record->length);
    return ERR_OK;
}

enum err roll_look_at_era(struct roll *r, const struct lane *lane, struct log_position *first,
                          struct lane_page *page, struct error *e)
{
    struct lane any = *lane;
    any.era = 0;
    enum err code = lane_look(r->redis, &any, (struct log_id){0}, 1, keep_position, first, page, e);
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

/* The id after @id; the highest possible id stays. */
static struct log_id behind(struct log_id id)
{
    if (++id.number == 0 && ++id.ms == 0)
        return (struct log_id){UINT64_MAX, UINT64_MAX};
    return id;
}

/* Look for all that is missing, up to the end of the lane. *@same: the lane's era did not change, so this
 * counts. */
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
        code = lane_look(r->redis, lane, from, LANE_RANGE_COUNT, note_own, &k, &page, e);
        *same = page.era == lane->era;
        if (code == ERR_OK && *same && page.length == 0)
            code = is_missing(lane, e);
        from = behind(page.last);
    }
    return code;
}

/* Append a batch of what is missing, from *@sequence on. *@count: its size. */
static enum err put_batch(struct roll *r, const struct lane *lane, struct own *own, struct lane_put *put,
                          uint64_t *sequence, unsigned *count, struct error *e)
{
    uint64_t sequences[PUT_COUNT];
    for (*count = 0; *count < PUT_COUNT &&
                     own_missing(own, *sequence, &sequences[*count], put[*count].bytes, &put[*count].length);
         ++*count)
        *sequence = sequences[*count] + 1;
    enum err code = lane_put(r->redis, lane, put, *count, e);
    for (unsigned i = 0; i < *count; i++)
        if (put[i].id.ms != 0 || put[i].id.number != 0)
            own_sent(own, lane, sequences[i], put[i].id);
    return code;
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

/* *@whole: all own entries were found in the lane under its era. False: the era has changed, or an entry is
 * not there yet. */
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
    roll_begin(r, embedded_roll_say);
    roll_put_writer(r, r->writer);
    put_lane(r, lane, stream);
    enum err code = roll_run(r, &result, e);
    if (code != ERR_OK || result == 1)
        return code;
    return result == -1 ? roll_not_registered(r->writer, e) : log_view_another(r->names, e);
}

enum err roll_answer(struct roll *r, const struct log_view *v, unsigned lane, struct own *own, uint64_t *era,
                     struct error *e)
{
    struct lane there;
    struct lane_page page;
    bool whole = false;
    if (log_view_writer(v, r->writer) == NULL)
        return roll_not_registered(r->writer, e);
    sync_client_forget(r->redis); /* earlier replies belong to nobody */
    enum err code = roll_lane(r, v, lane, &there, e);
    for (unsigned i = 0; i < LOOKS_MAX && code == ERR_OK && !whole; i++) {
        code = roll_look_at_era(r, &there, NULL, &page, e);
        if (code == ERR_OK && page.length == 0)
            code = is_missing(&there, e);
        if (code != ERR_OK)
            break;
        there.era = page.era;
        own_enter(own, &there); /* from here on nothing is acknowledged under an older era */
        code = make_whole(r, &there, own, &whole, e);
    }
    if (code == ERR_OK && !whole)
        code = error_set(e, ERR_UNREACHABLE, "lane %.*s: its replication id keeps changing",
                         (int)there.key.length, there.key.text);
    *era = there.era;
    const struct log_lane stream = {v->lane[lane].number, there.era};
    return code == ERR_OK && there.era != v->lane[lane].era ? say(r, lane, &stream, e) : code;
}

/* --- taking an era --- */

static enum err take(struct roll *r, unsigned lane, const struct log_lane *stream, uint64_t era,
                     const struct log_position *first, bool goes_on, bool stays, unsigned *missing,
                     struct error *e)
{
    long long result = 0;
    roll_begin(r, embedded_roll_take);
    put_lane(r, lane, stream);
    script_incarnation(&r->call, era);
    log_position_format(first, script_argument(&r->call));
    script_number(&r->call, goes_on);
    script_number(&r->call, stays);
    enum err code = roll_run(r, &result, e);
    if (code == ERR_OK && result == -2)
        return error_set(e, ERR_LOST, "lane %u is back in an era that it had left", lane);
    if (code == ERR_OK && result < 0)
        code = log_view_another(r->names, e);
    if (code == ERR_OK)
        *missing = (unsigned)result;
    return code;
}

enum err roll_take_era(struct roll *r, const struct log_view *v, unsigned lane, const struct replication *was,
                       unsigned *missing, struct error *e)
{
    struct lane there;
    struct log_position first;
    struct lane_page page;
    SCOPED(replications_fini) struct replications now = {0};
    *missing = 0;
    enum err code = roll_lane(r, v, lane, &there, e);
    if (code == ERR_OK)
        code = roll_look_at_era(r, &there, &first, &page, e);
    if (code == ERR_OK && page.length == 0)
        code = is_missing(&there, e);
    if (code != ERR_OK || page.era == there.era)
        return code;
    code = sync_client_replications(r->redis, NULL, &now, e);
    const struct replication *node = replications_of_id(&now, page.era);
    bool goes_on = node != NULL && ((was != NULL && was->id == there.era && replication_goes_on(was, node)) ||
                                    clean_stop_goes_on(r->clean_stop, there.era, node));
    bool stays = replications_of_id(&now, there.era) != NULL; /* the lane's slot has left with all entries */
    return code == ERR_OK ? take(r, lane, &v->lane[lane], page.era, &first, goes_on, stays, missing, e)
                          : code;
}

enum err roll_goes_on(struct sync_client *l, const struct replication *was, uint64_t era, bool *out,
                      struct error *e)
{
    SCOPED(replications_fini) struct replications now = {0};
    *out = false;
    enum err code = was->id == 0 ? ERR_OK : sync_client_replications(l, NULL, &now, e);
    const struct replication *node = replications_of_id(&now, era);
    *out = code == ERR_OK && node != NULL && replication_goes_on(was, node);
    return code;
}

/* --- another stream for a lane --- */

static enum err draw(struct roll *r, unsigned lane, const struct log_lane *stream, uint64_t *number,
                     struct error *e)
{
    long long result = 0;
    script_begin_view(&r->call, embedded_roll_draw, r->names);
    script_filter_key(&r->call, r->names, "token");
    script_incarnation(&r->call, r->names->incarnation);
    put_lane(r, lane, stream);
    enum err code = roll_run(r, &result, e);
    *number = (uint64_t)result;
    return code == ERR_OK && result <= 0 ? log_view_another(r->names, e) : code;
}

/* A lane stays on its node, *@where, while the current generation has shards there. Otherwise its next stream
 * lies on one of that generation's nodes. */
static enum err next_node(const struct roll *r, const struct log_view *v, unsigned lane, unsigned *where,
                          struct error *e)
{
    struct placement p;
    if (v->lane_node_count == 0)
        return ERR_OK;
    enum err code =
        placement_resolve(&p, r->names, &v->slot[v->current].shape, sync_client_nodes(r->redis), e);
    for (unsigned i = 0; code == ERR_OK && i < p.count; i++)
        if (p.node[i] == *where)
            return ERR_OK;
    if (code == ERR_OK && p.count > 0)
        *where = p.node[lane % p.count];
    return code;
}

static enum err put_into_view(struct roll *r, unsigned lane, const struct log_lane *stream, uint64_t number,
                              const char *node, struct error *e)
{
    long long result = 0;
    roll_begin(r, embedded_roll_replace);
    put_lane(r, lane, stream);
    script_number(&r->call, number);
    script_text(&r->call, node);
    enum err code = roll_run(r, &result, e);
    return code == ERR_OK && result != 1 ? log_view_another(r->names, e) : code;
}

/* Delete a stream that no view names, or ever will: appends do not make it again. If that fails, it stays
 * until the lane is replaced again, or the filter is deleted. */
static void forget(struct roll *r, const struct lane *lane)
{
    struct error e = {""};
    enum err unused = lane_forget(r->redis, lane, &e);
    (void)unused;
}

/* Numbers only go up: nobody puts a lower one into a view that has this one. */
static void forget_others(struct roll *r, unsigned where, const struct leftover_streams *found,
                          uint64_t number)
{
    struct lane other = {.where = where};
    for (unsigned i = 0; i < found->count; i++)
        if (found->number[i] < number) {
            lane_key(&other.key, r->names, found->lane, found->number[i]);
            forget(r, &other);
        }
}

enum err roll_replace_lane(struct roll *r, const struct log_view *v, unsigned lane, struct error *e)
{
    const struct log_lane *stream = &v->lane[lane];
    struct lane before, next = {0};
    struct log_position anchor;
    struct leftover_streams found = {.lane = lane};
    uint64_t number = 0;
    sync_client_forget(r->redis);
    enum err code = roll_lane(r, v, lane, &before, e);
    next.where = before.where;
    if (code == ERR_OK)
        code = next_node(r, v, lane, &next.where, e);
    if (code == ERR_OK)
        code = draw(r, lane, stream, &number, e);
    if (code == ERR_OK)
        code = lane_close(r->redis, &before, e);
    if (code != ERR_OK)
        return code;
    lane_key(&next.key, r->names, lane, number);
    code = lane_make(r->redis, &next, r->writer, 0, &anchor, e);
    if (code == ERR_UNREACHABLE && next.era != 0) /* who put a later stream into the view has removed it */
        return log_view_another(r->names, e);
    if (code == ERR_OK && (code = leftover_sweep_lanes(r->redis, r->names, &found, e)) != ERR_OK) {
        forget(r, &next);
        return code == ERR_CONFLICT ? log_view_another(r->names, e) : code;
    }
    const char *node = next.where == before.where ? "" : sync_client_nodes(r->redis)->node[next.where].name;
    if (code == ERR_OK)
        code = put_into_view(r, lane, stream, number, node, e);
    if (code == ERR_OK) {
        forget(r, &before);
        forget_others(r, before.where, &found, number);
    } else if (code == ERR_FENCED) {
        forget(r, &next);
    }
    return code;
}

enum err roll_give_up_lane(struct roll *r, const struct log_view *v, unsigned lane, struct error *e)
{
    char id[LOG_ID_TEXT_MAX];
    long long result = 0;
    (void)log_id_format(v->slot[v->current].folded[lane].position.id, id);
    sync_client_forget(r->redis);
    roll_begin(r, embedded_roll_gap);
    put_lane(r, lane, &v->lane[lane]);
    script_number(&r->call, v->current);
    script_text(&r->call, id);
    enum err code = roll_run(r, &result, e);
    if (code == ERR_OK && result != 1)
        code = log_view_another(r->names, e);
    return code == ERR_OK ? roll_replace_lane(r, v, lane, e) : code;
}

enum err roll_move_lanes(struct roll *r, const struct log_view *v, struct error *e)
{
    enum err code = ERR_OK;
    for (unsigned i = 0; i < v->lane_count && code == ERR_OK; i++) {
        struct lane there;
        code = roll_lane(r, v, i, &there, e);
        unsigned where = there.where;
        if (code == ERR_OK)
            code = next_node(r, v, i, &where, e);
        if (code == ERR_OK && where != there.where)
            code = roll_replace_lane(r, v, i, e);
    }
    return code;
}
