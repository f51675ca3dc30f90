/* SPDX-License-Identifier: MIT */
/* Faults of the data and the sessions inside Redis and Postgres. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "tests/fault/fault.h"
#include "tests/fault/inject_kinds.h"

enum { NAMES_MAX = 512, NAME_MAX_BYTES = 160, TRIES = 50 };

/* Send one command to the target. The caller frees the reply, which may be NULL. */
static redisReply *node_command(struct injection *i, const char *format, ...)
{
    struct client c;
    struct error e = {""};
    if (client_open(&c, i->node->port, WORLD_REPLY_MS, &e) != ERR_OK)
        return NULL;
    va_list ap;
    va_start(ap, format);
    redisReply *r = redisvCommand(c.redis, format, ap);
    va_end(ap);
    client_close(&c);
    return r;
}

static bool succeeds(redisReply *r)
{
    bool done = r != NULL && r->type != REDIS_REPLY_ERROR;
    freeReplyObject(r);
    return done;
}

bool client_kill(struct injection *i)
{
    return succeeds(node_command(i, "CLIENT KILL TYPE normal"));
}

/* Who has the shards in memory does not miss them until he folds into them. */
static void note_shards_hit(struct injection *i)
{
    i->world->shards_hit = world_generation(i->world);
}

bool flushall(struct injection *i)
{
    note_shards_hit(i);
    return succeeds(node_command(i, "FLUSHALL"));
}

static bool deleted_at_home(struct injection *i, const char *key)
{
    i->node = world_home(i->world);
    (void)snprintf(i->detail, sizeof(i->detail), "at home");
    if (i->node == NULL)
        return false;
    redisReply *r = node_command(i, "DEL %s", key);
    bool done = r != NULL && r->type == REDIS_REPLY_INTEGER && r->integer == 1;
    freeReplyObject(r);
    return done;
}

bool view_deleted(struct injection *i)
{
    return deleted_at_home(i, WORLD_VIEW);
}

bool job_deleted(struct injection *i)
{
    return deleted_at_home(i, "twinbloom:{" WORLD_FILTER "}:job");
}

bool mutex_deleted(struct injection *i)
{
    bool done = false;
    for (int tries = 0; !done && tries < 60; tries++) {
        done = deleted_at_home(i, "twinbloom:{" WORLD_FILTER "}:expansion_flag");
        clock_sleep_us(done ? 0 : 5000);
    }
    return done;
}

bool token_deleted(struct injection *i)
{
    return deleted_at_home(i, "twinbloom:{" WORLD_FILTER "}:token");
}

/* --- shards --- */

struct names {
    char text[NAMES_MAX][NAME_MAX_BYTES];
    unsigned count;
};

static void keep_name(const char *name, void *arg)
{
    struct names *n = arg;
    if (n->count < NAMES_MAX)
        (void)snprintf(n->text[n->count++], NAME_MAX_BYTES, "%s", name);
}

bool pick_key(struct injection *i, const char *pattern, char *out, size_t size)
{
    struct client c;
    struct error e = {""};
    if (client_open(&c, i->node->port, WORLD_REPLY_MS, &e) != ERR_OK)
        return false;
    struct names *n = calloc(1, sizeof(*n));
    bool found = n != NULL && client_scan(&c, pattern, keep_name, n, &e) == ERR_OK && n->count > 0;
    if (found)
        (void)snprintf(out, size, "%s", n->text[fault_between(&i->state, 0, n->count - 1)]);
    free(n);
    client_close(&c);
    return found;
}

/* Pick a shard; its name goes into the injection's detail. */
static bool pick_shard(struct injection *i)
{
    bool string = false;
    for (unsigned tries = 0; !string && tries < TRIES; tries++) {
        if (!pick_key(i, "twinbloom:{" WORLD_FILTER ".*.*.*}:*", i->detail, sizeof(i->detail)))
            return false;
        redisReply *r = node_command(i, "TYPE %s", i->detail);
        string = r != NULL && r->type == REDIS_REPLY_STATUS && strcmp(r->str, "string") == 0;
        freeReplyObject(r);
    }
    note_shards_hit(i);
    return string;
}

