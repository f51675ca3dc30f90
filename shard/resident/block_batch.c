/* SPDX-License-Identifier: MIT */
/* Blocks that one write asks of one node. Before the first block of a shard whose header was not checked in
 * this view comes its header; behind all blocks comes INFO replication. A header that was checked at another
 * server, to which the address led, says nothing: blocks of all servers have the same tags. No reply is used
 * before the last one is there:
 *
 *   what the replies say                         | what follows
 *   ---------------------------------------------+-----------------------------------------------------
 *   a reply is missing: the connection broke     | all of it again, after a pause
 *   a block or a header was answered, and the    | is_other_era; no reply counts, errors included
 *   server is no master of an era of the view    |
 *   a shard is missing, another one, cut, or     | that error
 *   was made late by an attempt given up         |
 *   a node is busy, loading, without a master    | all of it again, after a pause
 *   a slot has moved since all masters were      | is_other_era: a master that lags may have had it for a
 *   looked at                                    | while
 *   anything else                                | blocks are taken; a block with MOVED or ASK is asked
 *                                                | for at the node named there, each slot in its own batch
 *
 * A block from a node that ASK named counts once the node of the map has said ASK again, as a master of the
 * same era: so it was this node that the block came from, and not a replica that took its place in between
 * (moved.pml). */
#include "shard/resident/block_read_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/info.h"
#include "shard/redis/nodes/cluster.h"
#include "shard/redis/wire/greeting.h"

enum { REDIRECTIONS_MAX = 5 };

enum kind { COMMAND_HEADER, COMMAND_BLOCK, COMMAND_INFO };

struct command {
    uint8_t kind;
    bool is_bare; /* a block without its shard's header, which was checked before */
    unsigned want;
};

/* It lives until its last reply. */
struct batch {
    LIST_ENTRY(batch) next;
    struct block_read *read; /* NULL: abandoned */
    struct slot_redirect redirect;
    unsigned taken, awaited; /* number of replies that came, and that will have come */
    bool is_broken, is_passing, is_answered, is_told;
    bool is_asking; /* its node was named by ASK */
    uint64_t era;   /* of the server, once INFO was answered; 0: it is no master */
    enum err code;
    struct error why;
    struct block_at at; /* the block of the error */
    unsigned count;
    struct command command[];
};

void batch_abandon(struct batch *b)
{
    LIST_REMOVE(b, next);
    b->read = NULL;
}

/* --- sending --- */

/* The commands as they are written. */
struct text {
    struct buffer bytes;
    size_t *ends;
};

static void note(struct batch *b, struct text *t, enum kind kind, unsigned want)
{
    t->ends[b->count] = t->bytes.length;
    b->command[b->count++] = (struct command){.kind = (uint8_t)kind, .want = want};
}

static void name_of(const struct block_read *r, const struct block_at *at, struct key_name *name)
{
    const struct shard_id id = {.generation = r->source.generation, .layer = at->layer, .shard = at->shard};
    names_log_shard(r->source.names, id, name);
}

static void add_range(struct batch *b, struct text *t, enum kind kind, unsigned want, uint64_t from,
                      uint64_t length)
{
    struct key_name name;
    char first[24], last[24];
    name_of(b->read, &b->read->want[want].at, &name);
    (void)snprintf(first, sizeof(first), "%" PRIu64, from);
    (void)snprintf(last, sizeof(last), "%" PRIu64, from + length - 1);
    buffer_command(&t->bytes, 4, (const char *const[]){"GETRANGE", name.text, first, last}, NULL);
    note(b, t, kind, want);
}

static struct bitmap *bitmap_of(const struct block_read *r, const struct want *w)
{
    return r->source.resident->layer[w->at.layer];
}

static _Atomic uint64_t *checked_of(const struct block_read *r, const struct want *w)
{
    return &bitmap_of(r, w)->checked[w->at.shard];
}

static bool is_checked(const struct block_read *r, const struct want *w)
{
    return atomic_load_explicit(checked_of(r, w), memory_order_relaxed) >> 32 == r->source.view;
}

static uint64_t mark_of(const struct block_read *r, const struct batch *b)
{
    return (uint64_t)r->source.view << 32 | (uint32_t)b->era;
}

static bool same_shard(const struct want *a, const struct want *b)
{
    return a->at.layer == b->at.layer && a->at.shard == b->at.shard;
}

static bool go_together(const struct block_read *r, const struct want *a, const struct want *b)
{
    if (a->redirect.port != 0 || b->redirect.port != 0)
        return a->where == b->where && a->redirect.port != 0 && b->redirect.port != 0;
    return async_client_same_node(r->async, a->where, b->where);
}

