/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_FILTERS_FILTER_MAKE_H
#define SERVICE_FILTERS_FILTER_MAKE_H
/* Filters are made, by a request or by the controller; and the mutex under which a filter is made or deleted.
 * Blocking. */
#include "expansion/record/mutex.h"
#include "service/config/config.h"
#include "service/core/service.h"
#include "shard/generations/make.h"
#include "shard/view/handle.h"

struct work;

/* What is to be made where an add finds no filter. */
struct creation {
    bool allowed;
    bool if_configured; /* only where the configuration names the filter */
    uint64_t capacity;  /* 0: as configured, or the default */
    double error_rate;  /* 0: likewise */
    uint32_t expansion;
    bool non_scaling;
    bool anew; /* also in place of one that was lost: whoever asks names it, and means it */
};

/* Make a filter that is not there, as configured or as @creation says, and register its name. ERR_EXISTS,
 * ERR_REFUSED (memory), ERR_RANGE, ERR_BUSY. */
MUST_CHECK enum err filter_make(struct service *s, const struct config *config, struct handle *f,
                                const char *name, size_t length, const struct creation *creation,
                                struct error *e);
/* There is no view, and no record. ERR_LOST: there was a filter that nobody has deleted: a registry names it,
 * or a coordinator serves it. */
MUST_CHECK enum err filter_check_lost(struct handle *f, struct error *e);
/* Bytes that the first layer of that filter will have; 0: its table says how large it gets. */
uint64_t filter_make_bytes(const struct config *config, const char *name, size_t length,
                           const struct creation *creation);

/* --- under the mutex, for what makes a filter otherwise --- */

struct mutex_options filter_mutex_options(const struct service *s, const struct config *config,
                                          const char *name, size_t length);

/* A work_fn of shard/view/shards.h; @arg is a struct mutex. ERR_MUTEX_LOST ends the work. */
enum err filter_hold_mutex(void *arg, struct error *e);

/* State of making a filter under its mutex. */
struct filter_naming {
    struct handle *handle;
    bool as_new;     /* ignore that a filter of this name lost its view */
    bool named;      /* it was registered before */
    bool entered;    /* registered by an earlier attempt of this call */
    uint64_t latest; /* latest known incarnation of the name */
};
/* First step: complete a deletion that was begun, and delete a view of a replaced incarnation. Anything else
 * there is an error: ERR_EXISTS, ERR_LOST. @is is scratch memory. */
MUST_CHECK enum err filter_make_way(struct service *s, struct filter_naming *n, const char *name,
                                    size_t length, struct view *is, const struct work *work, struct error *e);
/* Make the filter, and register it on all masters before its view is published. Errors as of log_make(), and
 * ERR_LOST: a filter of this name lost its view. */
MUST_CHECK enum err filter_make_log(struct filter_naming *n, const struct make_options *options,
                                    struct log_view *out, const struct work *work, struct error *e);
#endif
