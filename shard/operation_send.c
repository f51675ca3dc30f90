/* SPDX-License-Identifier: MIT */
/* One attempt of an operation: its keys' commands out, their replies in. What the replies mean as a whole is
 * decided in operation.c. */
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "shard/fence.h"
#include "shard/operation_internal.h"

/* Redis answered with an error that says nothing of the shard. The first one is told if the deadline comes.
 */
static void note_refusal(struct operation *op, const redisReply *reply)
{
    if (op->error == NULL)
        op->error = strdup(reply->str);
}

static void take_reply(struct operation_command *command, const redisReply *reply)
{
    struct operation *op = command->attempt->op;
    struct operation_key *key = &op->keys[command->key];
    const struct view *v = &op->view->v;
    if (reply == NULL) {
        key->state = KEY_UNSENT;
        return;
    }
    const struct geometry *g = &v->slot[command->slot].layers[command->layer].geometry;
    struct key_place place;
    hash_place(g, command->hash, &place);
    enum block_answer answer =
        block_command_read(command->kind, g, op->view->tag[command->slot], &place, reply);
    if (answer == BLOCK_REFUSED) {
        note_refusal(op, reply);
        key->state = KEY_UNSENT;
    } else if (answer == BLOCK_BAD) {
        if (key->state != KEY_UNSENT)
            key->state = KEY_UNSEEN;
        key->unseen_slot = command->slot;
    } else if (answer == BLOCK_ABSENT) {
        key->fresh[command->slot] |= command->kind == BLOCK_ADD;
        if (command->slot == v->current &&
            (!catalog_trusts(op->catalog, op->view) ||
             shared_view_is_unsure(op->view, command->slot, command->layer, place.shard)))
            key->suspect = true;
    } else if (command->kind == BLOCK_READ && answer == BLOCK_PRESENT && command->slot == v->current) {
        key->present = true;
    }
}

/* --- an attempt's life --- */

/* NULL: no memory. */
static struct attempt *attempt_new(struct operation *op, size_t commands)
{
    struct attempt *a = malloc(sizeof(*a) + commands * sizeof(a->commands[0]));
    if (a != NULL)
        *a = (struct attempt){.op = op, .view = shared_view_ref(op->view)};
    return a;
}

static void attempt_free(struct attempt *a)
{
    if (a->op != NULL)
        a->op->attempt = NULL;
    a->view->in_flight -= a->in_flight;
    shared_view_unref(a->view);
    free(a);
}

static void answered(struct attempt *a)
{
    struct operation *op = a->op;
    if (--a->outstanding > 0)
        return;
    attempt_free(a);
    if (op != NULL)
        operation_settle(op);
}

static void on_block(void *arg, const redisReply *reply)
{
    struct operation_command *command = arg;
    struct operation *op = command->attempt->op;
    if (op != NULL) {
        op->keys[command->key].waits--;
        take_reply(command, reply);
    }
    answered(command->attempt);
}

/* A key that is not acknowledged is added again until the deadline: the replica may come back. */
static void on_acked(void *arg, enum ack_outcome outcome, const char *why)
{
    struct operation_command *command = arg;
    struct operation *op = command->attempt->op;
    command->attempt->acks_awaited--;
    if (op != NULL) {
        op->keys[command->key].waits--;
        if (outcome != ACK_GIVEN)
            op->keys[command->key].state = KEY_UNSENT;
        if (outcome == ACK_SHORT || outcome == ACK_REFUSED) {
            free(op->unacked_why);
            op->unacked_why = strdup(why);
            op->unacked = outcome == ACK_SHORT ? ERR_TIMEOUT : ERR_REFUSED;
        }
    }
    answered(command->attempt);
}

static void on_rename(void *arg, const redisReply *reply)
{
    (void)reply; /* the command behind it tells whether the shard is there */
    (void)arg;
}

/* Model: anybody. Under a view that may not be fenced yet: rename the shard ourselves, ahead of the first
 * command to it. */