static void write_batch(struct block_read *r, unsigned first, struct batch *b, struct text *t)
{
    const struct want *last = NULL;
    bool is_bare = false;
    for (unsigned i = first; i < r->count; i++) {
        struct want *w = &r->want[i];
        if (w->state != WANT_ASK || !go_together(r, &r->want[first], w))
            continue;
        uint32_t length = bitmap_of(r, w)->geometry.block_bits / 8;
        if (last == NULL || !same_shard(last, w)) {
            is_bare = is_checked(r, w);
            if (!is_bare)
                add_range(b, t, COMMAND_HEADER, i, 0, HEADER_BYTES);
        }
        add_range(b, t, COMMAND_BLOCK, i, length * (1 + (uint64_t)w->at.block), length);
        b->command[b->count - 1].is_bare = is_bare;
        last = w;
    }
    buffer_puts(&t->bytes, greeting_ask_replication);
    note(b, t, COMMAND_INFO, first);
}

static void mark(struct block_read *r, const struct batch *b, enum want_state state)
{
    for (unsigned i = 0; i < b->count; i++)
        if (b->command[i].kind == COMMAND_BLOCK) {
            r->want[b->command[i].want].state = (uint8_t)state;
            r->want[b->command[i].want].redirect.port = 0;
        }
}

static void on_reply(void *arg, const redisReply *reply);

bool batch_send(struct block_read *r, unsigned first)
{
    unsigned most = 2 * (r->count - first) + 1;
    struct batch *b = calloc(1, sizeof(*b) + most * sizeof(b->command[0]));
    struct text t = {.ends = malloc(most * sizeof(*t.ends))};
    if (b == NULL || t.ends == NULL) {
        r->want[first].state = WANT_HELD_BACK;
    } else {
        b->read = r;
        b->redirect = r->want[first].redirect;
        b->is_asking = b->redirect.port != 0 && b->redirect.ask;
        write_batch(r, first, b, &t);
        if (!buffer_failed(&t.bytes))
            b->awaited = async_client_send_together(r->async, r->want[first].where, &b->redirect, b->count,
                                                    t.bytes.data, t.ends, on_reply, b);
        mark(r, b, b->awaited > 0 ? WANT_SENT : WANT_HELD_BACK);
    }
    bool sent = b != NULL && b->awaited > 0;
    if (sent)
        LIST_INSERT_HEAD(&r->under_way, b, next);
    else
        free(b);
    free(t.ends);
    buffer_fini(&t.bytes);
    return sent;
}

/* --- replies --- */

static enum err check_header(const struct block_read *r, const struct want *w, const redisReply *reply,
                             const char *name, struct error *e)
{
    const struct block_source *s = &r->source;
    const struct bitmap *b = bitmap_of(r, w);
    struct header found, expected = header_of_geometry(&b->geometry, s->names->incarnation, s->generation,
                                                       b->tag, w->at.layer, w->at.shard);
    expected.writer = s->writer;
    return header_judge(&found, (const uint8_t *)reply->str, reply->len, &expected,
                        s->layers[w->at.layer].token, name, e);
}

static enum err check_block(const struct block_read *r, const struct want *w, const redisReply *reply,
                            const char *name, struct error *e)
{
    const struct bitmap *b = bitmap_of(r, w);
    const uint8_t *bytes = (const uint8_t *)reply->str;
    if (reply->len == 0)
        return error_set(e, ERR_LOST, "shard %s is missing, or cut before its block %u", name, w->at.block);
    if (reply->len != b->geometry.block_bits / 8)
        return error_set(e, ERR_LOST, "shard %s is cut: it ends within its block %u", name, w->at.block);
    if ((bytes[0] << 8 | bytes[1]) != b->tag)
        return error_set(e, ERR_LOST, "shard %s: block %u does not begin with its tag", name, w->at.block);
    memcpy(w->bytes, bytes, reply->len);
    return ERR_OK;
}

static enum err judge(const struct block_read *r, const struct want *w, enum kind kind,
                      const redisReply *reply, struct error *e)
{
    struct key_name name;
    name_of(r, &w->at, &name);
    if (reply->type == REDIS_REPLY_ERROR)
        return header_refused(name.text, reply->str, e);
    if (kind == COMMAND_INFO || reply->type != REDIS_REPLY_STRING)
        return error_set(e, ERR_REFUSED, "shard %s: unexpected reply to %s", name.text,
                         kind == COMMAND_INFO ? "INFO" : "GETRANGE");
    return kind == COMMAND_HEADER ? check_header(r, w, reply, name.text, e)
                                  : check_block(r, w, reply, name.text, e);
}

static void take_info(struct batch *b, const redisReply *reply)
{
    b->is_told = true;
    b->era = info_master_id(reply->str, reply->len);
}

static void take(struct batch *b, const struct command *c, const redisReply *reply)
{
    struct want *w = &b->read->want[c->want];
    struct error e = {""};
    if (b->redirect.port != 0) { /* this reply is MOVED or ASK */
        bool asks = b->redirect.ask;
        b->is_answered |= asks;
        if (!asks || !w->is_copied)
            w->redirect = b->redirect;
        b->redirect.port = 0;
        return;
    }
    if (c->kind == COMMAND_INFO && reply->type == REDIS_REPLY_STRING) {
        take_info(b, reply);
        return;
    }
    b->is_answered |= c->kind != COMMAND_INFO;
    enum err code = judge(b->read, w, c->kind, reply, &e);
    if (code == ERR_UNREACHABLE) {
        b->is_passing = true;
    } else if (code != ERR_OK && (b->code == ERR_OK || c->kind == COMMAND_INFO)) {
        b->code = code;
        b->why = e;
        b->at = w->at;
    }
}

