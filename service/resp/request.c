/* SPDX-License-Identifier: MIT */
/* The requests of one client: operations under way, and their replies in the order of the commands. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "service/admin/admin.h"
#include "service/keys/request_count.h"
#include "service/resp/answer.h"
#include "service/resp/client.h"
#include "service/resp/client_batch.h"
#include "service/resp/worker.h"

/* A request is a command whose reply is not written yet. */
enum {
    KEY_BYTES = 64, /* bytes that a request holds for each key, besides the key itself */
    GATHERED_BYTES = 4096,
    PLAIN_KEYS = 128 /* plain replies that are written in one loop */
};

struct request {
    struct key_operation *op; /* NULL: the reply is in `ready`, or comes from `batch` */
    STAILQ_ENTRY(request) link;
    struct client *client;
    struct client_batch *batch; /* NULL: the request is not a batch */
    enum reply_shape shape;
    int protocol; /* the protocol when the command came; a later HELLO may change the client's */
    struct counted counted;
    struct spent spent;
    bool done;
    bool is_early;  /* a check that would see keys added after it; counted in client->early_checks */
    bool overtaken; /* an add before this check was retried after the check was sent */
    size_t
        commands; /* number of commands; above 1 it is a run, with one key per command (client_run_take()) */
    size_t written; /* number of its replies that are written */
    size_t weight;  /* its part of the worker's in_flight */
    size_t bytes;   /* its part of the client's request_bytes */
    struct buffer ready;
};

/* --- outcomes, for metrics and the log of slow commands --- */

/* Command @what of @c has ended; count it @times times. @spent is NULL if it was answered at once. */
static void count_outcome(struct client *c, const struct counted *what, enum outcome outcome, size_t times,
                          const struct spent *spent)
{
    if (what->row == METER_NO_ROW || times == 0)
        return;
    uint64_t now = clock_mono_us(), us = now > what->came_us ? now - what->came_us : 0;
    meter_count(c->worker->meter, what->row, outcome, us, times);
    struct spent all = spent == NULL ? (struct spent){0} : *spent;
    all.came_us = what->came_us;
    if (all.asked_us != 0 && all.answered_us == 0)
        all.answered_us = what->came_us + us;
    for (; times > 0 && slow_is(c->worker->config, us); times--) {
        meter_slow(c->worker->meter);
        slow_log(&(struct slow){.client = c->address,
                                .what = c->worker->commands->meter->label(what->row, 0),
                                .outcome = outcome_name(outcome),
                                .us = us,
                                .spent = &all,
                                .keys = c->worker->keys});
    }
}

static struct request *request_new(struct client *c, size_t commands, size_t weight)
{
    c->worker->requests.size = sizeof(struct request);
    struct request *r = pool_take(&c->worker->requests, sizeof(*r));
    if (r == NULL)
        return NULL;
    *r = (struct request){.client = c};
    r->commands = commands;
    r->weight = weight;
    r->protocol = c->protocol;
    r->counted = c->counted;
    c->worker->in_flight += weight;
    STAILQ_INSERT_TAIL(&c->requests, r, link);
    c->request_count += commands;
    return r;
}

static void request_holds(struct request *r, size_t bytes)
{
    r->bytes += bytes;
    r->client->request_bytes += bytes;
}

static void end_early_check(struct request *r)
{
    r->client->early_checks -= r->is_early;
    r->is_early = false;
}

/* Free @r, which is the first of its client's requests. */
static void request_free(struct client *c, struct request *r)
{
    end_early_check(r);
    c->request_bytes -= r->bytes;
    STAILQ_REMOVE_HEAD(&c->requests, link);
    c->request_count -= r->commands;
    key_operation_release(r->op);
    free(r->spent.name);
    client_batch_free(r->batch);
    buffer_fini(&r->ready);
    worker_landed(c->worker, r->weight);
    pool_give(&c->worker->requests, r);
}

void client_drop_requests(struct client *c)
{
    struct request *r;
    while ((r = STAILQ_FIRST(&c->requests)) != NULL) {
        count_outcome(c, &r->counted, OUTCOME_CANCELLED, r->commands - r->written, &r->spent);
        request_free(c, r);
    }
}

