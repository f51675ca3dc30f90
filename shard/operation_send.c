/* SPDX-License-Identifier: MIT */
/* One attempt of an operation: its keys' commands out, their replies in. What the replies mean as a whole is
 * decided in operation.c. */
#include <stdlib.h>
#include <string.h>
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
    struct operation *op = command->op;
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
    } else if (command->kind == BLOCK_ADD && answer == BLOCK_ABSENT) {
        key->fresh[command->slot] = true;
    } else if (command->kind == BLOCK_READ && answer == BLOCK_PRESENT && command->slot == v->current) {
        key->present = true;
    }
}

static void on_block(redisAsyncContext *context, void *reply, void *arg)
{
    (void)context;
    struct operation_command *command = arg;
    struct operation *op = command->op;
    if (op->running) {
        op->keys[command->key].waits--;
        take_reply(command, reply);
    }
    if (--op->outstanding > 0)
        return;
    op->view->in_flight -= op->in_flight;
    op->in_flight = 0;
    if (op->running)
        operation_settle(op);
    else
        operation_free_if_over(op);
}

static void on_rename(redisAsyncContext *context, void *reply, void *arg)
{
    (void)context;
    (void)reply; /* the command behind it tells whether the shard is there */
    (void)arg;
}

/* Model: anybody. Under a view that may not be fenced yet: rename the shard ourselves, ahead of the first
 * command to it. */
static void help_fence(struct operation *op, unsigned slot, unsigned layer, uint32_t shard)
{
    struct shared_view *view = op->view;
    const struct generation *g = &view->v.slot[slot];
    if (view->renamed[slot] == NULL)
        return;
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
                store_send(catalog_store(op->catalog), placement_node(&view->placement[slot], shard),
                           command.data, command.length, on_rename, NULL);
        script_fini(call);
        free(call);
    }
    buffer_fini(&command);
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
    *slot_of = (struct operation_command){.op = op,
                                          .hash = h,
                                          .key = key,
                                          .slot = (uint8_t)slot,
                                          .layer = (uint8_t)layer,
                                          .kind = (uint8_t)kind};
    if (store_send(catalog_store(op->catalog), placement_node(&view->placement[slot], place.shard), text.text,
                   text.length, on_block, slot_of)) {
        op->outstanding++;
        op->keys[key].waits++;
    } else {
        op->keys[key].state = KEY_UNSENT;
    }
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
    key->present = false;
    key->waits = 0;
    const struct generation *g = view_current(v);
    struct key_hash h = hash_key(g->seed, key->bytes, key->length);
    unsigned written = writes(op) ? generation_written_layer(g) : GENERATION_LAYERS_MAX;
    for (unsigned layer = 0; layer < g->layer_count; layer++)
        send_one(op, &op->commands[(*used)++], i, v->current, layer,
                 layer == written ? BLOCK_ADD : BLOCK_READ, h);
    const struct generation *other = view_alternate(v);
    if (writes(op) && phase_row(v->phase)->writes_alternate && other != NULL)
        send_one(op, &op->commands[(*used)++], i, 1 - v->current, generation_written_layer(other), BLOCK_ADD,
                 hash_key(other->seed, key->bytes, key->length));
}

static bool make_room(struct operation *op, size_t wanted)
{
    if (op->commands == NULL) {
        op->commands = op->first_commands;
        op->command_capacity = sizeof(op->first_commands) / sizeof(op->first_commands[0]);
    }
    if (wanted <= op->command_capacity)
        return true;
    struct operation_command *room = malloc(wanted * sizeof(*room));
    if (room == NULL)
        return false;
    if (op->commands != op->first_commands)
        free(op->commands);
    op->commands = room;
    op->command_capacity = wanted;
    return true;
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
    op->full = *room == 0 && view->v.expansion == 0;
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
        op->in_flight++;
        send_key(op, (uint32_t)i, &used);
    }
    if (op->outstanding > 0)
        op->view->in_flight += op->in_flight;
    else
        op->in_flight = 0;
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
        op->keys[i].fresh[0] = op->keys[i].fresh[1] = false;
}

/* Send the keys that have no answer yet, under the filter's present view. */
void operation_attempt(struct operation *op)
{
    forget_answers(op);
    forget_fresh(op);
    shared_view_unref(op->view);
    op->view = shared_view_ref(op->filter->view);
    size_t todo = 0;
    uint64_t room;
    for (size_t i = 0; i < op->key_count; i++)
        if (op->keys[i].state != KEY_DONE) {
            op->keys[i].state = KEY_HELD; /* what an earlier view did not show says nothing under this one */
            todo++;
        }
    if (!find_room(op, &room))
        return;
    if (!make_room(op, todo * commands_per_key(op))) {
        operation_retry_later(op);
        return;
    }
    send_keys(op, room);
    if (op->outstanding == 0)
        operation_retry_later(op);
}