static void help_fence(struct operation *op, unsigned slot, unsigned layer, uint32_t shard)
{
    struct shared_view *view = op->view;
    const struct generation *g = &view->v.slot[slot];
    if (view->renamed[slot] == NULL || view->v.recovery != RECOVERY_NONE || op->filter->doubtful)
        return; /* nothing to do, or it lies nobody knows where: whoever reconciles the view finds it */
    size_t at = shard;
    for (unsigned i = 0; i < layer; i++)
        at += g->layers[i].geometry.shards;
    if (view->renamed[slot][at])
        return;
    struct script_call *call = calloc(1, sizeof(*call));
    struct buffer command = {0};
    if (call != NULL) {
        fence_rename_call(call, &view->names, &view->v, g, layer, shard, view->tag[slot],
                          catalog_options(op->catalog)->tombstone_ms);
        if (script_format(call, &command, NULL) == ERR_OK)
            view->renamed[slot][at] =
                store_send(catalog_store(op->catalog), placement_where(&view->placement[slot], layer, shard),
                           command.data, command.length, on_rename, NULL);
        script_fini(call);
        free(call);
    }
    buffer_fini(&command);
}

static struct ack_need need_of(const struct operation *op)
{
    const struct filter_policy *policy = &op->filter->policy;
    return (struct ack_need){
        .replicas = policy->add_acks, .fsync = policy->add_fsync, .timeout_ms = operation_timeout(op)};
}

static bool needs_acks(const struct operation *op)
{
    struct ack_need need = need_of(op);
    return op->kind == OPERATION_ADD && ack_wanted(&need);
}

static bool send_plain(struct operation *op, struct operation_command *command, unsigned where,
                       const struct block_command *text)
{
    if (!store_send(catalog_store(op->catalog), where, text->text, text->length, on_block, command))
        return false;
    op->attempt->outstanding++;
    op->keys[command->key].waits++;
    return true;
}

static bool send_acked(struct operation *op, struct operation_command *command, unsigned where,
                       const struct block_command *text)
{
    struct ack_need need = need_of(op);
    if (!store_send_acked(catalog_store(op->catalog), where, text->text, text->length, &need, on_block,
                          on_acked, command))
        return false;
    op->acked = true;
    op->attempt->acks_awaited++;
    op->attempt->outstanding += 2; /* the reply, and the acknowledgement */
    op->keys[command->key].waits += 2;
    return true;
}

static void send_one(struct operation *op, struct operation_command *slot_of, uint32_t key, unsigned slot,
                     unsigned layer, enum block_command_kind kind, struct key_hash h)
{
    struct shared_view *view = op->view;
    const struct generation *g = &view->v.slot[slot];
    const struct geometry *geometry = &g->layers[layer].geometry;
    struct key_place place;
    struct block_command text;
    hash_place(geometry, h, &place);
    help_fence(op, slot, layer, place.shard);
    block_command_format(&text, kind, &view->names, view->v.epoch, g->number, layer, geometry, &place);
    *slot_of = (struct operation_command){.attempt = op->attempt,
                                          .hash = h,
                                          .key = key,
                                          .slot = (uint8_t)slot,
                                          .layer = (uint8_t)layer,
                                          .kind = (uint8_t)kind};
    unsigned where = placement_where(&view->placement[slot], layer, place.shard);
    /* In a filter that is full, an add is acknowledged by what it reads. */
    if (needs_acks(op) && (kind == BLOCK_ADD || op->full) ? send_acked(op, slot_of, where, &text)
                                                          : send_plain(op, slot_of, where, &text))
        return;
    op->away = where;
    op->keys[key].state = KEY_UNSENT;
    op->keys[key].refused |= operation_is_dead(op, where);
}

static bool writes(const struct operation *op)
{
    return op->kind == OPERATION_ADD && !op->full;
}

static size_t commands_per_key(const struct operation *op)
{
    const struct view *v = &op->view->v;
    return view_current(v)->layer_count + (writes(op) && phase_row(v->phase)->writes_alternate);
}

/* Model: COMMANDS, send_one. */
static void send_key(struct operation *op, uint32_t i, size_t *used)
{
    const struct view *v = &op->view->v;
    struct operation_key *key = &op->keys[i];
    key->state = KEY_PENDING;
    key->present = key->refused = false;
    key->suspect &= op->kind == OPERATION_ADD;
    key->waits = 0;
    const struct generation *g = view_current(v);
    struct key_hash h = hash_key(g->seed, key->bytes, key->length);
    unsigned written = writes(op) ? generation_written_layer(g) : GENERATION_LAYERS_MAX;
    for (unsigned layer = 0; layer < g->layer_count; layer++)
        send_one(op, &op->attempt->commands[(*used)++], i, v->current, layer,
                 layer == written ? BLOCK_ADD : BLOCK_READ, h);
    const struct generation *other = view_alternate(v);
    if (writes(op) && phase_row(v->phase)->writes_alternate && other != NULL)
        send_one(op, &op->attempt->commands[(*used)++], i, 1 - v->current, generation_written_layer(other),
                 BLOCK_ADD, hash_key(other->seed, key->bytes, key->length));
}