/* --- immediate replies --- */

static void write_reply(struct client *c, const struct buffer *reply)
{
    if (c->mute || (!buffer_failed(reply) && client_put(c, reply->data, reply->length)))
        return;
    client_mute(c);
}

/* Keep the reply of a request until it is the request's turn. */
static void keep_reply(struct request *r, const struct buffer *reply)
{
    buffer_append(&r->ready, reply->data, reply->length);
    r->ready.failed |= buffer_failed(reply);
    request_holds(r, r->ready.capacity);
    r->done = true;
}

struct reply client_reply_begin(struct client *c)
{
    buffer_clear(&c->worker->scratch);
    return (struct reply){.out = &c->worker->scratch, .protocol = c->protocol};
}

void client_reply_end(struct client *c)
{
    if (STAILQ_EMPTY(&c->requests)) {
        write_reply(c, &c->worker->scratch);
        count_outcome(c, &c->counted, outcome_of_reply(c->worker->scratch.data, c->worker->scratch.length), 1,
                      NULL);
        return;
    }
    struct request *r = request_new(c, 1, 1);
    if (r == NULL) {
        client_end(c); /* no command behind it is started */
    } else {
        request_holds(r, sizeof(*r));
        keep_reply(r, &c->worker->scratch);
    }
}

void client_error(struct client *c, const char *format, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    struct reply r = client_reply_begin(c);
    reply_error(&r, "%s", text);
    client_reply_end(c);
}

void client_failure(struct client *c, enum err code, const char *format, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    struct reply r = client_reply_begin(c);
    reply_failure(&r, code, "%s", text);
    client_reply_end(c);
}

/* --- replies of operations --- */

/* Write one element for each key from @from to @end. A key that was found counts as found, however the other
 * keys ended. */
static void write_elements(struct reply *out, const struct key_operation *op, size_t from, size_t end,
                           const struct failure *why, struct meter_answers *answers)
{
    uint8_t yes[PLAIN_KEYS];
    while (from < end) {
        size_t most = end - from < PLAIN_KEYS ? end - from : PLAIN_KEYS;
        size_t plain = key_operation_plain(op, from, most, yes);
        reply_booleans(out, yes, plain);
        for (size_t i = 0; i < plain; i++)
            answers->yes += yes[i];
        for (size_t i = 0; i < plain; i++)
            answers->no += !yes[i];
        from += plain;
        if (plain == most)
            continue;
        enum answer answer = key_operation_found(op, from) ? ANSWER_YES : key_operation_answer(op, from);
        answer_count(answers, answer);
        answer_reply(out, answer, key_operation_query(op)->filter->name, why);
        from++;
    }
}

static enum outcome write_answers(struct reply *out, const struct request *r, const struct failure *why)
{
    const struct key_query *q = key_operation_query(r->op);
    struct summary summary = {0};
    struct meter_answers answers = {0};
    if (r->shape == REPLY_ARRAY) {
        size_t count = key_operation_until_full(r->op); /* it ends where a full filter refused a key */
        reply_array(out, count);
        write_elements(out, r->op, 0, count, why, &answers);
    } else {
        for (size_t i = 0; i < key_operation_keys(r->op); i++) {
            enum answer answer = key_operation_answer(r->op, i);
            answer_count(&answers, answer);
            summary_add(&summary, answer, why);
        }
        summary_reply(&summary, out, q->filter->name);
    }
    return answer_outcome(r->client->worker->meter, q, &answers, why);
}

/* Write replies of one key each, up to the reply before key @end. */
static void write_each(struct reply *out, struct request *r, size_t end, const struct failure *why)
{
    struct meter_answers answers = {0};
    write_elements(out, r->op, r->written, end, why, &answers);
    r->written = end;
    (void)answer_outcome(r->client->worker->meter, key_operation_query(r->op), &answers, why);
    count_outcome(r->client, &r->counted, OUTCOME_OK, answers.yes + answers.no, &r->spent);
    count_outcome(r->client, &r->counted, outcome_of_error(why->code), answers.other, &r->spent);
}