/* --- all replies are there --- */

static void again(struct block_read *r, const struct batch *b)
{
    mark(r, b, WANT_ASK);
    block_read_go_on_later(r);
}

static bool accepts(const struct block_read *r, uint64_t era)
{
    return era != 0 && trusted_contains(r->source.eras, era);
}

/* The header of a shard was checked at another server than its blocks have come from. Where slots move that
 * is judged by them. */
static bool is_of_another_server(const struct block_read *r, const struct batch *b)
{
    bool is = false;
    for (unsigned i = 0; i < b->count && async_client_nodes(r->async)->cluster == NULL; i++) {
        _Atomic uint64_t *checked = checked_of(r, &r->want[b->command[i].want]);
        if (!b->command[i].is_bare || atomic_load_explicit(checked, memory_order_relaxed) == mark_of(r, b))
            continue;
        atomic_store_explicit(checked, 0, memory_order_relaxed);
        is = true;
    }
    return is;
}

/* A slot of the batch has another master than when all were looked at. */
static bool some_slot_moved(const struct block_read *r, const struct batch *b)
{
    const struct cluster *c = async_client_nodes(r->async)->cluster;
    bool moved = false;
    for (unsigned i = 0; i < b->count && c != NULL; i++)
        moved |= cluster_moved(c, where_slot(r->want[b->command[i].want].where)) > r->source.moves;
    return moved;
}

static void finish_other_era(struct block_read *r, const struct batch *b)
{
    struct error e = {""};
    const struct want *w = &r->want[b->command[0].want];
    enum err code =
        accepts(r, b->era) ? error_set(&e, ERR_FENCED, "slots have moved since all masters were looked at")
        : b->era == 0
            ? error_set(&e, ERR_FENCED, "Redis node %s is no master", async_client_name(r->async, w->where))
            : error_set(&e, ERR_FENCED,
                        "Redis node %s has the replication id %016" PRIx64
                        "..., which the view does not accept",
                        async_client_name(r->async, w->where), b->era);
    block_read_finish(
        r, &(struct block_result){.code = code, .is_other_era = true, .at = w->at, .text = e.text});
}

static enum err take_one(struct block_read *r, const struct batch *b, struct want *w)
{
    if (w->redirect.port != 0) {
        w->state = WANT_ASK;
        return w->redirections++ < REDIRECTIONS_MAX ? ERR_OK : ERR_UNREACHABLE;
    }
    if (b->is_asking && !w->is_copied) {
        w->state = WANT_ASK;
        w->is_copied = true;
        return ERR_OK;
    }
    if (!resident_take_block(r->source.resident, &w->at, &w->read, w->bytes))
        return ERR_FENCED;
    w->state = WANT_HAVE;
    r->missing--;
    return ERR_OK;
}

static void take_all(struct block_read *r, const struct batch *b)
{
    if (is_of_another_server(r, b)) {
        again(r, b);
        return;
    }
    for (unsigned i = 0; i < b->count; i++) {
        struct want *w = &r->want[b->command[i].want];
        if (b->command[i].kind == COMMAND_HEADER && w->redirect.port == 0 && !b->is_asking)
            atomic_store_explicit(checked_of(r, w), mark_of(r, b), memory_order_relaxed);
        if (b->command[i].kind != COMMAND_BLOCK)
            continue;
        enum err code = take_one(r, b, w);
        if (code != ERR_OK) {
            block_read_finish(r, &(struct block_result){
                                     .code = code,
                                     .at = w->at,
                                     .text = code == ERR_FENCED ? "the view of the filter changed meanwhile"
                                                                : "the nodes of the cluster send a command "
                                                                  "round and round"});
            return;
        }
    }
    block_read_go_on(r);
}

/* If a reply says that the node will answer later, nothing of the batch is taken, so nothing is judged. */
static void settle(struct block_read *r, const struct batch *b)
{
    bool complete = !b->is_broken && b->awaited == b->count;
    if (!complete || (b->is_passing && b->code == ERR_OK))
        again(r, b);
    else if (b->is_answered && b->is_told && (!accepts(r, b->era) || some_slot_moved(r, b)))
        finish_other_era(r, b);
    else if (b->code != ERR_OK)
        block_read_finish(r, &(struct block_result){.code = b->code,
                                                    .later = b->code == ERR_FENCED ? r->source.view : 0,
                                                    .at = b->at,
                                                    .text = b->why.text});
    else
        take_all(r, b);
}

static void on_reply(void *arg, const redisReply *reply)
{
    struct batch *b = arg;
    const struct command *c = &b->command[b->taken++];
    if (reply == NULL)
        b->is_broken = true;
    else if (b->read != NULL)
        take(b, c, reply);
    if (b->taken < b->awaited)
        return;
    if (b->read != NULL) {
        LIST_REMOVE(b, next);
        settle(b->read, b);
    }
    free(b);
}
