/* SPDX-License-Identifier: MIT */
#include "tests/lib/temp_cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/lib/certificates.h"

enum {
    START_MS = 30000,
    COMMAND_MS = 10000,
    MIGRATE_MS = 5000,
    OLD_BUS = 10000,       /* Redis 6: its bus has the port of its clients, and so much more */
    OUTGOING_FIRST = 32768 /* outgoing connections use ports from here on */
};

/* --- nodes --- */

static void add_seed(struct temp_cluster *c, unsigned i)
{
    size_t n = strlen(c->seeds);
    (void)snprintf(c->seeds + n, sizeof(c->seeds) - n, "%s%s127.0.0.1:%s", i == 0 ? "" : ", ",
                   c->certificates[0] != '\0' ? "rediss://" : "redis://",
                   c->certificates[0] != '\0' ? c->tls_port[i] : strrchr(c->node[i].url, ':') + 1);
}

static enum err start_node(struct temp_cluster *c, unsigned i, struct error *e)
{
    uint16_t bus = process_free_port(), tls = process_free_port();
    if (bus == 0 || tls == 0)
        return error_set(e, ERR_IO, "no free loopback port");
    (void)snprintf(c->bus[i], sizeof(c->bus[i]), "%u", bus);
    (void)snprintf(c->tls_port[i], sizeof(c->tls_port[i]), "%u", tls);
    static const char *const timeout = "1000";
    bool old = temp_redis_is_before_7();
    const char *extra[] = {"--cluster-enabled",
                           "yes",
                           "--cluster-node-timeout",
                           timeout,
                           old ? "--cluster-enabled" : "--cluster-port",
                           old ? "yes" : c->bus[i],
                           "--cluster-require-full-coverage",
                           "no",
                           "--cluster-replica-validity-factor",
                           "0",
                           "--repl-diskless-sync-delay",
                           "0",
                           old ? "--cluster-migration-barrier" : "--cluster-allow-replica-migration",
                           old ? "99" : "no",
                           c->certificates[0] == '\0' ? NULL : "--tls-port",
                           c->tls_port[i],
                           "--tls-cluster",
                           "yes",
                           "--tls-replication",
                           "yes",
                           "--tls-auth-clients",
                           "no",
                           "--tls-ca-cert-file",
                           c->tls_file[0],
                           "--tls-cert-file",
                           c->tls_file[1],
                           "--tls-key-file",
                           c->tls_file[2],
                           NULL};
    enum err err = temp_redis_prepare(&c->node[i], extra, e);
    while (err == ERR_OK && old && c->node[i].port + OLD_BUS >= OUTGOING_FIRST) {
        temp_redis_fini(&c->node[i]);
        err = temp_redis_prepare(&c->node[i], extra, e);
    }
    if (err == ERR_OK)
        err = temp_redis_restart(&c->node[i], true, e);
    if (err != ERR_OK) {
        temp_redis_fini(&c->node[i]);
        return err;
    }
    c->count++;
    if (old)
        (void)snprintf(c->bus[i], sizeof(c->bus[i]), "%d", c->node[i].port + OLD_BUS);
    err = client_open(&c->client[i], c->node[i].port, COMMAND_MS, e);
    if (err != ERR_OK)
        return err;
    redisReply *id = client_command(&c->client[i], "CLUSTER MYID");
    if (id != NULL && id->type == REDIS_REPLY_STRING)
        (void)snprintf(c->id[i], sizeof(c->id[i]), "%s", id->str);
    freeReplyObject(id);
    add_seed(c, i);
    return c->id[i][0] != '\0' ? ERR_OK : error_set(e, ERR_IO, "CLUSTER MYID gave no id");
}

static bool is_alive(struct temp_cluster *c, unsigned i)
{
    return process_running(&c->node[i].process);
}

static redisReply *ask(struct temp_cluster *c, unsigned i, const char *command);