/* Send what was gathered in `scratch`. */
static void write_gathered(struct client *c)
{
    if (c->worker->scratch.length > 0)
        write_reply(c, &c->worker->scratch);
    buffer_clear(&c->worker->scratch);
}

static void write_operation(struct reply *out, struct request *r)
{
    struct failure why = key_operation_failure(r->op);
    enum outcome outcome;
    if (r->shape == REPLY_ONE) {
        write_each(out, r, r->commands, &why);
        return;
    }
    if (key_operation_failed(r->op)) {
        answer_failure(out, &why);
        outcome = outcome_of_error(why.code);
    } else {
        outcome = write_answers(out, r, &why);
    }
    count_outcome(r->client, &r->counted, outcome, 1, &r->spent);
}

/* Replies are gathered in `scratch`, because a write to the socket's buffer costs as much as everything else
 * in a short reply. */
static void gather_operation(struct client *c, struct request *r)
{
    size_t before = c->worker->scratch.length;
    struct reply out = {.out = &c->worker->scratch, .protocol = r->protocol};
    write_operation(&out, r);
    bool failed = buffer_failed(&c->worker->scratch);
    if (failed) { /* the replies gathered before it are complete */
        c->worker->scratch.length = before;
        c->worker->scratch.failed = false;
    }
    if (failed || c->worker->scratch.length >= GATHERED_BYTES)
        write_gathered(c);
    if (failed)
        client_mute(c);
}

static void on_done(struct key_operation *op, void *arg);

/* A check was answered "no" before an earlier add of the same connection was retried. Run the check again, so
 * that a client sees its own writes in the order in which it sent them. */
static bool ask_again(struct request *r)
{
    struct key_operation *op = r->op;
    if (!r->overtaken || op == NULL || key_operation_query(op)->kind != OPERATION_CHECK ||
        !key_operation_any_no(op))
        return false;
    r->overtaken = false;
    r->done = key_operation_start(op, on_done, r);
    return !r->done;
}

/* --- batches --- */

static size_t bytes_of(const struct argument *keys, size_t count)
{
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += keys[i].length;
    return bytes;
}

static void on_turn(evutil_socket_t fd UNUSED, short events UNUSED, void *arg)
{
    struct client *c = arg;
    c->turn_is_due = false;
    client_advance(c);
    client_unref(c);
}

/* Continue the reply in the next turn of the loop, after other clients were served. */
static void go_on_next_turn(struct client *c)
{
    static const struct timeval now = {0, 0};
    if (c->turn_is_due)
        return;
    c->references++;
    c->turn_is_due = event_base_once(c->worker->base, -1, EV_TIMEOUT, on_turn, c, &now) == 0;
    if (!c->turn_is_due) {
        client_end(c);
        client_unref(c);
    }
}

/* Write a part of the batch's reply. True: the reply is complete. A batch begins when it is the first
 * request, because all requests before it have ended then. */
static bool write_batch(struct client *c, struct request *r)
{
    if (!client_batch_start(r->batch))
        return false;
    /* Its keys are no longer in flight: a client that does not read must not hold up others. */
    worker_landed(c->worker, r->weight);
    r->weight = 0;
    if (client_unread(c) > OUTPUT_HIGH)
        return false;
    struct reply out = client_reply_begin(c);
    out.protocol = r->protocol;
    bool over = client_batch_write(r->batch, &out);
    write_reply(c, &c->worker->scratch);
    buffer_clear(&c->worker->scratch);
    if (!over)
        go_on_next_turn(c);
    return over;
}

