/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_ADMIN_H
#define SERVICE_ADMIN_H
/* The admin thread: work on behalf of a request that takes several questions to Redis or Postgres, one call
 * at a time, with blocking connections. The answer goes back to the worker of the client that asked. */
#include "base/buffer.h"
#include "base/error.h"
#include "expansion/control.h"
#include "service/client.h"
#include "service/reply.h"
#include "service/runner.h"
#include "service/service.h"
#include "shard/fence.h"

struct admin {
    struct service *service;
    const struct config *config; /* held for one call */
    struct link *link;
    struct fence fence; /* names are set by each call */
    struct view view;   /* scratch */
};

typedef void admin_fn(struct admin *a, struct admin_call *call);

struct admin_call {
    admin_fn *fn;
    struct client *client;
    void (*on_done)(struct admin_call *call, struct client *c, void *arg); /* in the worker's thread */
    void *done_arg;
    int protocol;
    char *filter; /* name as clients say it; "" where there is none */
    size_t filter_length;
    char *visible; /* patterns of the filters that may be listed; NULL: all */
    struct creation creation;
    uint64_t capacity; /* TB.PLAN, TB.REBUILD: 0 where not given */
    double error_rate;
    bool hold;                /* TB.REBUILD */
    bool verify_full;         /* TB.REBUILD, TB.VERIFY */
    bool dry_run;             /* TB.REBUILD */
    enum control_wish wish;   /* admin_control */
    uint64_t rows_per_second; /* TB.THROTTLE */
    uint64_t count;           /* TB.HISTORY: 0 where not given */
    char field[32];           /* BF.INFO */
    enum err status;
    struct error error;
    struct buffer reply;
};

/* NULL: no memory. */
struct admin_call *admin_call_new(admin_fn *fn, const char *filter, size_t filter_length);
void admin_call_free(struct admin_call *call);
/* What the user may not see will not be listed. False: no memory. */
MUST_CHECK bool admin_call_limit(struct admin_call *call, const struct config_user *user);
bool admin_call_shows(const struct admin_call *call, const char *name, size_t length);
/* Hand over to the admin thread; client_admin_done() is called in the worker's thread. */
void admin_post(struct client *c, struct admin_call *call);
void client_admin_done(void *arg);

/* The thread: runs until the stop of the service, its argument. */
void *admin_run(void *arg);

/* --- calls --- */
admin_fn admin_create;  /* make the filter: status only */
admin_fn admin_grow;    /* another layer for a full filter without a source: status only */
admin_fn admin_reserve; /* BF.RESERVE */
admin_fn admin_card;    /* BF.CARD */
admin_fn admin_info;    /* BF.INFO */
admin_fn admin_status;  /* TB.STATUS */
admin_fn admin_history; /* TB.HISTORY */
admin_fn admin_plan;    /* TB.PLAN, and TB.REBUILD where it is a dry run */
admin_fn admin_rebuild; /* TB.REBUILD */
admin_fn admin_verify;  /* TB.VERIFY */
admin_fn admin_control; /* TB.CUTOVER, TB.ROLLBACK, TB.FINISH, TB.ABORT, TB.PAUSE, TB.RESUME, TB.THROTTLE */

/* The job that TB.REBUILD asks for, and TB.PLAN asks about. Borrows from both. */
struct runner_job admin_rebuild_job(const struct admin *a, const struct admin_call *call);

/* Make a filter that is not there, as configured or as @creation says, and register its name. ERR_EXISTS,
 * ERR_REFUSED (memory), ERR_RANGE, ERR_BUSY. Used by the keeper as well. */
MUST_CHECK enum err admin_make_filter(struct service *s, const struct config *config, struct fence *f,
                                      const char *name, size_t length, const struct creation *creation,
                                      struct error *e);

/* Finish or begin the growth of a filter by a layer: see layer_grow(). */
MUST_CHECK enum err admin_grow_filter(struct service *s, const struct config *config, struct fence *f,
                                      struct view *scratch, const char *name, size_t length, struct error *e);
#endif
