/* SPDX-License-Identifier: MIT */
/* Checks what each Redis node reports about itself. INFO is enough: CONFIG GET is a right that the service
 * does not need. */
#include "service/doctor/doctor_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/info.h"
#include "base/number.h"

enum {
    TEXT_MAX = 64,
    VERSION_WAITAOF = 70200,
    VERSION_OLDEST = 60200, /* the oldest that the service works with */
    VERSION_COUNTS = 70000  /* from here on INFO tells why the replication id changed */
};

/* --- INFO of a node --- */

/* "": the line is missing. */
static const char *info_text(const struct doctor_node *n, const char *name, char *out, size_t size)
{
    size_t length = 0;
    const char *value = n->info == NULL ? NULL : info_value(n->info->str, n->info->len, name, &length);
    (void)snprintf(out, size, "%.*s", value == NULL ? 0 : (int)length, value == NULL ? "" : value);
    return out;
}

/* 0: the line is missing. */
static uint64_t info_number(const struct doctor_node *n, const char *name)
{
    char text[32];
    uint64_t number = 0;
    (void)info_text(n, name, text, sizeof(text));
    return number_u64(text, strlen(text), &number) ? number : 0;
}

/* Redis' version as 70015 for 7.0.15; 0: unknown. For Valkey: the Redis version that it is compatible with.
 */
static unsigned redis_version(const struct doctor_node *n)
{
    char text[32];
    unsigned version = 0;
    char *at = (char *)info_text(n, "redis_version", text, sizeof(text));
    for (unsigned part = 0; part < 3; part++) {
        unsigned long number = strtoul(at, &at, 10);
        version = version * 100 + (number < 100 ? (unsigned)number : 99);
        at += *at == '.';
    }
    return version;
}

/* --- redis --- */

static void look_at(struct doctor *d, struct doctor_node *n)
{
    struct error e;
    redisReply *r = NULL;
    enum err code = sync_client_command(d->redis, n->where, &r, &e, "INFO");
    if (code != ERR_OK) {
        doctor_tell(
            d, DOCTOR_PROBLEM, n->name,
            code == ERR_REFUSED ? "check the login in [redis]: redis://:PASSWORD@host:port, "
                                  "redis://USER:PASSWORD@host:port, or "
                                  "password_file; and what that user may do"
            : d->o->nodes->sentinels != NULL
                ? "start it and its sentinels; check `sentinel`, `master`, user and password in [redis], "
                  "and that this machine reaches them"
                : "start it; check its address, user and password in [redis], and that this machine "
                  "reaches it; name a master, no replica",
            "%s", e.text);
        return;
    }
    n->info = r;
    /* Compare its TIME with the local clock in the middle of the round trip. */
    uint64_t seconds = 0, us = 0, began = clock_wall_us();
    if (sync_client_command(d->redis, n->where, &r, &e, "TIME") != ERR_OK)
        return;
    uint64_t here = (began + clock_wall_us()) / 2;
    n->has_clock = r->type == REDIS_REPLY_ARRAY && r->elements == 2 &&
                   number_u64(r->element[0]->str, r->element[0]->len, &seconds) &&
                   number_u64(r->element[1]->str, r->element[1]->len, &us);
    n->clock_ms = ((int64_t)(seconds * 1000000 + us) - (int64_t)here) / 1000;
    freeReplyObject(r);
}

void doctor_redis(struct doctor *d)
{
    struct error e;
    unsigned count = 0;
    if (sync_client_masters(d->redis, &count, &e) != ERR_OK || count == 0) {
        doctor_tell(d, DOCTOR_PROBLEM, "",
                    "start the cluster's nodes, and check their addresses in [redis] cluster",
                    "the masters of the cluster are not known: %s", e.text);
        return;
    }
    d->node = calloc(count, sizeof(*d->node));
    if (d->node == NULL)
        return;
    d->node_count = count;
    for (unsigned i = 0; i < count; i++) { /* numbers of masters are valid until the masters are read again */
        struct doctor_node *n = &d->node[i];
        n->where = sync_client_master(d->redis, i);
        n->slot = sync_client_master_slot(d->redis, i);
        (void)snprintf(n->name, sizeof(n->name), "%s", sync_client_name(d->redis, n->where));
    }
    for (unsigned i = 0; i < count; i++)
        look_at(d, &d->node[i]);
}

/* --- versions --- */

void doctor_versions(struct doctor *d, const struct doctor_node *n)
{
    char valkey[TEXT_MAX], redis[TEXT_MAX];
    bool is_valkey = info_text(n, "valkey_version", valkey, sizeof(valkey))[0] != '\0';
    const char *product = is_valkey ? "Valkey" : "Redis";
    const char *version = is_valkey ? valkey : info_text(n, "redis_version", redis, sizeof(redis));
    if (redis_version(n) < VERSION_OLDEST)
        doctor_tell(d, DOCTOR_PROBLEM, n->name, "upgrade it to Redis 7.0 or later", "%s %s is older than 6.2",
                    product, version);
    else if (redis_version(n) < VERSION_COUNTS)
        doctor_tell(
            d, DOCTOR_WARNING, n->name, "upgrade it to Redis 7.0 or later",
            "%s %s: when its first replica comes, filters that no coordinator has whole in memory are "
            "degraded until they are healed",
            product, version);
    else
        doctor_tell(d, DOCTOR_OK, n->name, "", "%s %s", product, version);
}

/* --- memory --- */

