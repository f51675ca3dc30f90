/* SPDX-License-Identifier: MIT */
#include "service/resp/client_batch.h"

#include <stdlib.h>
#include "service/resp/answer.h"
#include "service/keys/batch.h"
#include "service/resp/worker.h"

enum { WRITE_KEYS = 4096 /* keys whose replies are written at a time */ };

struct client_batch {
    struct client *client;
    struct batch *batch;
    struct command_memory memory; /* holds the keys */
    struct key_command command;
    size_t written; /* elements of the reply that are written */
    bool begun;     /* the header of the reply's array is written */
    struct meter_answers answers;
};

static struct batch_key key_at(const void *owner, size_t i)
{
    const struct argument *key = &((const struct client_batch *)owner)->command.keys[i];
    return (struct batch_key){.bytes = key->bytes, .length = key->length};
}

static void on_done(void *owner)
{
    client_advance(((struct client_batch *)owner)->client);
}

struct client_batch *client_batch_new(struct client *c, const struct key_command *k)
{
    struct client_batch *cb = calloc(1, sizeof(*cb));
    if (cb == NULL)
        return NULL;
    cb->client = c;
    cb->command = *k;
    cb->batch = batch_new(&(struct batch_options){.asked = k->asked,
                                                  .base = c->worker->base,
                                                  .ends_when_full = true,
                                                  .count = k->count,
                                                  .key = key_at,
                                                  .on_done = on_done,
                                                  .owner = cb});
    if (cb->batch != NULL && client_take_command(c, &cb->memory))
        return cb;
    batch_free(cb->batch);
    free(cb);
    return NULL;
}

void client_batch_free(struct client_batch *cb)
{
    if (cb == NULL)
        return;
    batch_free(cb->batch);
    command_memory_fini(&cb->memory);
    free(cb);
}

bool client_batch_start(struct client_batch *cb)
{
    batch_start(cb->batch);
    return batch_is_answered(cb->batch);
}

/* --- the reply --- */

/* Write one part of the reply. True: the reply is complete. */
static bool write_some(struct client_batch *cb, struct reply *out)
{
    const struct failure *why;
    size_t all = batch_end(cb->batch);
    size_t end = all - cb->written < WRITE_KEYS ? all : cb->written + WRITE_KEYS;
    if (!cb->begun)
        reply_array(out, all);
    cb->begun = true;
    for (; cb->written < end; cb->written++) {
        enum answer answer = batch_answer(cb->batch, cb->written, &why);
        answer_count(&cb->answers, answer);
        answer_reply(out, answer, cb->command.asked.filter->name, why);
    }
    return end == all;
}

bool client_batch_write(struct client_batch *cb, struct reply *out)
{
    const struct failure *failure = batch_failure(cb->batch);
    if (failure == NULL && cb->command.shape != REPLY_COUNT)
        return write_some(cb, out);
    if (failure != NULL) {
        answer_failure(out, failure);
        return true;
    }
    struct summary t = {0};
    const struct failure *why;
    for (size_t i = 0; i < batch_end(cb->batch); i++) {
        enum answer answer = batch_answer(cb->batch, i, &why);
        answer_count(&cb->answers, answer);
        summary_add(&t, answer, why);
    }
    t.keys = cb->command.count; /* keys behind a refused one were not added */
    summary_reply(&t, out, cb->command.asked.filter->name);
    return true;
}

enum outcome client_batch_outcome(const struct client_batch *cb)
{
    const struct failure *failure = batch_failure(cb->batch), none = {.code = ERR_OK};
    if (failure != NULL)
        return outcome_of_error(failure->code);
    return answer_outcome(cb->client->worker->meter, &cb->command.asked, &cb->answers, &none);
}
