/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_KEYS_REQUEST_COUNT_H
#define SERVICE_KEYS_REQUEST_COUNT_H
/* Counts the outcomes of requests for metrics, and logs slow requests. It is used for every protocol. */
#include "service/keys/key_operation.h"
#include "service/meter/meter.h"

void answer_count(struct meter_answers *to, enum answer answer);
/* Count the answers under the query's filter, and return how the whole request ended. @why is set if keys
 * have no answer. */
enum outcome answer_outcome(struct meter *m, const struct key_query *q, const struct meter_answers *answers,
                            const struct failure *why);

/* Where the time of a request went, for the log. Times are of the monotonic clock, in microseconds. */
struct spent {
    const char *by;                  /* what answered it: "redis", "admin"; a literal */
    uint64_t came_us;                /* when its bytes arrived */
    uint64_t asked_us;               /* when its operation was started; 0: at once */
    uint64_t answered_us;            /* when it was answered; 0: when the reply was written */
    const struct key_filter *filter; /* NULL: see `name` */
    char *name;                      /* name of a filter; NULL: none, or not known */
    size_t keys;
};

/* A request that took longer than slow_ms, of any protocol. */
struct slow {
    const char *id;     /* NULL: an id is generated */
    const char *client; /* address of the client */
    const char *what;   /* the command, or the method and route */
    const char *outcome;
    uint64_t us;
    const struct spent *spent; /* NULL: unknown */
    const struct key_port *keys;
};
void slow_log(const struct slow *s);
bool slow_is(const struct config *config, uint64_t us);
#endif
