/* SPDX-License-Identifier: MIT */
#include "tests/fault/log/swap.h"

#include <stdio.h>
#include "base/clock.h"

enum { REPLY_MS = 5000, PASSED_US = 500 };

static const char *const extra[] = {"--maxmemory", "256mb", NULL};

/* All keys: name, when it expires (0: never), value. */
static const char copy_all[] =
    "local all, time = {}, redis.call('TIME') "
    "for _, key in ipairs(redis.call('KEYS', '*')) do "
    "local ttl, value = redis.call('PTTL', key), redis.call('DUMP', key) "
    "local at = ttl < 0 and 0 or time[1] * 1000 + math.floor(time[2] / 1000) + ttl "
    "if value then all[#all + 1] = key all[#all + 1] = string.format('%.0f', at) all[#all + 1] = value end "
    "end return all";

static bool said(enum err code, const struct error *e)
{
    if (code != ERR_OK)
        (void)fprintf(stderr, "  %s\n", e->text);
    return code == ERR_OK;
}

static enum err enter(struct swap_node *n, unsigned i, struct error *e)
{
    enum err code = client_open(&n->client[i], n->redis[i].port, REPLY_MS, e);
    if (code == ERR_OK)
        code = client_ok(&n->client[i], e, "ACL SETUSER a on nopass ~* &* +@all");
    if (code == ERR_OK)
        code = client_ok(&n->client[i], e, "ACL SETUSER b on nopass ~* &* +@all");
    return code;
}

enum err swap_start(struct swap_node *n, struct proxy *p, struct error *e)
{
    enum err code = ERR_OK;
    n->proxy = p;
    for (unsigned i = 0; i < 2 && code == ERR_OK; i++) {
        code = temp_redis_start(&n->redis[i], extra, e);
        if (code == ERR_OK)
            code = enter(n, i, e);
    }
    return code == ERR_OK ? proxy_add(p, WIRE_REDIS, n->redis[0].port, &n->route, &n->port, e) : code;
}

void swap_fini(struct swap_node *n)
{
    swap_forget(n);
    for (unsigned i = 0; i < 2; i++) {
        client_close(&n->client[i]);
        temp_redis_fini(&n->redis[i]);
    }
}

struct client *swap_client(struct swap_node *n)
{
    return &n->client[n->at];
}

bool swap_prepare(struct swap_node *n)
{
    struct error e = {""};
    unsigned other = n->at ^ 1;
    client_close(&n->client[other]);
    temp_redis_kill(&n->redis[other]);
    enum err code = temp_redis_restart(&n->redis[other], false, &e);
    return said(code == ERR_OK ? enter(n, other, &e) : code, &e);
}

void swap_forget(struct swap_node *n)
{
    freeReplyObject(n->copy);
    n->copy = NULL;
}

bool swap_copy(struct swap_node *n)
{
    swap_forget(n);
    n->copy = client_command(swap_client(n), "EVAL %s 0", copy_all);
    bool ok = n->copy != NULL && n->copy->type == REDIS_REPLY_ARRAY && n->copy->elements % 3 == 0;
    if (!ok)
        (void)fprintf(stderr, "  no copy: %s\n",
                      n->copy != NULL && n->copy->str != NULL ? n->copy->str : "no reply");
    return ok;
}

/* A key that has expired since is not there, as after a restart. */
static bool restore(struct client *c, const redisReply *copy)
{
    bool ok = true;
    for (size_t i = 0; i < copy->elements; i += 3) {
        const redisReply *const *r = (const redisReply *const *)copy->element + i;
        ok &= redisAppendCommand(c->redis, "RESTORE %b %s %b ABSTTL", r[0]->str, r[0]->len, r[1]->str,
                                 r[2]->str, r[2]->len) == REDIS_OK;
    }
    for (size_t i = 0; i < copy->elements && ok; i += 3) {
        redisReply *r = NULL;
        ok = redisGetReply(c->redis, (void **)&r) == REDIS_OK && r->type == REDIS_REPLY_STATUS;
        if (!ok)
            (void)fprintf(stderr, "  RESTORE: %s\n", r != NULL && r->str != NULL ? r->str : c->redis->errstr);
        freeReplyObject(r);
    }
    return ok;
}

void swap_hush(struct swap_node *n)
{
    proxy_set(n->proxy, n->route, &(struct proxy_fault){.swallow = true});
    clock_sleep_us(PASSED_US);
    freeReplyObject(client_command(swap_client(n), "PING"));
}

static void lead_to(struct swap_node *n, uint16_t port)
{
    proxy_aim(n->proxy, n->route, port);
    proxy_set(n->proxy, n->route, &(struct proxy_fault){0});
}

bool swap_over(struct swap_node *n)
{
    bool ok = n->copy == NULL || restore(&n->client[n->at ^ 1], n->copy);
    n->at ^= 1;
    lead_to(n, n->redis[n->at].port);
    return ok;
}

void swap_astray(struct swap_node *n, const struct swap_node *other)
{
    n->astray = true;
    lead_to(n, other->redis[other->at].port);
}

void swap_back(struct swap_node *n)
{
    n->at ^= !n->astray;
    n->astray = false;
    lead_to(n, n->redis[n->at].port);
}
