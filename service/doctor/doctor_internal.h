/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_DOCTOR_DOCTOR_INTERNAL_H
#define SERVICE_DOCTOR_DOCTOR_INTERNAL_H
/* What the files doctor*.c share. */
#include <hiredis/hiredis.h>
#include "base/error.h"
#include "migrate/change/stream.h"
#include "service/doctor/doctor.h"
#include "shard/redis/sync_client.h"

/* A master in the configuration or in the cluster. */
struct doctor_node {
    char name[NODE_NAME_MAX];
    unsigned where;   /* its address in the client */
    unsigned slot;    /* the lowest slot it holds; SLOTS: a listed node, or no slot */
    redisReply *info; /* reply of INFO; NULL: none, and the probe "redis" has reported it */
    int64_t clock_ms; /* its clock minus this machine's */
    bool has_clock;
};

/* What a Postgres server reports about itself and this role's rights. */
struct server_facts {
    int version; /* 150004 for 15.4 */
    char version_text[64];
    char role[144];       /* as SQL quotes it */
    bool sees_statistics; /* may see other sessions in pg_stat_activity */
    bool standby;
    uint64_t now_ms; /* the server's clock when it replied, since the Unix epoch */
    /* Age of the oldest open transaction of this database whose start is visible, except our own. */
    uint64_t oldest_seconds;
    uint64_t prepared; /* transactions of this database that wait for COMMIT PREPARED */
    uint64_t slots, slots_max;
};

struct doctor {
    const struct doctor_options *o;
    const char *probe; /* the running probe */
    struct sync_client *redis;
    struct doctor_node *node;
    unsigned node_count;
    bool has_postgres; /* the server has replied */
    struct server_facts postgres;
    int64_t postgres_clock_ms; /* the database's clock minus this machine's */
};

typedef void doctor_fn(struct doctor *d);
/* For a node that replied. */
typedef void doctor_node_fn(struct doctor *d, const struct doctor_node *n);

/* In the order in which they run: the first two find out which servers reply. */
struct doctor_probe {
    const char *name, *what; /* @what it looks at, as docs/install.md says it */
    doctor_fn *fn;           /* NULL: none */
    doctor_node_fn *node_fn; /* called then, for each node; NULL: none */
};
extern const struct doctor_probe doctor_probes[];
extern const size_t doctor_probe_count;

/* A command that Redis must allow. Words "S": a string, "H": a hash, "L": a list, "Z": a set, "C": the
 * channel of events. */
enum { DOCTOR_WORDS_MAX = 6 };
struct doctor_command {
    const char *name;                       /* name in an ACL rule */
    bool (*needed)(const struct doctor *d); /* NULL: always */
    const char *word[DOCTOR_WORDS_MAX];
};
extern const struct doctor_command doctor_command_rows[];
extern const size_t doctor_command_count;

/* Report a finding of the running probe. @subject, @remedy: as in struct doctor_finding. */
void doctor_tell(struct doctor *d, enum doctor_state state, const char *subject, const char *remedy,
                 const char *format, ...) PRINTF_LIKE(5, 6);
/* As doctor_tell(), with an error's text, which has the form "what; remedy" if @remedy is "". */
void doctor_tell_error(struct doctor *d, enum doctor_state state, const char *subject, const struct error *e,
                       const char *remedy);

/* Where the database answered: call @fn for each filter that has a table. */
void doctor_each_table(struct doctor *d, void (*fn)(struct doctor *d, const struct config_filter *f));

/* Open a valid source. NULL: @e says why there is none. */
struct source *doctor_open_source(const struct doctor *d, const struct config_filter *f, struct error *e);

/* The largest add_acks of [redis] and the filters; whether one of them sets add_fsync. */
unsigned doctor_add_acks(const struct doctor *d);
bool doctor_add_fsync(const struct doctor *d);

/* --- judgements of collected facts, without I/O --- */

/* Judge a node's INFO. */
doctor_node_fn doctor_versions, doctor_memory, doctor_persistence, doctor_replicas, doctor_replication;
/* Judge d->postgres. */
doctor_fn doctor_server, doctor_rights, doctor_transactions;
/* Judge a slot that exists and is ours. */
void doctor_slot(struct doctor *d, const char *slot, const struct stream_slot *s);

/* --- probes with I/O --- */
doctor_fn doctor_redis;                                   /* doctor_redis.c */
doctor_node_fn doctor_commands;                           /* doctor_commands.c */
doctor_fn doctor_postgres, doctor_tables, doctor_spill;   /* doctor_postgres.c */
doctor_fn doctor_followers, doctor_standby, doctor_slots; /* doctor_follow.c */
doctor_fn doctor_coordinators, doctor_clocks;             /* doctor_coordinators.c */
doctor_fn doctor_certificates;                            /* doctor_certificates.c */
doctor_node_fn doctor_nodes;
#endif
