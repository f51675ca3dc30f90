/* SPDX-License-Identifier: MIT */
/* One check or add.
 *
 * The happy path is: the view is known, one command a layer leaves for each key (GETRANGE, BITFIELD), every
 * reply carries the tag, done. Possible failure modes are:
 *   - a reply without the tag (WRONGTYPE of a tombstone, a missing key, a zombie): the key's whole attempt is
 *     discarded, the view reloaded, and the key starts again in all layers and generations;
 *   - the same under a view that was fenced when the commands were sent and is still the view after a reload:
 * the shard is lost. The answer is "maybe" or an error, never "no";
 *   - the connection failed, or Redis refused the command (out of memory, read-only, loading): tried again
 * until the deadline, as nothing is known of the shard;
 *   - the filter is being deleted: keys of shards that are gone wait until it is, then they start anew, all
 * of them, under the view of the filter that comes after it, or find none;
 *   - the view is gone: a check as lost, where it was there before or the configuration says that it should
 * be; an add waits for a new view, and is not acknowledged without one. */
#include "shard/operation.h"

#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "shard/operation_internal.h"

struct operation *operation_new(struct catalog *c, enum operation_kind kind, size_t keys, size_t bytes)
{
    struct operation *op = malloc(sizeof(*op) + keys * sizeof(struct operation_key) + bytes);
    if (op == NULL)
        return NULL;
    *op = (struct operation){.catalog = c, .kind = kind, .key_count = keys};
    op->keys = (struct operation_key *)(op + 1);
    op->bytes = (char *)(op->keys + keys);
    return op;
}

void operation_key(struct operation *op, const char *key, size_t length)
{
    char *copy = op->bytes + op->bytes_filled;
    if (length > 0)
        memcpy(copy, key, length);
    op->bytes_filled += length;
    op->keys[op->key_filled++] =
        (struct operation_key){.bytes = copy, .length = length, .state = KEY_PENDING};
}

enum err operation_status(const struct operation *op)
{
    return op->status;
}

const char *operation_error(const struct operation *op)
{
    return op->error != NULL ? op->error : error_name(op->status);
}

size_t operation_keys(const struct operation *op)
{
    return op->key_count;
}

bool operation_answered(const struct operation *op, size_t i)
{
    return op->keys[i].state == KEY_DONE;
}

enum key_result operation_result(const struct operation *op, size_t i)
{
    return op->keys[i].result;
}

enum operation_kind operation_kind(const struct operation *op)
{
    return op->kind;
}

bool operation_any_no(const struct operation *op)
{
    for (size_t i = 0; i < op->key_count; i++)
        if (op->keys[i].result == KEY_NO)
            return true;
    return false;
}

bool operation_was_retried(const struct operation *op)
{
    return op->retried;
}

void operation_free_if_over(struct operation *op)
{
    if (!op->released || op->outstanding > 0 || op->running)
        return;
    shared_view_unref(op->view);
    if (op->filter != NULL)
        catalog_unuse(op->filter);
    if (op->commands != op->first_commands)
        free(op->commands);
    free(op->error);
    free(op);
}

static void unqueue(struct operation *op)
{
    switch (op->in) {
    case QUEUE_NONE:
        break;
    case QUEUE_WAITING:
        TAILQ_REMOVE(&op->filter->waiting, op, queue);
        break;
    case QUEUE_WAITING_NEXT:
        TAILQ_REMOVE(&op->filter->waiting_next, op, queue);
        break;
    case QUEUE_RETRY:
        TAILQ_REMOVE(catalog_retries(op->catalog), op, queue);
        break;
    }
    op->in = QUEUE_NONE;
}

void operation_finish(struct operation *op, enum err status, const char *text)
{
    unqueue(op);
    op->status = status;
    free(op->error);
    op->error = text != NULL && text[0] != '\0' ? strdup(text) : NULL;
    op->running = false;
    TAILQ_REMOVE(catalog_active(op->catalog), op, active);
    if (op->released)
        operation_free_if_over(op);
    else
        op->done(op, op->arg);
}

void operation_release(struct operation *op)
{
    op->released = true;
    if (op->running)
        return; /* goes on alone and frees itself: what it has sent may not be taken back */
    operation_free_if_over(op);
}

void operation_restart_keys(struct operation *op)
{
    for (size_t i = 0; i < op->key_count; i++)
        op->keys[i].state = KEY_PENDING;
}

void operation_rewind(struct operation *op)
{
    op->retried = false;
    operation_restart_keys(op);
}

void operation_retry_later(struct operation *op)
{
    TAILQ_INSERT_TAIL(catalog_retries(op->catalog), op, queue);
    op->in = QUEUE_RETRY;
}

/* --- results --- */

static void count_fresh(struct operation *op, const struct operation_key *key)
{
    for (unsigned s = 0; s < 2; s++) {
        const struct generation *g = &op->view->v.slot[s];
        if (!key->fresh[s] || g->number == 0)
            continue;
        struct key_place place;
        hash_place(&g->layers[generation_written_layer(g)].geometry,
                   hash_key(g->seed, key->bytes, key->length), &place);
        catalog_count(op->filter, op->view, s, place.shard);
    }
}

