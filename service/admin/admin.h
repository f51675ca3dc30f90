/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_ADMIN_ADMIN_H
#define SERVICE_ADMIN_ADMIN_H
/* The admin threads: work for a request that needs several commands to Redis, over blocking connections. The
 * answer returns to the requesting thread by its mailbox. Each of four threads runs one call at a time and
 * waits for no other: one makes and deletes filters; one runs calls that ask Postgres or turn out to take
 * long (status ERR_ASIDE); one reads for scrapes of metrics; one runs all others. */
#include "base/buffer.h"
#include "base/error.h"
#include "base/mailbox.h"
#include "base/span.h"
#include "expansion/record/control.h"
#include "service/protocol/resp.h"
#include "service/protocol/reply.h"
#include "service/jobs/runner.h"
#include "service/filters/filter_drop.h"
#include "service/filters/filter_make.h"
#include "service/core/service.h"
#include "shard/view/handle.h"

struct admin_call;
struct key_client;
struct shards_cache;

/* The threads, and what they share. */
struct admin_threads {
    struct service *service;
    struct runner *runner; /* before they are started */
    struct mailbox *admin, *making, *aside, *metrics;
};

/* ERR_NOMEM; admin_threads_fini() in any case. */
MUST_CHECK enum err admin_threads_init(struct admin_threads *t, struct service *s, struct error *e);
void admin_threads_fini(struct admin_threads *t);

struct admin {
    struct admin_threads *threads;
    struct service *service;
    const struct config *config; /* held for one call */
    struct sync_client *redis;
    struct handle handle;        /* each call sets its names */
    struct view view;            /* scratch memory */
    struct key_client *client;   /* NULL: not opened yet */
    struct shards_cache *shards; /* answers of admin_shards */
};

/* Writes its answer to @r. Returns the call's status; if that is not ERR_OK and @r has no answer, @e is the
 * answer. */
typedef enum err admin_fn(struct admin *a, struct admin_call *call, struct reply *r, struct error *e);

struct admin_call {
    admin_fn *fn;
    void *asker; /* a client, an HTTP request, an operation on keys; for @done */
    struct mailbox *back;
    mailbox_fn *done;
    void *subject; /* for a client: its request; for a scrape: the collector */
    int protocol;  /* the reply's: 2, 3 or REPLY_JSON */
    char *filter;  /* name as clients write it */
    size_t filter_length;
    bool named;    /* a filter is named; its name may be "" */
    char *user;    /* the requester; NULL: nobody with a quota */
    char *visible; /* patterns of the filters that the user may see; NULL: all */
    struct creation creation;
    uint64_t capacity; /* TB.PLAN, TB.REBUILD; 0: not given */
    double error_rate;
    char *nodes;              /* TB.PLAN, TB.REBUILD: in the form of placement_choose(); NULL: not given */
    bool hold;                /* TB.REBUILD */
    bool verify_full;         /* TB.REBUILD, TB.VERIFY */
    bool dry_run;             /* TB.REBUILD */
    uint64_t rows_per_second; /* TB.THROTTLE */
    uint64_t count;           /* TB.HISTORY; 0: not given. DEL: filters deleted until now */
    char field[32];           /* BF.INFO */
    /* BF.SCANDUMP, BF.LOADCHUNK */
    bool position_given; /* the position is a number */
    int64_t position;
    struct buffer data;
    struct admin_names {
        struct argument *name; /* one allocation with the names' bytes */
        size_t count;
    } names;               /* DEL, EXISTS */
    uint64_t expire_at_ms; /* EXPIRE and the like; 0: PERSIST */
    uint64_t cursor;       /* SCAN; DEL: the next of its names; for a scrape: when it came */
    unsigned flags;        /* depend on the command: EXPIRE_NX ..., TTL_..., LIST_..., an enum control_wish */
    enum err status;
    struct error error;
    uint64_t job; /* number in a job's id (job_id.h): in: the job asked about; out: the job begun or changed;
                     0: none */
    struct buffer reply;
};

