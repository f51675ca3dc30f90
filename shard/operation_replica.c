/* SPDX-License-Identifier: MIT */
/* Checks that are asked of replicas first. Bits are only ever set under one name of a shard, so what a
 * replica has is what its master had, and has, or what has moved on from that name to the next: a key that is
 * present there is present. Nothing else that a replica says proves anything: it is asked of the master
 * before the key is answered, by the same attempt, whose view is as old as it was. */
#include "shard/operation_internal.h"

bool operation_asks_replicas(const struct operation *op)
{
    return op->kind == OPERATION_CHECK && !op->retried && op->filter->policy.replica_age_ms > 0;
}

static bool proves_presence(const struct operation_command *command, const redisReply *reply)
{
    const struct shared_view *view = command->attempt->view;
    const struct geometry *g = &view->v.slot[command->slot].layers[command->layer].geometry;
    struct key_place place;
    if (reply == NULL)
        return false;
    hash_place(g, command->hash, &place);
    return block_command_read(BLOCK_READ, g, view->tag[command->slot], &place, reply) == BLOCK_PRESENT;
}

void operation_take_replica(struct operation_command *command, const redisReply *reply)
{
    command->unsure = !proves_presence(command, reply);
    if (!command->unsure)
        command->attempt->op->keys[command->key].present = true;
}

/* The commands of one key stand together, one a layer. */
void operation_ask_master(struct operation_command *command)
{
    struct operation *op = command->attempt->op;
    const struct operation_key *key = &op->keys[command->key];
    struct operation_command *first = command - command->layer;
    if (key->waits > 0 || key->present || key->state != KEY_PENDING)
        return;
    for (unsigned i = 0; i < view_current(&op->view->v)->layer_count && key->state == KEY_PENDING; i++) {
        if (!first[i].unsure)
            continue;
        store_count_reasked(catalog_store(op->catalog), 1);
        operation_send_to_master(&first[i]);
    }
}