void doctor_memory(struct doctor *d, const struct doctor_node *n)
{
    char policy[TEXT_MAX];
    uint64_t limit = info_number(n, "maxmemory"), used = info_number(n, "used_memory");
    bool keeps = strcmp(info_text(n, "maxmemory_policy", policy, sizeof(policy)), "noeviction") == 0;
    if (!keeps)
        doctor_tell(d, limit > 0 ? DOCTOR_PROBLEM : DOCTOR_WARNING, n->name,
                    "CONFIG SET maxmemory-policy noeviction, and set it in redis.conf",
                    "maxmemory-policy is %s: when maxmemory%s is reached, Redis deletes shards", policy,
                    limit > 0 ? "" : " (not set now)");
    else if (limit > 0 && used >= limit)
        doctor_tell(d, DOCTOR_PROBLEM, n->name, "raise maxmemory, or add a node",
                    "memory is full (%" PRIu64 " of %" PRIu64 " bytes): adds and rebuilds fail", used, limit);
    else if (limit > 0 && used > limit / 10 * 9)
        doctor_tell(d, DOCTOR_WARNING, n->name, "raise maxmemory, or add a node",
                    "%" PRIu64 " of %" PRIu64 " bytes (maxmemory) are used", used, limit);
    else if (limit > 0)
        doctor_tell(d, DOCTOR_OK, n->name, "",
                    "noeviction, %" PRIu64 " of %" PRIu64 " bytes (maxmemory) are used", used, limit);
    else
        doctor_tell(d, DOCTOR_OK, n->name, "", "noeviction, maxmemory is not set, %" PRIu64 " bytes are used",
                    used);
}

/* --- persistence --- */

void doctor_persistence(struct doctor *d, const struct doctor_node *n)
{
    static const char *const writes[] = {"aof_last_write_status", "aof_last_bgrewrite_status",
                                         "rdb_last_bgsave_status"};
    char status[TEXT_MAX];
    bool aof = info_number(n, "aof_enabled") == 1;
    for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++)
        if (strcmp(info_text(n, writes[i], status, sizeof(status)), "err") == 0) {
            doctor_tell(d, DOCTOR_PROBLEM, n->name, "look at its log and at the space on its disk",
                        "%s is err: Redis could not write to its disk, and may refuse adds", writes[i]);
            return;
        }
    if (aof)
        doctor_tell(d, DOCTOR_OK, n->name, "", "appendonly yes");
    else if (info_number(n, "connected_slaves") > 0)
        doctor_tell(d, DOCTOR_OK, n->name, "", "no append-only file, but replicas");
    else
        doctor_tell(d, DOCTOR_WARNING, n->name,
                    "CONFIG SET appendonly yes, and set it in redis.conf; or add a replica",
                    "neither an append-only file nor a replica: a restart of Redis loses what no snapshot "
                    "has, and filters are degraded until they are healed from their tables");
}

/* --- replicas --- */

static unsigned in_step(const struct doctor_node *n)
{
    unsigned count = 0;
    for (unsigned i = 0;; i++) { /* replicas are numbered without gaps */
        char name[24], line[TEXT_MAX];
        (void)snprintf(name, sizeof(name), "slave%u", i);
        if (info_text(n, name, line, sizeof(line))[0] == '\0')
            return count;
        count += strstr(line, "state=online") != NULL;
    }
}

void doctor_replicas(struct doctor *d, const struct doctor_node *n)
{
    char good[TEXT_MAX];
    unsigned acks = doctor_add_acks(d), replicas = in_step(n);
    if (!info_is(n->info->str, n->info->len, "role", "master"))
        return; /* others report it */
    if (replicas < acks)
        doctor_tell(d, DOCTOR_PROBLEM, n->name, "add replicas, or lower add_acks",
                    "add_acks = %u, but %u replicas are in step: adds are refused", acks, replicas);
    else if (doctor_add_fsync(d) && redis_version(n) < VERSION_WAITAOF)
        doctor_tell(d, DOCTOR_PROBLEM, n->name, "upgrade it to Redis 7.2, or set add_fsync = no",
                    "add_fsync = yes needs WAITAOF, which it does not have: adds are refused");
    else if (doctor_add_fsync(d) && info_number(n, "aof_enabled") == 0)
        doctor_tell(d, DOCTOR_PROBLEM, n->name, "CONFIG SET appendonly yes, and set it in redis.conf",
                    "add_fsync = yes needs appendonly yes: adds are refused");
    else if (d->o->nodes->sentinels != NULL &&
             info_text(n, "min_slaves_good_slaves", good, sizeof(good))[0] == '\0')
        doctor_tell(
            d, DOCTOR_WARNING, n->name, "CONFIG SET min-replicas-to-write 1, and set it in redis.conf",
            "min-replicas-to-write is 0: a master that is cut off goes on to take adds that are lost later");
    else
        doctor_tell(d, DOCTOR_OK, n->name, "", "%u replicas in step, %u needed", replicas, acks);
}

/* --- replication --- */

void doctor_replication(struct doctor *d, const struct doctor_node *n)
{
    char id[TEXT_MAX];
    enum { BACKLOG_LEAST = 1 << 20 };
    uint64_t backlog = info_number(n, "repl_backlog_size");
    if (info_number(n, "connected_slaves") > 0 && backlog < BACKLOG_LEAST)
        doctor_tell(d, DOCTOR_WARNING, n->name, "CONFIG SET repl-backlog-size 64mb, and set it in redis.conf",
                    "repl-backlog-size is %" PRIu64
                    " bytes: a replica that loses its link copies everything again",
                    backlog);
    else
        doctor_tell(d, DOCTOR_OK, n->name, "", "replication id %.16s..., repl-backlog-size %" PRIu64 " bytes",
                    info_text(n, "master_replid", id, sizeof(id)), backlog);
}