/* *@arg: the number of the oldest generation. */
static void look_at_shard(const char *name, void *arg)
{
    static const char before[] = "twinbloom:{" WORLD_FILTER ".";
    uint64_t *oldest = arg, number = strtoull(name + strlen(before), NULL, 10);
    *oldest = number < *oldest ? number : *oldest;
}

bool shards_may_be_hit(struct injection *i)
{
    struct client c;
    struct error e;
    uint64_t oldest = UINT64_MAX;
    bool read = true;
    for (unsigned k = 0; k < WORLD_NODES; k++) {
        if (client_open(&c, i->world->redis[k].port, WORLD_REPLY_MS, &e) != ERR_OK)
            return true;
        read &= client_scan(&c, "twinbloom:{" WORLD_FILTER ".*.*.*}:*", look_at_shard, &oldest, &e) == ERR_OK;
        client_close(&c);
    }
    return !read || oldest <= i->world->shards_hit;
}

bool shard_deleted(struct injection *i)
{
    return pick_shard(i) && succeeds(node_command(i, "DEL %s", i->detail));
}

/* A block of random bytes has the right tag with a chance of 1 in 65,535 and is then taken for a valid one.
 * This limit is documented, and long runs would meet it. So no pair of bytes here equals the tag, which is at
 * the shard's beginning. */
static void scramble(struct injection *i, char *bytes, size_t length)
{
    const char tag[2] = {bytes[0], bytes[1]};
    for (size_t at = 0; at + 1 < length; at += 2)
        do {
            uint64_t random = fault_random(&i->state);
            memcpy(bytes + at, &random, 2);
        } while (memcmp(bytes + at, tag, 2) == 0);
}

/* Half of the length, rounded down to a boundary of blocks of any size. A shard that is cut inside a block
 * and grows again (a BITFIELD behind the cut fills it up with zeros) has that block's tag without all its
 * bits, which looks like a block of few keys. */
static size_t half(size_t length)
{
    enum { BLOCK_BYTES_MAX = 512 };
    return length / 2 - length / 2 % BLOCK_BYTES_MAX;
}

/* XX: nothing is written if the shard was renamed after it was read. */
static bool replace(struct injection *i, bool random)
{
    if (!pick_shard(i))
        return false;
    redisReply *r = node_command(i, "GET %s", i->detail);
    bool string = r != NULL && r->type == REDIS_REPLY_STRING && r->len >= 4;
    bool done = false;
    if (string && random)
        scramble(i, r->str, (size_t)r->len);
    if (string)
        done = succeeds(node_command(i, "SET %s %b XX KEEPTTL", i->detail, r->str,
                                     random ? (size_t)r->len : half((size_t)r->len)));
    freeReplyObject(r);
    return done;
}

bool shard_overwritten(struct injection *i)
{
    return replace(i, true);
}

bool shard_cut(struct injection *i)
{
    return replace(i, false);
}

bool shard_of_wrong_type(struct injection *i)
{
    static const char script[] =
        "redis.call('DEL', KEYS[1]) if ARGV[1] == '0' then redis.call('RPUSH', KEYS[1], 'x') "
        "else redis.call('HSET', KEYS[1], 'x', '1') end return 1";
    return pick_shard(i) && succeeds(node_command(i, "EVAL %s 1 %s %d", script, i->detail,
                                                  (int)fault_between(&i->state, 0, 1)));
}

/* --- memory and disk of Redis --- */

static bool configure(struct injection *i, const char *name, const char *value)
{
    return succeeds(node_command(i, "CONFIG SET %s %s", name, value));
}

bool redis_full_begin(struct injection *i)
{
    return configure(i, "maxmemory-policy", "noeviction") && configure(i, "maxmemory", "1");
}

