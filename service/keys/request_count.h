/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_KEYS_REQUEST_COUNT_H
#define SERVICE_KEYS_REQUEST_COUNT_H
/* Counting what requests came to, for metrics, and telling of those that were slow; of whatever protocol. */
#include "service/keys/pending_query.h"
#include "service/meter/meter.h"

void answer_count(struct meter_answers *to, enum answer answer);
/* Count the answers to a question under its filter; how the whole request ended. @why: of keys that have no
 * answer. */
enum outcome answer_outcome(struct meter *m, const struct key_query *q, const struct meter_answers *answers,
                            const struct failure *why);

/* Where the time of a request went, for people; clocks are monotonic, microseconds. */
struct spent {
    const char *by;                  /* by what it was answered: "redis", "admin"; a literal */
    uint64_t came_us;                /* its bytes had come */
    uint64_t asked_us;               /* it was asked for; 0: at once */
    uint64_t answered_us;            /* 0: when it was written */
    const struct key_filter *filter; /* NULL: see name */
    char *name;                      /* of a filter; NULL: none, or not known */
    size_t keys;
};

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
