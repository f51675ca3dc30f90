/* SPDX-License-Identifier: MIT */
/* Loading beside requests: one piece is asked for when the process's rate allows another one; if the node is
 * far, one more is under way. So a request to the same server waits for one piece at most. The thread that
 * asks and copies yields to all others of the machine, as long as it makes progress at all. */
#include "shard/resident/load.h"

#include <assert.h>
#include <stdio.h>
#include "base/background.h"
#include "base/clock.h"
#include "base/info.h"
#include "shard/redis/wire/greeting.h"

enum {
    WINDOW = 2,                            /* pieces under way */
    JUDGED_TOGETHER = 4,                   /* pieces of a group, all of one shard; an INFO costs Redis as
                                            * much as a piece */
    PIECES_MAX = WINDOW + JUDGED_TOGETHER, /* with those that are asked for again */
    REDIRECTIONS_MAX = 16
};

/* A GETRANGE of @length bytes of blocks, @offset bytes behind the header. The first piece of a shard has the
 * header, too. */
struct piece {
    uint32_t shard, offset, length;
    unsigned where, redirections;
    bool judges;                   /* an INFO is behind it: do the replies of its group count? */
    bool is_alone;                 /* it is its own group, since it was asked for again */
    uint64_t connection;           /* that it was asked for over; 0: it could not be sent */
    struct slot_redirect redirect; /* port 0: no other node has it */
    redisReply *bytes;             /* that came; NULL: the connection broke */
};

/* @piece: those under way, in the order in which they were asked for. Replies of one node come in that order.
 */
struct window {
    struct piece piece[PIECES_MAX]; /* a ring */
    unsigned first, count;
    struct piece came[JUDGED_TOGETHER]; /* of a group whose INFO has not come */
    unsigned came_count;
    struct buffer commands; /* those that are sent */
};

static struct bitmap *bitmap_of(const struct load *l)
{
    return l->resident->layer[l->layer];
}

static void name_of(const struct load *l, uint32_t shard, struct key_name *name)
{
    const struct shard_id id = {.generation = l->generation, .layer = l->layer, .shard = shard};
    names_log_shard(l->names, id, name);
}

enum err load_begin(struct load *l, struct error *e)
{
    assert(l->eras != NULL);
    l->next = l->first;
    l->offset = 0;
    l->failures = 0;
    l->redirected = false;
    return resident_load_begin(l->resident, l->layer, l->first, l->count, e);
}

/* --- asking --- */

/* The place behind the last piece. */
static struct piece *free_piece(struct window *w)
{
    assert(w->count < PIECES_MAX);
    return &w->piece[(w->first + w->count) % PIECES_MAX];
}

/* False: there is no shard left. */
static bool find_shard(struct load *l)
{
    while (l->next < l->first + l->count && !bitmap_is_loading(bitmap_of(l), l->next)) {
        l->next++; /* a piece of it has failed */
        l->offset = 0;
    }
    return l->next < l->first + l->count;
}

/* The next piece to ask for. False: there is none. */
static bool next_piece(struct load *l, struct piece *p)
{
    if (!find_shard(l))
        return false;
    uint32_t left = bitmap_of(l)->shard_bytes - l->offset;
    *p = (struct piece){.where = placement_where(l->placement, l->layer, l->next),
                        .shard = l->next,
                        .offset = l->offset,
                        .length = left < (uint32_t)LOAD_PIECE ? left : (uint32_t)LOAD_PIECE};
    p->judges =
        p->length == left || p->offset / (uint32_t)LOAD_PIECE % JUDGED_TOGETHER == JUDGED_TOGETHER - 1;
    l->offset += p->length;
    if (p->length == left) {
        l->next++;
        l->offset = 0;
    }
    return true;
}