/* @filter NULL: no filter is named. NULL: no memory. */
struct admin_call *admin_call_new(admin_fn *fn, const char *filter, size_t filter_length);
void admin_call_free(struct admin_call *call);
/* Replace the filter's name. False: no memory. */
MUST_CHECK bool admin_call_name(struct admin_call *call, const char *filter, size_t filter_length);
/* Apply the user's limits: invisible filters are not listed, and filters made count for the quota. False: no
 * memory. */
MUST_CHECK bool admin_call_limit(struct admin_call *call, const struct config_user *user);
enum quota {
    QUOTA_MAKE,
    QUOTA_LOADED, /* a filter whose pieces are in Redis already */
    QUOTA_GROW,   /* another layer */
};
/* Check whether the user of @call may have another filter of @bytes in Redis, or another layer. ERR_CONFLICT:
 * it may not, or there is no such user (any more). */
MUST_CHECK enum err admin_quota(struct admin *a, const struct admin_call *call, enum quota what,
                                uint64_t bytes, struct error *e);
bool admin_call_shows(const struct admin_call *call, const char *name, size_t length);
/* Give the call to the thread that runs such calls. @done(@call) is always called, in the thread that owns
 * @back: if there is no memory, that is the call's answer. */
void admin_post(struct admin_threads *t, struct admin_call *call, struct mailbox *back, mailbox_fn *done);

/* As admin_post(), to the thread with this mailbox. */
void admin_post_to(struct mailbox *to, struct admin_call *call, struct mailbox *back, mailbox_fn *done);

/* The thread for all other calls, which starts and ends the others. Runs until the service stops; @arg is
 * the struct admin_threads. */
void *admin_run(void *arg);

/* --- calls --- */
admin_fn admin_create;  /* make a filter: status only */
admin_fn admin_grow;    /* may a full filter get another layer? Its control makes it: status only */
admin_fn admin_reserve; /* BF.RESERVE */
admin_fn admin_card;    /* BF.CARD */
admin_fn admin_info;    /* BF.INFO */
admin_fn admin_init;    /* TB.INIT */
admin_fn admin_debug;   /* BF.DEBUG */
admin_fn admin_count;   /* TB.COUNT */
admin_fn admin_usage;   /* MEMORY USAGE */
admin_fn admin_drop;    /* DEL, UNLINK */
admin_fn admin_delete;  /* DEL of one filter, for HTTP: status only */
admin_fn admin_exists;  /* EXISTS */
admin_fn admin_type;    /* TYPE */
admin_fn admin_scan;    /* SCAN */
admin_fn admin_list;    /* KEYS, DBSIZE, RANDOMKEY */
admin_fn admin_expire;  /* EXPIRE, PEXPIRE, EXPIREAT, PEXPIREAT, PERSIST */
admin_fn admin_ttl;     /* TTL, PTTL, EXPIRETIME, PEXPIRETIME */
admin_fn admin_status;  /* TB.STATUS */
admin_fn admin_page;    /* for HTTP: the status of @count filters behind the name @filter */
admin_fn admin_history; /* TB.HISTORY */
admin_fn admin_samples; /* for HTTP: the fill of a filter over time */
admin_fn admin_shards;  /* for HTTP: the fill of each shard, and lost shards */
void shards_cache_free(struct shards_cache *c);
admin_fn admin_plan;    /* TB.PLAN, and TB.REBUILD with DRYRUN */
admin_fn admin_rebuild; /* TB.REBUILD */
admin_fn admin_verify;  /* TB.VERIFY */
admin_fn admin_accept;  /* TB.TRUST */
admin_fn admin_job;     /* for HTTP: one job */
admin_fn admin_control; /* TB.CUTOVER, TB.ROLLBACK, TB.FINISH, TB.ABORT, TB.PAUSE, TB.RESUME, TB.THROTTLE */