/* True if CLUSTER INFO or INFO replication has this field with this value. */
static bool info_has(struct temp_cluster *c, unsigned i, const char *command, const char *line)
{
    redisReply *r = ask(c, i, command);
    bool has = r != NULL && r->type == REDIS_REPLY_STRING && strstr(r->str, line) != NULL;
    freeReplyObject(r);
    return has;
}

static enum err wait_info(struct temp_cluster *c, unsigned i, const char *command, const char *line,
                          struct error *e)
{
    uint64_t until = clock_mono_us() + START_MS * 1000ull;
    while (!info_has(c, i, command, line)) {
        if (clock_mono_us() > until)
            return error_set(e, ERR_TIMEOUT, "node %u: %s never says %s", i, command, line);
        clock_sleep_us(20000);
    }
    return ERR_OK;
}

/* Assign the slots [first, end) to node @i. */
static enum err add_slots(struct temp_cluster *c, unsigned i, unsigned first, unsigned end, struct error *e)
{
    if (!temp_redis_is_before_7())
        return client_ok(&c->client[i], e, "CLUSTER ADDSLOTSRANGE %u %u", first, end - 1);
    enum err err = ERR_OK;
    for (unsigned slot = first; slot < end && err == ERR_OK; slot++)
        err = client_ok(&c->client[i], e, "CLUSTER ADDSLOTS %u", slot);
    return err;
}

static enum err join(struct temp_cluster *c, unsigned owners, struct error *e)
{
    char known[32];
    enum err err = ERR_OK;
    for (unsigned i = 0; i < c->count && err == ERR_OK; i++)
        err = client_ok(&c->client[i], e, "CLUSTER SET-CONFIG-EPOCH %u", i + 1);
    for (unsigned i = 0; i < owners && err == ERR_OK; i++)
        err = add_slots(c, i, TEMP_CLUSTER_SLOTS * i / owners, TEMP_CLUSTER_SLOTS * (i + 1) / owners, e);
    for (unsigned i = 1; i < c->count && err == ERR_OK; i++)
        err = client_ok(&c->client[0], e, "CLUSTER MEET 127.0.0.1 %s %s",
                        c->certificates[0] != '\0' ? c->tls_port[i] : strrchr(c->node[i].url, ':') + 1,
                        c->bus[i]);
    (void)snprintf(known, sizeof(known), "cluster_known_nodes:%u\r\n", c->count);
    for (unsigned i = 0; i < c->count && err == ERR_OK; i++) {
        err = wait_info(c, i, "CLUSTER INFO", known, e);
        if (err == ERR_OK)
            err = wait_info(c, i, "CLUSTER INFO", "cluster_slots_ok:16384\r\n", e);
        if (err == ERR_OK)
            err = wait_info(c, i, "CLUSTER INFO", "cluster_state:ok", e);
    }
    return err;
}

static enum err follow(struct temp_cluster *c, unsigned i, struct error *e)
{
    enum err err = client_ok(&c->client[i], e, "CLUSTER REPLICATE %s", c->id[(i - c->masters) % c->masters]);
    return err == ERR_OK ? wait_info(c, i, "INFO replication", "master_link_status:up", e) : err;
}

/* Wait until node @i knows all replicas: for a moment it takes a new one for a master without slots. */
static enum err wait_replicas(struct temp_cluster *c, unsigned i, unsigned replicas, struct error *e)
{
    uint64_t until = clock_mono_us() + START_MS * 1000ull;
    for (unsigned known = 0;; known = 0) {
        redisReply *r = ask(c, i, "CLUSTER NODES");
        const char *at = r != NULL && r->type == REDIS_REPLY_STRING ? r->str : "";
        while ((at = strstr(at, "slave")) != NULL) {
            at++;
            known++;
        }
        freeReplyObject(r);
        if (known == replicas)
            return ERR_OK;
        if (clock_mono_us() > until)
            return error_set(e, ERR_TIMEOUT, "node %u: it knows %u replicas of %u", i, known, replicas);
        clock_sleep_us(20000);
    }
}