/* Ask for the piece behind the last one. */
static void ask(const struct load *l, struct sync_client *redis, struct window *w)
{
    struct piece *p = free_piece(w);
    uint32_t header = header_bytes(&bitmap_of(l)->geometry);
    struct key_name name;
    char from[16], to[16];
    size_t ends[2];
    name_of(l, p->shard, &name);
    (void)snprintf(from, sizeof(from), "%u", p->offset == 0 ? 0 : header + p->offset);
    (void)snprintf(to, sizeof(to), "%u", header + p->offset + p->length - 1);
    buffer_clear(&w->commands);
    buffer_command(&w->commands, 4, (const char *const[]){"GETRANGE", name.text, from, to}, NULL);
    ends[0] = w->commands.length;
    if (p->judges)
        buffer_puts(&w->commands, greeting_ask_replication);
    ends[1] = w->commands.length;
    p->connection = 0;
    if (!buffer_failed(&w->commands))
        (void)!sync_client_append_together(redis, p->where, &p->redirect, p->judges ? 2 : 1, w->commands.data,
                                           ends, &p->connection, NULL);
    w->count++;
}

/* --- taking --- */

/* Judge whether the node's reply before this one counts. */
static enum err check_info(const struct load *l, const redisReply *reply, struct error *e)
{
    if (reply == NULL)
        return error_set(e, ERR_UNREACHABLE, "its node did not answer");
    if (reply->type == REDIS_REPLY_ERROR)
        return error_set(e, slots_error_passes(reply->str) ? ERR_UNREACHABLE : ERR_REFUSED,
                         "INFO replication: %s", reply->str);
    if (reply->type != REDIS_REPLY_STRING)
        return error_set(e, ERR_REFUSED, "INFO replication gave no string");
    if (!info_is(reply->str, reply->len, "role", "master"))
        return error_set(e, ERR_FENCED, "its node is no master");
    uint64_t era = info_id(reply->str, reply->len, "master_replid");
    if (era == 0 || !trusted_contains(l->eras, era))
        return error_set(e, ERR_FENCED, "its node has a replication id that the view does not accept");
    return ERR_OK;
}

static enum err check_header(const struct load *l, uint32_t shard, const redisReply *reply, const char *name,
                             struct error *e)
{
    const struct bitmap *b = bitmap_of(l);
    struct header found, expected = header_of_geometry(&b->geometry, l->names->incarnation, l->generation,
                                                       b->tag, l->layer, shard);
    expected.writer = l->writer;
    return header_judge(&found, (const uint8_t *)reply->str, reply->len, &expected, l->made, name, e);
}

static enum err take_bytes(struct load *l, const struct piece *p, const char *name, struct error *e)
{
    const redisReply *reply = p->bytes;
    uint32_t header = p->offset == 0 ? header_bytes(&bitmap_of(l)->geometry) : 0;
    if (reply->type == REDIS_REPLY_ERROR)
        return header_refused(name, reply->str, e);
    if (reply->type != REDIS_REPLY_STRING)
        return error_set(e, ERR_REFUSED, "shard %s: unexpected reply to GETRANGE", name);
    enum err code = p->offset == 0 ? check_header(l, p->shard, reply, name, e) : ERR_OK;
    if (code != ERR_OK)
        return code;
    if (reply->len != header + p->length)
        return error_set(e, ERR_LOST, "shard %s is cut: %zu bytes at %u, expected %u", name, reply->len,
                         p->offset, header + p->length);
    code = resident_load_piece(l->resident, l->layer, p->shard, p->offset, reply->str + header, p->length, e);
    return code == ERR_OK ? ERR_OK : error_prefix(e, code, "shard %s", name);
}

/* Take a piece that came; @info is behind @judge, NULL: the connection broke. Bytes that do not count never
 * reach memory: a shard that is loaded again keeps what it has, and would be taken for whole. */
static void take(struct load *l, const struct piece *p, const struct piece *judge, const redisReply *info)
{
    struct error e = {""};
    struct key_name name;
    name_of(l, p->shard, &name);
    enum err code = check_info(l, info, &e);
    if (p->redirect.port != 0)
        code = error_set(&e, ERR_UNREACHABLE, "its slot moves");
    else if (code == ERR_OK && p->connection != judge->connection)
        code = error_set(&e, ERR_UNREACHABLE, "its pieces came over several connections");
    if (code == ERR_OK)
        code = take_bytes(l, p, name.text, &e);
    else
        code = error_prefix(&e, code, "shard %s", name.text);
    if (code == ERR_OK)
        return;
    resident_load_cancel(l->resident, l->layer, p->shard);
    l->failures++;
    if (l->failed != NULL)
        l->failed(l->arg, p->shard, code, e.text);
}