static void key_finish(struct operation *op, struct operation_key *key)
{
    const struct view *v = &op->view->v;
    key->state = KEY_DONE;
    if (op->full) {
        key->result = key->present ? KEY_NO : KEY_FULL;
        return;
    }
    if (op->kind == OPERATION_CHECK) {
        key->result = key->present || !view_current(v)->built ? KEY_YES : KEY_NO;
        return;
    }
    key->fresh[v->current] = key->fresh[v->current] && !key->present; /* an older layer may hold it */
    count_fresh(op, key);
    key->result = key->fresh[v->current] && view_current(v)->built ? KEY_YES : KEY_NO;
}

/* The shard, or for a check the whole view, is lost: never "no". An add to a filter whose rows are in
 * Postgres is acknowledged as "may have been there": lost shards do not come back, they are replaced by a
 * build that reads the row. */
static void key_lost(struct operation *op, struct operation_key *key)
{
    const struct filter_policy *policy = &op->filter->policy;
    bool error = policy->error_on_lost || (op->kind == OPERATION_ADD && !policy->sourced);
    key->state = KEY_DONE;
    key->result = error ? KEY_LOST : op->kind == OPERATION_CHECK ? KEY_YES : KEY_NO;
}

/* --- results of an attempt --- */

/* Model: writer, checker. All replies of an attempt are in. */
void operation_settle(struct operation *op)
{
    bool unseen = false, unsent = false, held = false;
    for (size_t i = 0; i < op->key_count; i++) {
        struct operation_key *key = &op->keys[i];
        if (key->state == KEY_PENDING)
            key_finish(op, key);
        unseen |= key->state == KEY_UNSEEN;
        unsent |= key->state == KEY_UNSENT;
        held |= key->state == KEY_HELD;
    }
    if (!unseen && !unsent) {
        if (held)
            operation_attempt(op);
        else
            operation_finish(op, ERR_OK, NULL);
        return;
    }
    op->retried = true;
    if (unseen)
        catalog_reload(op->filter, op);
    else
        operation_retry_later(op);
}

/* --- views --- */

/* The filter's view is the one of the last attempt. */
static bool view_is_same(const struct operation *op)
{
    const struct view *now = &op->filter->view->v;
    return op->view != NULL && op->view->v.epoch == now->epoch && op->view->v.incarnation == now->incarnation;
}

/* Model: PROVES_LOSS. The reload shows the view under which keys were not seen, and it was fenced when they
 * were asked for. */
static bool proves_loss(const struct operation *op)
{
    return view_is_same(op) && !view_unfenced(&op->view->v) && op->filter->view->v.dropped == VIEW_KEPT;
}

static void conclude_loss(struct operation *op)
{
    for (size_t i = 0; i < op->key_count; i++)
        if (op->keys[i].state == KEY_UNSEEN) {
            key_lost(op, &op->keys[i]);
            catalog_report_lost(op->filter, op->view->v.slot[op->keys[i].unseen_slot].number);
        }
}

static bool all_done(const struct operation *op)
{
    for (size_t i = 0; i < op->key_count; i++)
        if (op->keys[i].state != KEY_DONE)
            return false;
    return true;
}

static bool any_unseen(const struct operation *op)
{
    for (size_t i = 0; i < op->key_count; i++)
        if (op->keys[i].state == KEY_UNSEEN)
            return true;
    return false;
}

static const char view_missing_text[] =
    "the filter's view is not in Redis: it was lost or is not made yet; nothing was acknowledged";

static void view_missing(struct operation *op, bool lost)
{
    struct catalog_filter *f = op->filter;
    /* An add makes a filter without a source, configured or not. */
    bool unmade = !f->policy.configured || (!f->policy.sourced && op->kind == OPERATION_ADD);
    if (!lost && unmade) {
        operation_restart_keys(op); /* what was done was done to a filter that is deleted */
        operation_finish(op, ERR_NOT_FOUND, "not found");
        return;
    }
    if (!f->policy.sourced && (op->kind == OPERATION_ADD || f->policy.error_on_lost)) {
        operation_finish(op, ERR_LOST, view_missing_text);
        return;
    }
    catalog_report_lost(f, 0);
    if (op->kind == OPERATION_ADD) { /* the shards may be there, and whoever holds the view yet reads them */
        operation_retry_later(op);
        return;
    }
    for (size_t i = 0; i < op->key_count; i++)
        if (op->keys[i].state != KEY_DONE)
            key_lost(op, &op->keys[i]);
    operation_finish(op, ERR_OK, NULL);
}