static enum err start(struct temp_cluster *c, unsigned owners, unsigned replicas, struct error *e)
{
    enum err err = ERR_OK;
    for (unsigned i = 0; i < c->masters + replicas && err == ERR_OK; i++)
        err = start_node(c, i, e);
    if (err == ERR_OK)
        err = join(c, owners == 0 ? c->masters : owners, e);
    for (unsigned i = c->masters; i < c->count && err == ERR_OK; i++)
        err = follow(c, i, e);
    for (unsigned i = 0; i < c->count && err == ERR_OK; i++)
        err = wait_replicas(c, i, replicas, e);
    if (err == ERR_OK)
        err = temp_cluster_agree(c, START_MS, e);
    if (err != ERR_OK)
        temp_cluster_fini(c);
    return err;
}

enum err temp_cluster_start(struct temp_cluster *c, unsigned masters, unsigned owners, unsigned replicas,
                            struct error *e)
{
    *c = (struct temp_cluster){.masters = masters};
    return start(c, owners, replicas, e);
}

enum err temp_cluster_start_tls(struct temp_cluster *c, unsigned masters, unsigned replicas, struct error *e)
{
    static const char *const files[] = {"ours.crt", "redis.crt", "redis.key"};
    *c = (struct temp_cluster){.masters = masters};
    enum err err = process_make_directory(c->certificates, "certificates", e);
    if (err == ERR_OK)
        err = certificates_make(c->certificates, e);
    for (unsigned i = 0; i < 3; i++)
        (void)snprintf(c->tls_file[i], sizeof(c->tls_file[i]), "%s/%s", c->certificates, files[i]);
    if (err == ERR_OK)
        return start(c, masters, replicas, e);
    temp_cluster_fini(c);
    return err;
}

void temp_cluster_fini(struct temp_cluster *c)
{
    process_remove_directory(c->certificates);
    for (unsigned i = 0; i < c->count; i++) {
        client_close(&c->client[i]);
        temp_redis_kill(&c->node[i]); /* nothing is kept, so it need not save */
        temp_redis_fini(&c->node[i]);
    }
    *c = (struct temp_cluster){0};
}

/* --- owners of slots --- */

/* Send a command to node @i, on a new connection if the node was restarted. */
static redisReply *ask(struct temp_cluster *c, unsigned i, const char *command)
{
    redisReply *r = client_command(&c->client[i], command);
    if (r != NULL || !is_alive(c, i))
        return r;
    client_close(&c->client[i]);
    return client_open(&c->client[i], c->node[i].port, COMMAND_MS, NULL) == ERR_OK
               ? client_command(&c->client[i], command)
               : NULL;
}

static unsigned node_at(const struct temp_cluster *c, long long port)
{
    unsigned i = 0;
    while (i < c->count && c->node[i].port != port)
        i++;
    return i;
}

/* False: the node did not answer. */
static bool read_owners(struct temp_cluster *c, unsigned asked, uint8_t owner[TEMP_CLUSTER_SLOTS])
{
    redisReply *r = ask(c, asked, "CLUSTER SLOTS");
    bool read = r != NULL && r->type == REDIS_REPLY_ARRAY;
    c->own_asks += read;
    memset(owner, TEMP_CLUSTER_NODES_MAX, TEMP_CLUSTER_SLOTS);
    for (size_t i = 0; read && i < r->elements; i++) {
        const redisReply *range = r->element[i];
        unsigned at = node_at(c, range->element[2]->element[1]->integer);
        for (long long slot = range->element[0]->integer; slot <= range->element[1]->integer; slot++)
            owner[slot] = (uint8_t)at;
    }
    freeReplyObject(r);
    return read;
}

unsigned temp_cluster_owner(struct temp_cluster *c, unsigned asked, unsigned slot)
{
    static uint8_t owner[TEMP_CLUSTER_SLOTS];
    return read_owners(c, asked, owner) ? owner[slot] : TEMP_CLUSTER_NODES_MAX;
}