/* How many keys may be sent now. An add to a filter without a source must not pass its layer's capacity, or
 * the promised error rate would be broken before the next layer is there: what has no room waits for the adds
 * that are under way, or, when those have filled the layer, for a new one. False: the attempt is over for
 * now. */
static bool find_room(struct operation *op, uint64_t *room)
{
    struct shared_view *view = op->view;
    *room = UINT64_MAX;
    if (op->kind == OPERATION_CHECK || view->v.sourced)
        return true;
    if (!view->items_known) {
        operation_retry_later(op);
        return false;
    }
    *room = shared_view_room(view);
    op->full = *room == 0 && (view->v.expansion == 0 || op->look_if_full);
    if (op->full) {
        *room = UINT64_MAX;
        return true;
    }
    if (*room == 0 && view->v.dropped != VIEW_KEPT) { /* it grows no more */
        operation_retry_later(op);
        return false;
    }
    if (*room == 0) {
        operation_finish(op, ERR_FULL, "the newest layer is full");
        return false;
    }
    uint64_t unseen = shared_view_room_unseen(view, clock_mono_us());
    if (unseen <= view->in_flight)
        operation_away(op, catalog_home(op->catalog, &view->names));
    *room = *room < unseen ? *room : unseen;
    *room = *room > view->in_flight ? *room - view->in_flight : 0;
    if (*room == 0)
        operation_retry_later(op);
    return *room > 0;
}

static void send_keys(struct operation *op, uint64_t room)
{
    size_t used = 0;
    for (size_t i = 0; i < op->key_count; i++) {
        if (op->keys[i].state == KEY_DONE)
            continue;
        if (room == 0) {
            op->keys[i].state = KEY_HELD;
            continue;
        }
        room--;
        op->attempt->in_flight += op->kind == OPERATION_ADD;
        send_key(op, (uint32_t)i, &used);
    }
    op->view->in_flight += op->attempt->in_flight;
}

/* What was added to a filter that was deleted, or lost, since is not in the one that took its place. */
static void forget_answers(struct operation *op)
{
    if (op->view != NULL && op->view->v.incarnation != op->filter->view->v.incarnation)
        operation_restart_keys(op);
}

/* Bits that were new to a generation while it was being built say nothing of the key, once that generation is
 * the one that is read: only an attempt under it can tell "new". */
static void forget_fresh(struct operation *op)
{
    const struct view *before = op->view == NULL ? NULL : &op->view->v, *now = &op->filter->view->v;
    if (before == NULL || (before->incarnation == now->incarnation &&
                           view_current(before)->number == view_current(now)->number))
        return;
    for (size_t i = 0; i < op->key_count; i++)
        op->keys[i].fresh[0] = op->keys[i].fresh[1] = op->keys[i].suspect = false;
}

/* Send the keys that have no answer yet, under the filter's present view. */
void operation_attempt(struct operation *op)
{
    op->away = NODE_NONE;
    forget_answers(op);
    forget_fresh(op);
    shared_view_unref(op->view);
    op->view = shared_view_ref(op->filter->view);
    size_t todo = 0;
    uint64_t room;
    for (size_t i = 0; i < op->key_count; i++)
        if (op->keys[i].state != KEY_DONE) {
            op->keys[i].refused = false;
            op->keys[i].state = KEY_HELD; /* what an earlier view did not show says nothing under this one */
            todo++;
        }
    if (!find_room(op, &room))
        return;
    op->attempt = attempt_new(op, todo * commands_per_key(op));
    if (op->attempt == NULL) {
        operation_retry_later(op);
        return;
    }
    send_keys(op, room);
    if (op->attempt->outstanding == 0) {
        attempt_free(op->attempt);
        operation_retry_later(op);
    }
}
