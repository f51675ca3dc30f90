/* SPDX-License-Identifier: MIT */
/* How an operation ends that does not get its answers: at its deadline, or before, where nothing is to be
 * hoped for: a node that has been away for long fails its own keys at once, and those alone. */
#include "shard/operation_internal.h"

#define NOT_ACKNOWLEDGED "; the add is not acknowledged, though its keys may be in the filter"

bool operation_is_dead(const struct operation *op, unsigned where)
{
    return store_is_dead(catalog_store(op->catalog), where,
                         catalog_options(op->catalog)->timeout_ms * UINT64_C(1000));
}

void operation_away(struct operation *op, unsigned where)
{
    op->away = where;
    for (size_t i = 0; i < op->key_count; i++)
        op->keys[i].refused = operation_is_dead(op, where);
}

bool operation_is_hopeless(const struct operation *op)
{
    if (op->away == NODE_NONE || !operation_is_dead(op, op->away))
        return false;
    for (size_t i = 0; i < op->key_count; i++)
        if (op->keys[i].state != KEY_DONE && !op->keys[i].refused)
            return false;
    return true;
}

/* The node that it waits for, where that is away still; else any that is. */
static bool find_down(const struct operation *op, const char **node, const char **why)
{
    const struct store *store = catalog_store(op->catalog);
    if (op->away == NODE_NONE || store_down_us(store, op->away) == 0)
        return store_any_down(store, node, why);
    *node = store_name(store, op->away);
    *why = store_why(store, op->away);
    return true;
}

/* A key that has all its replies needs not go under with those that wait for another node. */
static void finish_answered(struct operation *op)
{
    for (size_t i = 0; i < op->key_count; i++)
        if (op->attempt != NULL && op->keys[i].state == KEY_PENDING && op->keys[i].waits == 0)
            operation_key_finish(op, &op->keys[i]);
}

void operation_expire(struct operation *op)
{
    struct error e;
    const char *node, *why;
    bool down = find_down(op, &node, &why);
    finish_answered(op);
    if (op->unacked != ERR_OK && op->unacked_why != NULL) {
        (void)error_set(&e, op->unacked, "%s" NOT_ACKNOWLEDGED, op->unacked_why);
        operation_finish(op, op->unacked, e.text);
    } else if (op->error != NULL) {
        (void)error_set(&e, ERR_REFUSED, "Redis refuses: %s; nothing was acknowledged", op->error);
        operation_finish(op, ERR_REFUSED, e.text);
    } else if (!down && op->filter->view == NULL && op->filter->absence_reported) {
        operation_finish(op, ERR_LOST, operation_view_missing);
    } else if (!down && op->filter->view != NULL && op->filter->view->v.dropped != VIEW_KEPT) {
        operation_finish(op, ERR_TIMEOUT, "the filter is being deleted; nothing was acknowledged");
    } else if (down) {
        (void)error_set(&e, ERR_UNREACHABLE, "Redis node %s is not reachable (%s); nothing was acknowledged",
                        node, why);
        operation_finish(op, ERR_UNREACHABLE, e.text);
    } else if (op->attempt != NULL && op->attempt->acks_awaited > 0) {
        (void)error_set(&e, ERR_TIMEOUT,
                        "no acknowledgement of replicas or disks within %u ms" NOT_ACKNOWLEDGED,
                        operation_timeout(op));
        operation_finish(op, ERR_TIMEOUT, e.text);
    } else {
        (void)error_set(&e, ERR_TIMEOUT, "no answer from Redis within %u ms; nothing was acknowledged",
                        operation_timeout(op));
        operation_finish(op, ERR_TIMEOUT, e.text);
    }
}
