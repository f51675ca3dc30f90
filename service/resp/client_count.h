/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_RESP_CLIENT_COUNT_H
#define SERVICE_RESP_CLIENT_COUNT_H
/* Counting what requests came to, for metrics, and telling of those that were slow. */
#include "service/keys/pending_query.h"
#include "service/resp/client.h"
#include "service/meter/meter.h"

void answer_count(struct meter_answers *to, enum answer answer);
/* Count the answers to a question under its filter; how the whole request ended. @why: of keys that have no
 * answer. */
enum outcome answer_outcome(struct meter *m, const struct key_query *q, const struct meter_answers *answers,
                            const struct failure *why);

/* The command @what of @c has ended, and @times in all. @spent NULL: at once. */
void client_count(struct client *c, const struct counted *what, enum outcome outcome, size_t times,
                  const struct spent *spent);

/* A request that took longer than slow_ms, of whatever protocol. */
struct slow {
    const char *id;     /* NULL: one is made up */
    const char *client; /* its address */
    const char *what;   /* command, or method and route */
    const char *outcome;
    uint64_t us;
    const struct spent *spent; /* NULL: unknown */
    const struct key_port *keys;
};
void slow_log(const struct slow *s);
bool slow_is(const struct config *config, uint64_t us);
#endif