static void begin_batch(struct client *c, const struct key_command *k)
{
    struct request *r = request_new(c, 1, CLIENT_BATCH_KEYS);
    if (r == NULL) {
        client_error(c, "OOM out of memory");
        return;
    }
    request_holds(r, bytes_of(k->keys, k->count) + k->count * KEY_BYTES);
    r->batch = client_batch_new(c, k);
    r->spent = (struct spent){.by = "redis",
                              .asked_us = clock_mono_us(),
                              .filter = r->batch != NULL ? k->asked.filter : NULL, /* or nobody holds it */
                              .keys = k->count};
    if (r->batch != NULL) {
        client_enter(c, CLIENT_BLOCKED);
    } else {
        reply_error(&(struct reply){.out = &r->ready, .protocol = 2}, "OOM out of memory");
        r->done = true;
    }
    if (r == STAILQ_FIRST(&c->requests))
        client_write_done(c);
}

/* --- the order --- */

/* The number of replies of @r that can be written although @r has not ended. */
static size_t known(const struct request *r)
{
    size_t end = r->written;
    if (r->op == NULL || r->commands == 1)
        return end;
    while (end < r->commands && key_operation_found(r->op, end))
        end++;
    return end;
}

void client_write_known(struct client *c)
{
    static const struct failure none = {.code = ERR_OK};
    struct request *r = STAILQ_FIRST(&c->requests);
    size_t end = r == NULL ? 0 : known(r);
    if (r == NULL || end == r->written)
        return;
    struct reply out = client_reply_begin(c);
    out.protocol = r->protocol;
    write_each(&out, r, end, &none);
    write_reply(c, &c->worker->scratch);
    buffer_clear(&c->worker->scratch);
}

void client_write_done(struct client *c)
{
    struct request *r;
    buffer_clear(&c->worker->scratch);
    while ((r = STAILQ_FIRST(&c->requests)) != NULL && (r->done || r->batch != NULL) && !ask_again(r)) {
        if (r->op == NULL)
            write_gathered(c);
        if (r->batch != NULL && !write_batch(c, r))
            return;
        if (r->batch != NULL) {
            client_leave(c, CLIENT_BLOCKED);
            count_outcome(c, &r->counted, client_batch_outcome(r->batch), 1, &r->spent);
        } else if (r->op != NULL) {
            gather_operation(c, r);
        } else {
            write_reply(c, &r->ready);
            count_outcome(c, &r->counted, outcome_of_reply(r->ready.data, r->ready.length), 1, &r->spent);
        }
        request_free(c, r);
    }
    write_gathered(c);
    /* Wait a little before writing the known replies of a run: usually the run ends soon, and all replies fit
     * in one write. */
    r = STAILQ_FIRST(&c->requests);
    if (r != NULL && known(r) > r->written)
        worker_late(c->worker, c);
}

static void on_done(struct key_operation *op, void *arg)
{
    struct request *r = arg;
    struct client *c = r->client;
    if (key_operation_query(op)->kind == OPERATION_ADD && key_operation_was_retried(op))
        for (struct request *later = STAILQ_NEXT(r, link); later != NULL; later = STAILQ_NEXT(later, link))
            later->overtaken = true;
    end_early_check(r);
    r->done = true;
    if (r != STAILQ_FIRST(&c->requests))
        r->spent.answered_us = clock_mono_us();
    if (r == STAILQ_FIRST(&c->requests))
        client_answered(c);
}

/* --- operations --- */

/* Start one request for the keys of one command, or of a run. The keys lie one behind the other in the same
 * bytes, so the bytes between them are copied, too. This costs less than copying each key. */
static void ask(struct client *c, const struct key_command *k, size_t commands)
{
    const char *from = k->keys[0].bytes;
    size_t bytes = (size_t)(k->keys[k->count - 1].bytes - from) + k->keys[k->count - 1].length;
    struct key_operation *op = key_operation_new(&k->asked, k->count, bytes);
    struct request *r = op == NULL ? NULL : request_new(c, commands, k->count);
    if (r == NULL) {
        key_operation_release(op);
        c->present.more = c->present.others = 0; /* the other commands of a run are started one by one */
        client_error(c, "OOM out of memory");
        return;
    }
    const char *copy = key_operation_copy(op, from, bytes);
    for (size_t i = 0; i < k->count; i++)
        key_operation_name(op, copy + (k->keys[i].bytes - from), k->keys[i].length);
    request_holds(r, sizeof(*r) + bytes + k->count * KEY_BYTES);
    r->shape = k->shape;
    r->op = op;
    r->spent = (struct spent){.by = "redis",
                              .asked_us = clock_mono_us(),
                              .filter = k->asked.filter,
                              .keys = commands > 1 ? 1 : k->count};
    r->done = key_operation_start(op, on_done, r);
    /* A running check reads the log when it is sent. */
    r->is_early = !r->done && k->asked.kind == OPERATION_CHECK;
    c->early_checks += r->is_early;
    if (!r->done && k->asked.kind == OPERATION_ADD && !key_operation_is_in_order(op))
        client_enter(c, CLIENT_STALLED);
    if (r == STAILQ_FIRST(&c->requests))
        client_write_done(c);
}

