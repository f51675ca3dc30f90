/* SPDX-License-Identifier: MIT */
#include "service/resp/client_run.h"

#include "service/resp/worker.h"

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The number of commands that could be started one by one. */
static size_t most(const struct client *c)
{
    const struct worker *w = c->worker;
    size_t in_flight = w->config->in_flight_max > w->in_flight ? w->config->in_flight_max - w->in_flight : 1;
    size_t requests = REQUESTS_MAX > c->request_count ? REQUESTS_MAX - c->request_count : 1;
    return least(CLIENT_RUN_KEYS, least(in_flight, requests));
}

size_t client_run_take(struct client *c, const struct key_command *k, const struct argument *filter,
                       struct argument *keys)
{
    struct present *p = &c->present;
    size_t count = 1, end = most(c);
    keys[0] = k->keys[0];
    if (p->bytes == NULL || p->bytes[0] != '*')
        return count;
    size_t same = (size_t)(filter->bytes + filter->length + 2 - p->bytes);
    const char *at = p->bytes + c->parser.consumed;
    size_t length = least(p->length - c->parser.consumed, CLIENT_RUN_BYTES);
    count += resp_again(&c->parser, p->bytes, same, at, length, end - 1, keys + 1, &p->more);
    p->others = (unsigned)(count - 1);
    return count;
}