struct fields;
struct filter_note;
/* Add the fields of TB.STATUS about the last verification and the last job. @held: a driver has the mutex. */
MUST_CHECK enum err admin_job_fields(struct fields *f, struct admin *a, const char *name, size_t length,
                                     bool held, struct error *e);
/* Add the fields of TB.STATUS about what is wrong with the filter, and its state in this coordinator. */
void admin_log_fields(struct fields *f, struct admin *a, const char *name, size_t length,
                      const struct filter_note *note, bool degraded);
/* Append the status of one filter. ERR_NOT_FOUND. */
MUST_CHECK enum err admin_status_one(struct admin *a, struct reply *r, const char *name, size_t length,
                                     struct error *e);
/* Ask ahead (shard/redis/ahead.h) for what that will ask. */
void admin_status_ask_ahead(struct admin *a, unsigned user, const char *name, size_t length);
/* Take a sample of the fill of a filter with this view. From any thread. */
void admin_note_sample(struct service *s, const struct view *v, const char *name, size_t length);

/* For HTTP: the nodes of Redis, in the order of node_health_read(); needs Redis only for their memory. */
admin_fn admin_nodes;

admin_fn admin_coordinators;

admin_fn admin_doctor;

admin_fn admin_scandump;    /* BF.SCANDUMP */
admin_fn admin_loadchunk;   /* BF.LOADCHUNK */
admin_fn admin_load_status; /* TB.LOAD */
/* ERR_OK if the filter has a source table. Otherwise the call is answered: there is nothing to @nothing. */
MUST_CHECK enum err admin_need_source(struct admin *a, struct admin_call *call, struct reply *r,
                                      const char *nothing, struct error *e);
/* Load the call's filter: a->handle and a->view. */
MUST_CHECK enum err admin_open(struct admin *a, const struct admin_call *call, struct error *e);
/* Open the call's filter in this process, which then has a control of it: a->client. */
MUST_CHECK enum err admin_open_client(struct admin *a, const struct admin_call *call, struct error *e);

/* The job that TB.REBUILD requests and TB.PLAN previews; TB.VERIFY changes it. Borrows from both arguments.
 */
struct runner_job admin_rebuild_job(struct admin *a, const struct admin_call *call);

/* Values of call->flags. */
enum { TTL_SECONDS = 1, TTL_ABSOLUTE = 2 };
enum { SCAN_OTHER_TYPE = 1 };          /* TYPE names another type than that of filters */
enum { LIST_COUNT = 2, LIST_ANY = 4 }; /* of all names; neither: those that match */

/* Copy the names into the call, NUL-terminated. False: no memory. */
MUST_CHECK bool admin_call_names(struct admin_call *call, const struct argument *names, size_t count);

/* The names of all filters: those of the configuration, then the others that Redis names, or that were lost
 * there, sorted. They live as long as the configuration, @stored and @lost. */
struct filter_names {
    struct span *name;
    size_t count;
    redisReply *stored;
    struct buffer lost; /* filter_states_lost() */
};
/* On an error of Redis only the first. admin_names_free() in any case. */
MUST_CHECK enum err admin_names(struct admin *a, struct filter_names *to, struct error *e);
void admin_names_free(struct filter_names *n);

/* The beginning of an error about a filter that was not made, in RedisBloom's words. */
const char *admin_creation_failure(const struct admin_call *call, enum err code);

/* Load the view of the call's filter, a->view, and *@items, of the generation in use: those that all
 * coordinators have added until now. ERR_NOT_FOUND. */
MUST_CHECK enum err admin_load_items(struct admin *a, const struct admin_call *call, uint64_t *items,
                                     struct error *e);
/* Keys in one layer of the generation in use: layers fill one after the other. */
uint64_t admin_layer_keys(const struct view *v, unsigned layer);

#endif