/* False: *@why says of which slot. */
static bool agree(struct temp_cluster *c, struct error *why)
{
    static uint8_t first[TEMP_CLUSTER_SLOTS], other[TEMP_CLUSTER_SLOTS];
    unsigned asked = c->count;
    for (unsigned i = 0; i < c->count; i++) {
        if (!is_alive(c, i))
            continue;
        if (!read_owners(c, i, asked < c->count ? other : first)) {
            (void)error_set(why, ERR_TIMEOUT, "node %u says nothing of its slots", i);
            return false;
        }
        for (unsigned slot = 0; asked < c->count && slot < TEMP_CLUSTER_SLOTS; slot++)
            if (first[slot] != other[slot]) {
                (void)error_set(why, ERR_TIMEOUT,
                                "slot %u is node %u's for node %u, and node %u's for node %u", slot,
                                first[slot], asked, other[slot], i);
                return false;
            }
        asked = asked < c->count ? asked : i;
    }
    for (unsigned slot = 0; slot < TEMP_CLUSTER_SLOTS; slot++)
        if (first[slot] >= c->count || !is_alive(c, first[slot])) {
            (void)error_set(why, ERR_TIMEOUT, "slot %u belongs to node %u, which is dead or unknown", slot,
                            first[slot]);
            return false;
        }
    return asked < c->count;
}

enum err temp_cluster_agree(struct temp_cluster *c, unsigned deadline_ms, struct error *e)
{
    struct error why = {""};
    uint64_t until = clock_mono_us() + deadline_ms * 1000ull;
    while (!agree(c, &why)) {
        if (clock_mono_us() > until)
            return error_set(e, ERR_TIMEOUT, "the nodes of the cluster do not agree: %s", why.text);
        clock_sleep_us(50000);
    }
    return ERR_OK;
}

enum err temp_cluster_failed_over(struct temp_cluster *c, unsigned dead, unsigned deadline_ms, unsigned *heir,
                                  struct error *e)
{
    uint64_t until = clock_mono_us() + deadline_ms * 1000ull;
    for (;;) {
        for (unsigned i = 0; i < c->count; i++)
            if (i != dead && i % c->masters == dead % c->masters && is_alive(c, i) &&
                info_has(c, i, "INFO replication", "role:master")) {
                *heir = i;
                return temp_cluster_agree(c, deadline_ms, e);
            }
        if (clock_mono_us() > until)
            return error_set(e, ERR_TIMEOUT, "no replica took the place of node %u", dead);
        clock_sleep_us(20000);
    }
}

unsigned temp_cluster_master(struct temp_cluster *c, unsigned pair)
{
    for (unsigned i = pair; i < c->count; i += c->masters)
        if (is_alive(c, i) && info_has(c, i, "INFO replication", "role:master"))
            return i;
    return TEMP_CLUSTER_NODES_MAX;
}

/* A node that comes back with keys of a slot that it has lost meanwhile opens that slot, as if it imported
 * it, and hears of no other owner of it again. An operator deletes them, as the owner has later ones. */
static enum err close_lost_slots(struct temp_cluster *c, unsigned i, struct error *e)
{
    redisReply *nodes = ask(c, i, "CLUSTER NODES");
    if (nodes == NULL || nodes->type != REDIS_REPLY_STRING) {
        freeReplyObject(nodes);
        return error_set(e, ERR_IO, "CLUSTER NODES failed");
    }
    enum err err = ERR_OK;
    for (char *at = nodes->str; err == ERR_OK && (at = strstr(at, "-<-")) != NULL; at++) {
        char *digits = at;
        while (digits > nodes->str && digits[-1] != '[')
            digits--;
        unsigned slot = (unsigned)strtoul(digits, NULL, 10);
        redisReply *names = client_command(&c->client[i], "CLUSTER GETKEYSINSLOT %u 10000", slot);
        for (size_t k = 0; names != NULL && k < names->elements; k++) {
            freeReplyObject(client_command(&c->client[i], "ASKING"));
            freeReplyObject(client_command(&c->client[i], "DEL %s", names->element[k]->str));
        }
        freeReplyObject(names);
        err = client_ok(&c->client[i], e, "CLUSTER SETSLOT %u STABLE", slot);
    }
    freeReplyObject(nodes);
    return err;
}

