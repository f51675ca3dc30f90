/* SPDX-License-Identifier: MIT */
/* Check and add.
 *
 * The happy path is: the keys of the body are run as a batch, and the request is answered when the batch
 * ends. Possible failure modes are: some keys fail (their elements are errors; what was added stays added,
 * and may be added again), all keys fail (the answer is a problem), the deadline passes (the request is
 * answered, and the batch is freed with it). */
#include <string.h>
#include "service/keys/batch.h"
#include "service/keys/request_count.h"
#include "service/http/http_internal.h"
#include "service/protocol/json.h"

enum { RESULTS_BYTES = 32, RESULT_BYTES = 6 /* usual bytes of an answer, and of one key in it */ };

/* --- the answer --- */

static void put_error(struct buffer *json, enum err code, const char *detail)
{
    buffer_printf(json, "{\"code\":\"%s\",\"detail\":", error_name(code));
    json_put_text(json, detail, strlen(detail));
    buffer_puts(json, "},");
}

/* Append one result and a comma. */
static void put_result(struct buffer *json, const struct batch *b, size_t i, struct meter_answers *answers)
{
    const struct failure *why;
    enum answer answer = batch_answer(b, i, &why);
    answer_count(answers, answer);
    switch (answer) {
    case ANSWER_NO:
        buffer_append(json, "false,", 6);
        break;
    case ANSWER_YES:
        buffer_append(json, "true,", 5);
        break;
    case ANSWER_FULL:
        put_error(json, ERR_FULL, "the filter is full and does not grow");
        break;
    case ANSWER_LOST:
        put_error(json, ERR_LOST, "data of this key's shard were lost, or may have been");
        break;
    case ANSWER_ERROR:
        put_error(json, why->code, why->text);
        break;
    }
}

static void answer(struct http_request *r)
{
    const struct failure *failure = batch_failure(r->batch);
    if (failure != NULL) {
        http_failure(r, failure->code, failure->text);
        return;
    }
    struct buffer json = {0};
    struct meter_answers answers = {0};
    const struct key_query *q = batch_query(r->batch);
    (void)buffer_reserve(&json, RESULTS_BYTES + RESULT_BYTES * batch_end(r->batch));
    buffer_puts(&json, "{\"results\":[");
    for (size_t i = 0; i < batch_end(r->batch); i++)
        put_result(&json, r->batch, i, &answers);
    if (json.length > 0 && json.data[json.length - 1] == ',')
        json.length--;
    (void)answer_outcome(r->http->meter, q, &answers, &(struct failure){.code = ERR_OK});
    buffer_puts(&json, "]}");
    http_answer(r, 200, &json);
}

/* --- routes --- */

static struct batch_key key_at(const void *owner, size_t i)
{
    const struct http_body *body = &((const struct http_request *)owner)->body;
    const struct http_key *key = &body->keys[i];
    return (struct batch_key){.bytes = key->length == 0 ? "" : body->bytes.data + key->offset,
                              .length = key->length};
}

static void on_done(void *owner)
{
    answer(owner);
}

void http_keys(struct http_request *r)
{
    struct http *h = r->http;
    const enum operation_kind kind = r->route->value;
    struct error e;
    struct batch_options o = {
        .asked = {.admin = h->o.admin,
                  .mailbox = h->mailbox,
                  .kind = kind,
                  .user = r->user,
                  .creation = {.allowed = kind == OPERATION_ADD, .if_configured = true}},
        .base = h->base,
        .count = r->body.key_count,
        .key = key_at,
        .on_done = on_done,
        .owner = r};
    enum err code = key_port_find(h->keys, r->filter.data, r->filter.length, &o.asked.filter, &e);
    if (code != ERR_OK) {
        http_failure(r, code, e.text);
        return;
    }
    r->batch = batch_new(&o);
    if (r->batch == NULL) {
        http_no_memory(r);
        return;
    }
    batch_start(r->batch);
    if (batch_is_answered(r->batch))
        answer(r);
}
