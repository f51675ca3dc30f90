/* SPDX-License-Identifier: MIT */
/* One check or add.
 *
 * The happy path is: the view is known, one command a layer leaves for each key (GETRANGE, BITFIELD), every
 * reply carries the tag, done. Possible failure modes are:
 *   - a reply without the tag (WRONGTYPE of a tombstone, a missing key, a zombie): the key's whole attempt is
 *     discarded, the view reloaded, and the key starts again in all layers and generations;
 *   - the same under a view that was fenced when the commands were sent and is still the view after a reload:
 * the shard is lost. The answer is "maybe" or an error, never "no";
 *   - all tags are seen, but a master that says "absent" is of a lineage that the filter does not trust (it
 * was promoted, or started anew, and may lack single bits), or the shard was lost and is being filled anew:
 * "maybe" or an error, and an add is never "new";
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
    *op = (struct operation){.catalog = c, .kind = kind, .key_count = keys, .away = NODE_NONE};
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
    return op->retried || op->acked || op->redirected != store_redirected(catalog_store(op->catalog));
}

static void operation_free(struct operation *op)
{
    shared_view_unref(op->view);
    if (op->filter != NULL)
        catalog_unuse(op->filter);
    free(op->unacked_why);
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
    if (op->attempt != NULL)
        op->attempt->op = NULL; /* what is yet to come concerns it no more */
    op->attempt = NULL;
    TAILQ_REMOVE(catalog_active(op->catalog), op, active);
    if (op->released)
        operation_free(op);
    else
        op->done(op, op->arg);
}

void operation_release(struct operation *op)
{
    op->released = true;
    if (!op->running) /* else it goes on alone, and frees itself */
        operation_free(op);
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

/* The shard, or its master, may lack what was acknowledged: never "no". */
static uint8_t suspect_result(const struct operation *op)
{
    catalog_report_suspect(op->filter);
    return op->filter->policy.error_on_lost ? KEY_LOST : KEY_YES;
}

/* Nor "new", of an add. */
static bool can_say_no(const struct operation *op)
{
    return view_current(&op->view->v)->built && !op->filter->doubtful;
}

void operation_key_finish(struct operation *op, struct operation_key *key)
{
    const struct view *v = &op->view->v;
    key->state = KEY_DONE;
    if (op->full) {
        key->result = key->present ? KEY_NO : KEY_FULL;
        return;
    }
    if (op->kind == OPERATION_CHECK) {
        if (key->present || !can_say_no(op))
            key->result = KEY_YES;
        else
            key->result = key->suspect ? suspect_result(op) : KEY_NO;
        return;
    }
    if (key->suspect)
        catalog_report_suspect(op->filter);
    key->fresh[v->current] = key->fresh[v->current] && !key->present; /* an older layer may hold it */
    count_fresh(op, key);
    key->result = key->fresh[v->current] && can_say_no(op) && !key->suspect ? KEY_YES : KEY_NO;
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
            operation_key_finish(op, key);
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

/* An add that is acknowledged although its shard is lost relies on nobody reading that shard any more. */
static bool may_acknowledge(const struct operation *op)
{
    const struct catalog_options *o = catalog_options(op->catalog);
    const struct filter_policy *policy = &op->filter->policy;
    bool written_nowhere = op->kind == OPERATION_ADD && policy->sourced && !policy->error_on_lost;
    return !written_nowhere || o->is_loss_sure == NULL ||
           o->is_loss_sure(o->arg, op->filter->name, op->filter->name_length, &op->view->v);
}

/* The generation in use, if a shard of that is lost: a loss of the other one alone is no reason to build. */
static void report_unseen(struct operation *op)
{
    const struct view *v = &op->view->v;
    unsigned slot = 1 - v->current;
    for (size_t i = 0; i < op->key_count; i++)
        if (op->keys[i].state == KEY_UNSEEN && op->keys[i].unseen_slot == v->current)
            slot = v->current;
    catalog_report_lost(op->filter, v->slot[slot].number);
}

static void conclude_loss(struct operation *op)
{
    report_unseen(op);
    if (!may_acknowledge(op))
        return;
    for (size_t i = 0; i < op->key_count; i++)
        if (op->keys[i].state == KEY_UNSEEN)
            key_lost(op, &op->keys[i]);
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

const char operation_view_missing[] =
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
    catalog_report_lost(f, 0);
    if (!f->policy.sourced && (op->kind == OPERATION_ADD || f->policy.error_on_lost)) {
        operation_finish(op, ERR_LOST, operation_view_missing);
        return;
    }
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
    case VIEW_REFUSED:
        if (op->error == NULL)
            op->error = strdup(why);
        operation_retry_later(op);
        return;
    case VIEW_NEWER:
        operation_finish(op, ERR_FORMAT, why);
        return;
    case VIEW_ABROAD:
        operation_finish(op, ERR_CONFIG, why);
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

void operation_look_if_full(struct operation *op)
{
    op->look_if_full = true;
}

unsigned operation_timeout(const struct operation *op)
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
    op->redirected = store_redirected(catalog_store(op->catalog));
    free(op->error);
    op->error = NULL;
    op->unacked = ERR_OK;
    op->deadline = clock_mono_us() + (uint64_t)operation_timeout(op) * 1000;
    insert_active(op);
    /* After ERR_FULL or ERR_NOT_FOUND the view is another one by now. Answers never come from inside this
     * call, so an add that may be told at once that it has no room goes through the queue. */
    if (f->view == NULL || op->retried || catalog_home_moved(op->catalog, f->view))
        catalog_reload(f, op);
    else if (op->kind == OPERATION_ADD && !f->view->v.sourced && shared_view_room(f->view) == 0)
        operation_retry_later(op);
    else
        operation_attempt(op);
}

void operation_retry(struct operation *op)
{
    if (operation_is_hopeless(op)) {
        operation_expire(op);
        return;
    }
    struct catalog_filter *f = op->filter;
    op->retried = true;
    for (size_t i = 0; i < op->key_count; i++)
        if (op->keys[i].state == KEY_UNSEEN && (op->view == NULL || view_unfenced(&op->view->v)))
            op->keys[i].state = KEY_PENDING;
    /* A view that came over another connection to home would leave each absent key at "maybe". */
    if (f->view == NULL || any_unseen(op) || catalog_home_moved(op->catalog, f->view))
        catalog_reload(f, op);
    else
        operation_attempt(op);
}
