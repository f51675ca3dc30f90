/* SPDX-License-Identifier: MIT */
#ifndef SHARD_CONTROL_FILTERS_H
#define SHARD_CONTROL_FILTERS_H
/* The filters of a process: one log_filter and one control for each name that is asked for, shared by all
 * workers; and the threads that tend the controls.
 *
 * The happy path is: a worker opens a name, and keeps it open as long as it asks; requests wait until the
 * control has the view. Possible failure modes are: there is no such filter, or it was deleted, or made again
 * (requests get ERR_NOT_FOUND; open_filter_is_over(): close it, and open the name again; callers that began
 * after open_filter_since() do so, too, as the name may belong to another filter by then); its view is
 * damaged, or a foreign key has its name (likewise, with the reason); Redis does not answer a control (other
 * controls of that thread wait for its timeout, those of other threads do not). */
#include "shard/control/control.h"

struct filters;
struct open_filter;

struct filters_options {
    const struct nodes *nodes; /* borrowed, like all strings */
    const char *prefix;
    const char *owner; /* the name of this process */
    uint64_t memory;   /* bytes of shards in memory, for all filters together */
    unsigned timeout_ms;
    unsigned threads; /* number of threads that tend controls; each filter belongs to one of them */
    uint64_t log_max; /* as in struct control_options */
    uint64_t retain_us;
    const struct clean_stop *clean_stop;
};

/* ERR_NOMEM. */
MUST_CHECK enum err filters_new(struct filters **out, const struct filters_options *o, struct error *e);
/* No worker may have a port any more. Leaves each filter cleanly, for at most @timeout_ms in all. @fs may be
 * NULL. */
void filters_free(struct filters *fs, unsigned timeout_ms);

/* The filter of that name. It may not exist: requests find out. Any thread. ERR_RANGE: the name is too long.
 * ERR_NOMEM. */
MUST_CHECK enum err filters_open(struct filters *fs, const char *name, size_t length,
                                 struct open_filter **out, struct error *e);
/* Another reference, for a caller that has the filter open. Takes no lock. Any thread. */
struct open_filter *open_filter_keep(struct open_filter *f);
/* Any thread; no request of the caller may be under way. @f may be NULL. */
void open_filter_close(struct open_filter *f);
struct log_filter *open_filter_log(const struct open_filter *f);
/* True if it is closed for good: there is no such filter, another one has its name, or its view is
 * damaged. */
bool open_filter_is_over(const struct open_filter *f);
/* The number of filters that are over since the process began, modulo 2^32. They take memory until all who
 * have them open close them. Any thread. */
unsigned filters_ended(const struct filters *fs);
/* Monotonic us: the view was loaded for the first time after that. */
uint64_t open_filter_since(const struct open_filter *f);

/* The state of the filter in this process. False: it is not open. Any thread. */
MUST_CHECK bool filters_status(struct filters *fs, const char *name, size_t length, struct log_status *out);
/* Call @fn for each shard of that generation. False: this process does not hold it. Any thread. */
MUST_CHECK bool filters_shards(struct filters *fs, const char *name, size_t length, uint64_t generation,
                               resident_shard_fn *fn, void *arg);
/* That incarnation of the filter was deleted: let the control look, and wait until this process no longer
 * answers from it, for at most @timeout_ms. Any thread. */
void filters_await_end(struct filters *fs, const char *name, size_t length, uint64_t incarnation,
                       unsigned timeout_ms);
/* The view of that filter was changed: let its control look soon. Any thread. */
void filters_look(struct filters *fs, const char *name, size_t length);
#endif
