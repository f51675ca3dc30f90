/* SPDX-License-Identifier: MIT */
#include "tests/integration/roll.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

static redisReply *ask(struct fixture *f, unsigned by, const char *filter)
{
    redisReply *r = filter == NULL ? client_command(&f->client[by], "TB.COORDINATORS")
                                   : client_command(&f->client[by], "TB.COORDINATORS %s", filter);
    if (r != NULL && r->type != REDIS_REPLY_ARRAY) {
        freeReplyObject(r);
        r = NULL;
    }
    return r;
}

static const redisReply *value_of(const redisReply *list, const char *field)
{
    for (size_t i = 0; i + 1 < list->elements; i += 2)
        if (strcmp(list->element[i]->str, field) == 0)
            return list->element[i + 1];
    return NULL;
}

static void write_value(const redisReply *v, char *out, size_t size)
{
    size_t n = 0;
    switch (v->type) {
    case REDIS_REPLY_INTEGER:
        (void)snprintf(out, size, "%lld", v->integer);
        break;
    case REDIS_REPLY_NIL:
        (void)snprintf(out, size, "null");
        break;
    case REDIS_REPLY_ARRAY:
        for (size_t i = 0; i < v->elements && n < size; i++)
            n += (size_t)snprintf(out + n, size - n, "%s%s", i == 0 ? "" : ",", v->element[i]->str);
        break;
    default:
        (void)snprintf(out, size, "%s", v->str != NULL ? v->str : "");
        break;
    }
}

const char *roll_field(struct fixture *f, unsigned by, unsigned d, const char *filter, const char *field)
{
    static char texts[4][512];
    static unsigned next;
    char *text = texts[next++ % 4];
    char address[32];
    text[0] = '\0';
    (void)snprintf(address, sizeof(address), "127.0.0.1:%u", f->daemon[d].port);
    redisReply *all = ask(f, by, filter);
    /* The last one with this address is the youngest, which counts: a dead one with the same address may be
     * listed, too. */
    for (size_t i = 0; all != NULL && i < all->elements; i++) {
        const redisReply *listen = value_of(all->element[i], "listen");
        const redisReply *state = value_of(all->element[i], "state");
        const redisReply *v = value_of(all->element[i], field);
        bool first = text[0] == '\0';
        if (listen != NULL && strcmp(listen->str, address) == 0 && v != NULL &&
            (first || strcmp(state->str, "gone") != 0))
            write_value(v, text, sizeof(texts[0]));
    }
    freeReplyObject(all);
    return text;
}

void roll_wait(struct fixture *f, unsigned by, unsigned d, const char *filter, const char *field,
               const char *value, unsigned ms)
{
    uint64_t until = clock_mono_us() + ms * UINT64_C(1000);
    const char *last = roll_field(f, by, d, filter, field);
    while (strcmp(last, value) != 0 && clock_mono_us() < until) {
        clock_sleep_us(50000);
        last = roll_field(f, by, d, filter, field);
    }
    if (strcmp(last, value) != 0)
        fail_msg("coordinator %u, %s: %s, expected %s", d, field, last, value);
}

int roll_count(struct fixture *f, unsigned by)
{
    redisReply *all = ask(f, by, NULL);
    int count = all == NULL ? -1 : (int)all->elements;
    freeReplyObject(all);
    return count;
}