enum err temp_cluster_mend(struct temp_cluster *c, unsigned deadline_ms, struct error *e)
{
    enum err err = ERR_OK;
    uint64_t until = clock_mono_us() + deadline_ms * 1000ull;
    for (unsigned i = 0; i < c->count && err == ERR_OK; i++) {
        if (is_alive(c, i))
            continue;
        client_close(&c->client[i]);
        err = temp_redis_restart(&c->node[i], true, e);
        if (err == ERR_OK)
            err = client_open(&c->client[i], c->node[i].port, COMMAND_MS, e);
        if (err == ERR_OK)
            err = close_lost_slots(c, i, e);
    }
    if (err == ERR_OK)
        err = temp_cluster_agree(c, deadline_ms, e);
    for (unsigned pair = 0; pair < c->masters && err == ERR_OK; pair++) {
        unsigned master;
        while ((master = temp_cluster_master(c, pair)) == TEMP_CLUSTER_NODES_MAX ||
               !info_has(c, (master + c->masters) % c->count, "INFO replication", "master_link_status:up")) {
            if (clock_mono_us() > until)
                return error_set(e, ERR_TIMEOUT, "node %u has no replica in step", master);
            clock_sleep_us(20000);
        }
    }
    return err;
}

/* --- replicas --- */

static uint64_t replicated(struct temp_cluster *c, unsigned i, const char *field)
{
    redisReply *r = ask(c, i, "INFO replication");
    const char *at = r != NULL && r->type == REDIS_REPLY_STRING ? strstr(r->str, field) : NULL;
    uint64_t offset = at == NULL ? 0 : strtoull(at + strlen(field), NULL, 10);
    freeReplyObject(r);
    return offset;
}

/* WAIT is no alternative: it waits only for writes of its own connection. */
enum err temp_cluster_in_step(struct temp_cluster *c, unsigned i, unsigned deadline_ms, struct error *e)
{
    uint64_t written = replicated(c, i, "\nmaster_repl_offset:"),
             until = clock_mono_us() + deadline_ms * 1000ull;
    while (replicated(c, i, ",offset=") < written) {
        if (clock_mono_us() > until)
            return error_set(e, ERR_TIMEOUT, "node %u has no replica, or it lags", i);
        clock_sleep_us(20000);
    }
    return ERR_OK;
}

enum err temp_cluster_cut_off(struct temp_cluster *c, unsigned i, unsigned deadline_ms, struct error *e)
{
    int64_t killed = 0;
    enum err err = temp_cluster_in_step(c, i, deadline_ms, e);
    if (err == ERR_OK)
        err = client_ok(&c->client[i], e, "ACL SETUSER default -psync -sync");
    if (err == ERR_OK)
        err = client_integer(&c->client[i], &killed, e, "CLIENT KILL TYPE replica");
    return err == ERR_OK && killed == 0 ? error_set(e, ERR_CONFLICT, "node %u has no replica", i) : err;
}

/* --- moving slots --- */

enum err temp_cluster_open(struct temp_cluster *c, unsigned slot, unsigned from, unsigned to, struct error *e)
{
    enum err err = client_ok(&c->client[to], e, "CLUSTER SETSLOT %u IMPORTING %s", slot, c->id[from]);
    return err == ERR_OK ? client_ok(&c->client[from], e, "CLUSTER SETSLOT %u MIGRATING %s", slot, c->id[to])
                         : err;
}