/* If another node has the shard by now, ask it for the whole group, behind what is under way. */
static void end_group(struct load *l, struct sync_client *redis, struct window *w, struct piece *group,
                      unsigned count, const redisReply *info)
{
    const struct piece *judge = &group[count - 1];
    for (struct piece *p = group; p <= judge; p++) {
        bool is_loading = bitmap_is_loading(bitmap_of(l), p->shard); /* false: an earlier piece has failed */
        if (is_loading && judge->redirect.port != 0 && p->redirections < REDIRECTIONS_MAX) {
            struct piece *again = free_piece(w);
            *again = *p;
            again->redirections++;
            again->redirect = judge->redirect;
            again->judges = again->is_alone = true;
            ask(l, redis, w);
        } else if (is_loading) {
            take(l, p, judge, info);
        }
        freeReplyObject(p->bytes);
    }
}

static redisReply *next_reply(struct sync_client *redis, const struct piece *p)
{
    redisReply *reply = NULL;
    return p->connection != 0 && sync_client_reply(redis, p->where, &reply, NULL) == ERR_OK ? reply : NULL;
}

static void drop(struct window *w)
{
    while (w->came_count > 0)
        freeReplyObject(w->came[--w->came_count].bytes);
}

static void take_first(struct load *l, struct sync_client *redis, struct window *w)
{
    struct piece *first = &w->piece[w->first];
    first->bytes = next_reply(redis, first);
    SCOPED(scope_reply) redisReply *info = first->judges ? next_reply(redis, first) : NULL;
    struct piece p = *first;
    bool is_last = p.judges || p.redirect.port != 0 || p.bytes == NULL;
    l->redirected |= p.redirect.port != 0;
    w->first = (w->first + 1) % PIECES_MAX;
    w->count--;
    if (p.is_alone) {
        end_group(l, redis, w, &p, 1, info);
    } else {
        if (w->came_count > 0 && w->came[0].shard != p.shard)
            drop(w); /* its shard has failed, so no INFO was asked for */
        w->came[w->came_count++] = p;
        if (is_last)
            end_group(l, redis, w, w->came, w->came_count, info);
        w->came_count = is_last ? 0 : w->came_count;
    }
}

static void wait_for(const struct load *l, const struct piece *p)
{
    uint64_t now = clock_mono_us(), at = budget_load_at(l->resident->budget, now, p->length);
    if (at > now)
        clock_sleep_us(at - now);
}

/* Load until no piece is left to ask for, or until @until (monotonic us). Wait for what is under way. */
static void carry(struct load *l, struct sync_client *redis, uint64_t until)
{
    struct window w = {.count = 0};
    bool is_judged = true; /* the last piece that was asked for */
    do {
        while (w.count < WINDOW && (!is_judged || clock_mono_us() < until) && next_piece(l, free_piece(&w))) {
            is_judged = free_piece(&w)->judges;
            wait_for(l, free_piece(&w));
            ask(l, redis, &w);
        }
        if (w.count > 0)
            take_first(l, redis, &w);
    } while (w.count > 0);
    drop(&w);
    buffer_fini(&w.commands);
}

struct carrier {
    struct load *load;
    struct sync_client *redis;
};

static void run(void *arg, uint64_t until)
{
    const struct carrier *c = arg;
    carry(c->load, c->redis, until);
}

void load_and_wait(struct load *l, struct sync_client *redis)
{
    uint64_t bytes = (uint64_t)l->count * bitmap_of(l)->shard_bytes;
    if (bytes > BITMAP_FEW_BYTES)
        background_run(run, &(struct carrier){.load = l, .redis = redis},
                       clock_mono_us() + bytes / BITMAP_LOAD_RATE);
    else
        carry(l, redis, UINT64_MAX);
}

/* --- the end --- */

uint32_t load_end(struct load *l)
{
    struct bitmap *b = bitmap_of(l);
    uint32_t ended = 0;
    for (uint32_t s = l->first; s < l->first + l->count; s++)
        if (bitmap_is_loading(b, s) && bitmap_is_loaded(b, s))
            ended += resident_load_end(l->resident, l->layer, s, NULL) == ERR_OK;
    return ended;
}

void load_cancel(struct load *l)
{
    for (uint32_t s = l->first; s < l->first + l->count; s++)
        resident_load_cancel(l->resident, l->layer, s);
}