void redis_full_end(struct injection *i)
{
    (void)configure(i, "maxmemory", "0");
    (void)configure(i, "maxmemory-policy", "noeviction");
}

bool redis_evict_begin(struct injection *i)
{
    note_shards_hit(i);
    redisReply *r = node_command(i, "INFO memory");
    const char *used = r != NULL && r->str != NULL ? strstr(r->str, "used_memory:") : NULL;
    uint64_t bytes = used != NULL ? strtoull(used + strlen("used_memory:"), NULL, 10) : 0;
    char limit[24];
    freeReplyObject(r);
    (void)snprintf(limit, sizeof(limit), "%llu",
                   (unsigned long long)(bytes - fault_between(&i->state, bytes / 100, bytes / 20)));
    return bytes > 0 && configure(i, "maxmemory-policy", "allkeys-random") &&
           configure(i, "maxmemory", limit);
}

/* A directory with the snapshot's name makes the snapshot fail, even for root. */
bool redis_misconf_begin(struct injection *i)
{
    char path[PATH_MAX + 32];
    (void)snprintf(path, sizeof(path), "%s/data/blocked", i->node->directory);
    (void)mkdir(path, 0755);
    if (!configure(i, "dbfilename", "blocked") || !configure(i, "save", "3600 1000000"))
        return false;
    bool begun = succeeds(node_command(i, "BGSAVE"));
    for (int tries = 0; begun && tries < 50; tries++) {
        redisReply *r = node_command(i, "INFO persistence");
        bool failed = r != NULL && r->str != NULL && strstr(r->str, "rdb_last_bgsave_status:err") != NULL;
        freeReplyObject(r);
        if (failed)
            return true;
        clock_sleep_us(10000);
    }
    redis_misconf_end(i);
    return false;
}

/* Without a schedule of snapshots Redis does not refuse writes after a failed one. */
void redis_misconf_end(struct injection *i)
{
    (void)configure(i, "save", "");
    (void)configure(i, "dbfilename", "dump.rdb");
}

/* --- sessions of Postgres --- */

bool postgres_terminate(struct injection *i)
{
    struct world *w = i->world;
    for (int tries = 0; tries < 50; tries++) {
        PGresult *r = PQexec(w->db, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                                    "WHERE application_name = 'twinbloom job'");
        bool done = PQresultStatus(r) == PGRES_TUPLES_OK && strcmp(PQgetvalue(r, 0, 0), "0") != 0;
        PQclear(r);
        if (done)
            return true;
        if (PQstatus(w->db) != CONNECTION_OK)
            PQreset(w->db);
        clock_sleep_us(10000);
    }
    return false;
}

static bool open_session(struct injection *i, const char *sql)
{
    char text[256];
    (void)snprintf(text, sizeof(text), "SET lock_timeout = '2s'; BEGIN; %s", sql);
    i->db = PQconnectdb(i->world->postgres.dsn);
    PGresult *r = PQexec(i->db, text);
    bool done = PQresultStatus(r) == PGRES_COMMAND_OK;
    PQclear(r);
    if (!done)
        session_end(i);
    return done;
}

bool table_locked_begin(struct injection *i)
{
    return open_session(i, "LOCK TABLE " WORLD_TABLE " IN ACCESS EXCLUSIVE MODE");
}

/* The transaction stays open after its INSERT: the row has its number, and may never be committed. */
bool transaction_open_begin(struct injection *i)
{
    char sql[128];
    (void)snprintf(sql, sizeof(sql), "INSERT INTO " WORLD_TABLE " (code) VALUES ('open-%016llx')",
                   (unsigned long long)fault_random(&i->state));
    return open_session(i, sql);
}

void session_end(struct injection *i)
{
    PQclear(PQexec(i->db, fault_between(&i->state, 0, 1) == 0 ? "COMMIT" : "ROLLBACK"));
    PQfinish(i->db);
    i->db = NULL;
}