static void ask_run(struct client *c, const struct key_command *first, const struct argument *filter)
{
    struct argument keys[CLIENT_RUN_KEYS];
    struct key_command k = *first;
    k.count = client_run_take(c, first, filter, keys);
    k.keys = keys;
    ask(c, &k, k.count);
}

void client_operate(struct client *c, enum operation_kind kind, const struct argument *filter,
                    const struct argument *keys, size_t count, enum reply_shape shape,
                    const struct creation *creation)
{
    struct error e;
    struct worker *w = c->worker;
    struct key_command k = {.asked = {.admin = w->admin,
                                      .mailbox = w->mailbox,
                                      .kind = kind,
                                      .user = c->session.user,
                                      .unmade_is_empty = true},
                            .shape = shape,
                            .keys = keys,
                            .count = count};
    if (creation != NULL)
        k.asked.creation = *creation;
    if (count > w->config->batch_max) {
        client_failure(c, ERR_RANGE, "%zu keys in one command: at most %llu are allowed (batch_max)", count,
                       (unsigned long long)w->config->batch_max);
        return;
    }
    /* A check that was sent before must not see what is added after it. */
    if (kind == OPERATION_ADD && c->early_checks > 0) {
        client_enter(c, CLIENT_STALLED);
        c->present.put_off = true;
        return;
    }
    enum err code = key_port_find(w->keys, filter->bytes, filter->length, &k.asked.filter, &e);
    if (code != ERR_OK) {
        client_failure(c, code, "%s", e.text);
        return;
    }
    if (shape == REPLY_ONE)
        ask_run(c, &k, filter);
    else if (count > CLIENT_BATCH_KEYS || (count > 1 && bytes_of(keys, count) > CLIENT_BATCH_BYTES))
        begin_batch(c, &k);
    else
        ask(c, &k, 1);
}

/* --- commands that another thread answers --- */

struct request *client_await(struct client *c)
{
    struct request *r = request_new(c, 1, 1);
    if (r != NULL) {
        r->spent = (struct spent){.by = "admin", .asked_us = clock_mono_us()};
        client_enter(c, CLIENT_BLOCKED);
        c->references++;
    }
    return r;
}

void client_answer(struct client *c, struct request *r, const struct buffer *reply)
{
    if (c->state != CLIENT_GONE) {
        keep_reply(r, reply);
        client_leave(c, CLIENT_BLOCKED);
        client_advance(c);
    }
    client_unref(c);
}

static void on_admin_done(void *arg)
{
    struct admin_call *call = arg;
    struct request *r = call->subject;
    struct client *c = call->asker;
    if (c->state != CLIENT_GONE && call->filter_length > 0)
        r->spent.name = strdup(call->filter);
    client_answer(call->asker, call->subject, &call->reply);
    admin_call_free(call);
}

void client_call_admin(struct client *c, struct admin_call *call)
{
    struct request *r = admin_call_limit(call, c->session.rights) ? client_await(c) : NULL;
    if (r == NULL) {
        admin_call_free(call);
        client_error(c, "OOM out of memory");
        return;
    }
    request_holds(r, call->data.length);
    call->asker = c;
    call->protocol = c->protocol;
    call->subject = r;
    admin_post(c->worker->admin, call, c->worker->mailbox, on_admin_done);
}