void operation_view_ready(struct operation *op, enum view_outcome outcome, const char *why)
{
    switch (outcome) {
    case VIEW_MISSING:
    case VIEW_LOST:
        view_missing(op, outcome == VIEW_LOST);
        return;
    case VIEW_WRONG_TYPE:
        operation_finish(op, ERR_WRONG_TYPE, why);
        return;
    case VIEW_DAMAGED:
        operation_finish(op, ERR_PARSE, why);
        return;
    case VIEW_UNREACHABLE:
        operation_retry_later(op);
        return;
    case VIEW_FOUND:
        break;
    }
    if (any_unseen(op) && proves_loss(op))
        conclude_loss(op);
    if (all_done(op)) {
        operation_finish(op, ERR_OK, NULL);
        return;
    }
    /* The same view, not fenced yet, or its filter is being deleted: somebody is in the middle of it. Not in
     * a hot loop. */
    if (any_unseen(op) && view_is_same(op)) {
        shared_view_forget_renames(op->filter->view);
        operation_retry_later(op);
        return;
    }
    operation_attempt(op);
}

void operation_set_timeout(struct operation *op, unsigned ms)
{
    op->timeout_ms = ms;
}

static unsigned timeout_of(const struct operation *op)
{
    return op->timeout_ms != 0 ? op->timeout_ms : catalog_options(op->catalog)->timeout_ms;
}

/* In the order of deadlines; mostly it is the last. */
static void insert_active(struct operation *op)
{
    struct operation_list *active = catalog_active(op->catalog);
    struct operation *before = TAILQ_LAST(active, operation_list);
    while (before != NULL && before->deadline > op->deadline)
        before = TAILQ_PREV(before, operation_list, active);
    if (before == NULL)
        TAILQ_INSERT_HEAD(active, op, active);
    else
        TAILQ_INSERT_AFTER(active, before, op, active);
}

void operation_start(struct operation *op, struct catalog_filter *f, operation_done_fn *done, void *arg)
{
    if (op->filter == NULL)
        catalog_use(f);
    else
        op->retried = true; /* again: what came behind it may have been answered already */
    op->filter = f;
    op->done = done;
    op->arg = arg;
    op->running = true;
    op->status = ERR_OK;
    free(op->error);
    op->error = NULL;
    op->deadline = clock_mono_us() + (uint64_t)timeout_of(op) * 1000;
    insert_active(op);
    /* After ERR_FULL or ERR_NOT_FOUND the view is another one by now. Answers never come from inside this
     * call, so an add that may be told at once that it has no room goes through the queue. */
    if (f->view == NULL || op->retried)
        catalog_reload(f, op);
    else if (op->kind == OPERATION_ADD && !f->view->v.sourced && shared_view_room(f->view) == 0)
        operation_retry_later(op);
    else
        operation_attempt(op);
}

/* --- time --- */

/* The first node that is down; the count of nodes where none is. */
static unsigned node_down(const struct operation *op)
{
    unsigned count = catalog_options(op->catalog)->nodes->count;
    for (unsigned i = 0; i < count; i++)
        if (store_down_us(catalog_store(op->catalog), i) > 0)
            return i;
    return count;
}

/* A key that has all its replies needs not go under with those that wait for another node. */
static void finish_answered(struct operation *op)
{
    for (size_t i = 0; i < op->key_count; i++)
        if (op->outstanding > 0 && op->keys[i].state == KEY_PENDING && op->keys[i].waits == 0)
            key_finish(op, &op->keys[i]);
}

void operation_expire(struct operation *op)
{
    struct error e;
    const struct nodes *nodes = catalog_options(op->catalog)->nodes;
    unsigned down = node_down(op);
    finish_answered(op);
    if (op->error != NULL) {
        (void)error_set(&e, ERR_REFUSED, "Redis refuses: %s; nothing was acknowledged", op->error);
        operation_finish(op, ERR_REFUSED, e.text);
        return;
    }
    if (down == nodes->count && op->filter->view == NULL && op->filter->absence_reported) {
        operation_finish(op, ERR_LOST, view_missing_text);
        return;
    }
    if (down == nodes->count && op->filter->view != NULL && op->filter->view->v.dropped != VIEW_KEPT) {
        operation_finish(op, ERR_TIMEOUT, "the filter is being deleted; nothing was acknowledged");
        return;
    }
    if (down < nodes->count)
        (void)error_set(&e, ERR_UNREACHABLE, "Redis node %s is not reachable (%s); nothing was acknowledged",
                        nodes->node[down].name, store_why(catalog_store(op->catalog), down));
    else
        (void)error_set(&e, ERR_TIMEOUT, "no answer from Redis within %u ms; nothing was acknowledged",
                        timeout_of(op));
    operation_finish(op, down < nodes->count ? ERR_UNREACHABLE : ERR_TIMEOUT, e.text);
}

void operation_retry(struct operation *op)
{
    op->retried = true;
    if (op->filter->view == NULL || any_unseen(op)) {
        for (size_t i = 0; i < op->key_count; i++)
            if (op->keys[i].state == KEY_UNSEEN && (op->view == NULL || view_unfenced(&op->view->v)))
                op->keys[i].state = KEY_PENDING;
        if (op->filter->view == NULL || any_unseen(op)) {
            catalog_reload(op->filter, op);
            return;
        }
    }
    operation_attempt(op);
}
