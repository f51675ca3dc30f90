/* SPDX-License-Identifier: MIT */
/* Data are deleted, or move to another server, while Redis itself goes on. */
#include "tests/fault/log/inject.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "shard/view/log_view.h"

enum {
    BACK_US = 5000 * 1000, /* the time for a shard to come back from memory */
    LOOK_US = 5000,
    LAST = 2 /* of three servers: it holds only shards */
};

/* --- keys --- */

/* Pick a matching key on any server, *@server. "": there is no such key. */
static void any_key(struct log_world *w, const char *pattern, char *out, size_t size, unsigned *server)
{
    struct client *c;
    uint64_t met = 0;
    *out = '\0';
    for (unsigned i = 0; (c = fault_servers_each(&w->servers, i)) != NULL; i++) {
        redisReply *r = client_command(c, "KEYS %s", pattern);
        for (size_t k = 0; r != NULL && r->type == REDIS_REPLY_ARRAY && k < r->elements; k++)
            if (log_world_draw(w, ++met) == 0) {
                (void)snprintf(out, size, "%s", r->element[k]->str);
                *server = i;
            }
        freeReplyObject(r);
    }
}

/* The integer that @command replies; -1: the reply is no integer. @key, if given, is the last of up to three
 * words. */
static long long integer(struct client *c, const char *command, const char *key)
{
    char text[320];
    (void)snprintf(text, sizeof(text), "%s %s", command, key == NULL ? "" : key);
    redisReply *r = client_command(c, text);
    long long n = r != NULL && r->type == REDIS_REPLY_INTEGER ? r->integer : -1;
    freeReplyObject(r);
    return n;
}

/* Wait until @command gives @wanted. */
static bool comes_to(struct client *c, const char *command, const char *key, long long wanted)
{
    uint64_t until = clock_mono_us() + BACK_US;
    long long n;
    while ((n = integer(c, command, key)) != wanted && clock_mono_us() < until)
        clock_sleep_us(LOOK_US);
    if (n != wanted)
        (void)fprintf(stderr, "%s %s gives %lld, not %lld, %d s after the loss\n", command,
                      key == NULL ? "" : key, n, wanted, BACK_US / 1000000);
    return n == wanted;
}

bool inject_delete_lane(struct log_world *w)
{
    char key[256];
    unsigned server;
    any_key(w, "*.log*", key, sizeof(key), &server);
    bool ok = *key != '\0' && integer(fault_servers_each(&w->servers, server), "DEL", key) >= 0;
    clock_sleep_us(700 * 1000);
    return ok;
}

/* Delete a shard that a process has in memory. */
bool inject_delete_shard(struct log_world *w)
{
    char key[256];
    unsigned server;
    any_key(w, "tb:{f.*.*.*}:*", key, sizeof(key), &server);
    struct client *c = *key == '\0' ? NULL : fault_servers_each(&w->servers, server);
    if (w->kind->builds) { /* the shard's generation may be retired meanwhile */
        bool ok = c == NULL || integer(c, "DEL", key) >= 0;
        clock_sleep_us(500 * 1000);
        return ok;
    }
    return c != NULL && integer(c, "DEL", key) == 1 && comes_to(c, "EXISTS", key, 1);
}

/* Counts the keys of filters on a server. A registry's key does not match. */
static const char shards_there[] = "EVAL return(#redis.call('KEYS','*:{*')) 0";

/* The shards of each layer lie on the servers in turn. No layer is added or built meanwhile. */
bool inject_shards_come_back(struct log_world *w)
{
    const struct log_view *v = log_world_view(w);
    long long shards = 0;
    for (unsigned l = 0; v != NULL && l < v->slot[v->current].shape.layer_count; l++)
        shards += (v->slot[v->current].shape.layers[l].geometry.shards + FAULT_SERVERS_MAX - 1 - LAST) /
                  FAULT_SERVERS_MAX;
    return shards > 0 && comes_to(fault_servers_each(&w->servers, LAST), shards_there, NULL, shards);
}

bool inject_flush_shards(struct log_world *w)
{
    struct client *c = fault_servers_each(&w->servers, LAST);
    struct error e = {""};
    long long had = integer(c, shards_there, NULL);
    return had > 0 && client_ok(c, &e, "FLUSHALL") == ERR_OK && comes_to(c, shards_there, NULL, had);
}

/* --- the view --- */

bool inject_delete_view(struct log_world *w)
{
    long long n = integer(fault_servers_each(&w->servers, 0), "DEL", "tb:{f}:view");
    clock_sleep_us(500 * 1000);
    return n >= 0;
}

/* Remove one field of the view for some time, in which a new process reads the view for the first time. The
 * version is not removed: without it the data look older than they are, so that the filter is degraded. */
bool inject_delete_field(struct log_world *w)
{
    struct client *c = fault_servers_each(&w->servers, 0);
    redisReply *all = client_command(c, "HGETALL tb:{f}:view");
    bool ok = all != NULL && all->type == REDIS_REPLY_ARRAY && all->elements >= 2;
    if (ok) {
        size_t i = 2 * log_world_draw(w, all->elements / 2);
        const redisReply *name = all->element[i], *value = all->element[i + 1];
        unsigned comes = (unsigned)log_world_draw(w, WORKERS);
        ledger_note(w->ledger, "%s is away", name->str);
        log_world_kill_worker(w, comes);
        if (strcmp(name->str, "version") != 0)
            freeReplyObject(client_command(c, "HDEL tb:{f}:view %b", name->str, name->len));
        ok = log_world_start_worker(w, comes);
        clock_sleep_us(200 * 1000);
        freeReplyObject(
            client_command(c, "HSETNX tb:{f}:view %b %b", name->str, name->len, value->str, value->len));
    }
    freeReplyObject(all);
    return ok;
}

/* --- slots --- */

/* Move the slot of a lane, or of a shard, to another master. */
bool inject_move_slot(struct log_world *w)
{
    char key[256];
    unsigned server;
    struct error e = {""};
    any_key(w, log_world_draw(w, 2) == 0 ? "*.log*" : "tb:{f.*.*.*}:*", key, sizeof(key), &server);
    if (*key == '\0')
        return true; /* the lane is being replaced */
    long long slot = integer(fault_servers_each(&w->servers, 0), "CLUSTER KEYSLOT", key);
    unsigned from = temp_cluster_owner(&w->servers.cluster, 0, (unsigned)slot);
    bool ok = slot >= 0 && from < FAULT_SERVERS_MAX &&
              temp_cluster_move(&w->servers.cluster, (unsigned)slot, 1, from, (from + 1) % FAULT_SERVERS_MAX,
                                20000, &e) == ERR_OK;
    if (!ok)
        (void)fprintf(stderr, "slot %lld does not move: %s\n", slot, e.text);
    clock_sleep_us(300 * 1000);
    return ok;
}