enum err temp_cluster_migrate(struct temp_cluster *c, unsigned slot, unsigned from, unsigned to,
                              unsigned keys, unsigned *moved, struct error *e)
{
    enum { MOST = 64 };
    char port[8], timeout[8];
    (void)snprintf(port, sizeof(port), "%u", c->node[to].port);
    (void)snprintf(timeout, sizeof(timeout), "%d", MIGRATE_MS);
    *moved = 0;
    redisReply *names =
        client_command(&c->client[from], "CLUSTER GETKEYSINSLOT %u %u", slot, keys < MOST ? keys : MOST);
    if (names == NULL || names->type != REDIS_REPLY_ARRAY) {
        freeReplyObject(names);
        return error_set(e, ERR_IO, "CLUSTER GETKEYSINSLOT failed");
    }
    const char *argv[7 + MOST] = {"MIGRATE", "127.0.0.1", port, "", "0", timeout, "KEYS"};
    size_t lengths[7 + MOST];
    for (size_t i = 0; i < 7; i++)
        lengths[i] = strlen(argv[i]);
    for (size_t i = 0; i < names->elements; i++) {
        argv[7 + i] = names->element[i]->str;
        lengths[7 + i] = (size_t)names->element[i]->len;
    }
    enum err err = ERR_OK;
    redisReply *r =
        names->elements == 0 ? NULL : client_argv(&c->client[from], 7 + names->elements, argv, lengths);
    if (names->elements > 0 && (r == NULL || r->type != REDIS_REPLY_STATUS))
        err = error_set(e, ERR_REFUSED, "MIGRATE of slot %u: %s", slot, r != NULL ? r->str : "no reply");
    else
        *moved = (unsigned)names->elements;
    freeReplyObject(r);
    freeReplyObject(names);
    return err;
}

enum err temp_cluster_close(struct temp_cluster *c, unsigned slot, unsigned from, unsigned to,
                            struct error *e)
{
    enum err err = client_ok(&c->client[to], e, "CLUSTER SETSLOT %u NODE %s", slot, c->id[to]);
    return err == ERR_OK ? client_ok(&c->client[from], e, "CLUSTER SETSLOT %u NODE %s", slot, c->id[to])
                         : err;
}

enum err temp_cluster_move(struct temp_cluster *c, unsigned first, unsigned count, unsigned from, unsigned to,
                           unsigned pause_us, struct error *e)
{
    for (unsigned slot = first; slot < first + count; slot++) {
        unsigned moved = 1;
        enum err err = temp_cluster_open(c, slot, from, to, e);
        while (err == ERR_OK && moved > 0) {
            err = temp_cluster_migrate(c, slot, from, to, 1, &moved, e);
            if (moved > 0 && pause_us > 0)
                clock_sleep_us(pause_us);
        }
        if (err == ERR_OK)
            err = temp_cluster_close(c, slot, from, to, e);
        if (err != ERR_OK)
            return error_prefix(e, err, "moving slot %u", slot);
    }
    return ERR_OK;
}

/* --- counting --- */

static uint64_t count_of(const char *stats, const char *name)
{
    const char *at = strstr(stats, name);
    return at == NULL ? 0 : strtoull(at + strlen(name), NULL, 10);
}

void temp_cluster_reset_counts(struct temp_cluster *c)
{
    for (unsigned i = 0; i < c->count; i++)
        if (is_alive(c, i))
            freeReplyObject(ask(c, i, "CONFIG RESETSTAT"));
    c->own_asks = 0;
}

/* Add two counts in a section of INFO, over all running nodes. */
static uint64_t sum_of(struct temp_cluster *c, const char *section, const char *one, const char *other)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < c->count; i++) {
        redisReply *r = is_alive(c, i) ? ask(c, i, section) : NULL;
        if (r != NULL && r->type == REDIS_REPLY_STRING)
            sum += count_of(r->str, one) + count_of(r->str, other);
        freeReplyObject(r);
    }
    return sum;
}

uint64_t temp_cluster_maps_asked(struct temp_cluster *c)
{
    /* Redis 6 does not count subcommands apart. */
    const char *slots = temp_redis_is_before_7() ? "cmdstat_cluster:calls=" : "cmdstat_cluster|slots:calls=";
    uint64_t sum = sum_of(c, "INFO commandstats", slots, "cmdstat_cluster|shards:calls=");
    return sum > c->own_asks ? sum - c->own_asks : 0;
}

uint64_t temp_cluster_redirections(struct temp_cluster *c)
{
    return sum_of(c, "INFO errorstats", "errorstat_MOVED:count=", "errorstat_ASK:count=");
}
