/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REQUEST_FILTERS_H
#define SHARD_REQUEST_FILTERS_H
/* The filters of a process: one log_filter and one control for each name that somebody asks for, shared by
 * all workers; and the threads that tend the controls.
 *
 * The happy path is: a worker opens a name, and keeps that for as long as it asks; requests wait until the
 * control has the view. Possible failure modes are: there is no such filter, or it was deleted, or made again
 * (requests are told ERR_NOT_FOUND; open_filter_is_over(): close it, and open the name again; who began to
 * ask after open_filter_since() does so too, as the name may be another filter's by then); its view is
 * damaged, or a foreign key has its name (likewise, with what is wrong); Redis does not answer a control
 * (those of the same thread wait for its timeout, others do not). */
#include "shard/request/control.h"

struct filters;
struct open_filter;

struct filters_options {
    const struct nodes *nodes; /* borrowed, as all strings are */
    const char *prefix;
    const char *owner; /* names this process */
    uint64_t memory;   /* bytes of shards in memory, of all filters together */
    unsigned timeout_ms;
    unsigned threads;     /* that tend; a filter is one thread's */
    uint32_t shard_bytes; /* of layers that are added */
    uint64_t log_max;     /* as of struct control_options */
    uint64_t retain_us;
};

/* ERR_NOMEM. */
MUST_CHECK enum err filters_new(struct filters **out, const struct filters_options *o, struct error *e);
/* No port of a worker may be left. Each filter is left cleanly, for at most @timeout_ms in all. NULL is fine.
 */
void filters_free(struct filters *fs, unsigned timeout_ms);

/* The filter of that name, which may not exist: requests find out. Any thread. ERR_RANGE: the name is too
 * long. ERR_NOMEM. */
MUST_CHECK enum err filters_open(struct filters *fs, const char *name, size_t length,
                                 struct open_filter **out, struct error *e);
/* Once more, for a caller that has it open: without a lock. Any thread. */
struct open_filter *open_filter_keep(struct open_filter *f);
/* Any thread, when no request of the caller is under way. NULL is fine. */
void open_filter_close(struct open_filter *f);
struct log_filter *open_filter_log(const struct open_filter *f);
/* It is closed for good: there is no such filter, another one has its name, or its view is damaged. */
bool open_filter_is_over(const struct open_filter *f);
/* Monotonic, us: its view was read for the first time after that. */
uint64_t open_filter_since(const struct open_filter *f);
/* The incarnation of the filter; for whoever was answered by it. */
uint64_t open_filter_incarnation(const struct open_filter *f);
/* The Redis node of its shards. False: there are several, or none is known. Any thread. */
MUST_CHECK bool open_filter_node(const struct open_filter *f, char out[NODE_NAME_MAX]);

/* How the filter fares in this process; false: nobody has it open. Any thread. */
MUST_CHECK bool filters_status(struct filters *fs, const char *name, size_t length, struct log_status *out);
/* Each shard of that generation, as this process has it. False: it has none of it. Any thread. */
MUST_CHECK bool filters_shards(struct filters *fs, const char *name, size_t length, uint64_t generation,
                               resident_shard_fn *fn, void *arg);
/* That incarnation of the filter is deleted: have it looked at, and wait until this process answers from it
 * no more, for at most @timeout_ms. Any thread, which waits. */
void filters_await_end(struct filters *fs, const char *name, size_t length, uint64_t incarnation,
                       unsigned timeout_ms);
/* Somebody has changed the view of that filter: look at it soon. Any thread. */
void filters_look(struct filters *fs, const char *name, size_t length);
#endif
