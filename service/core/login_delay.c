/* SPDX-License-Identifier: MIT */
#include "service/core/login_delay.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include <xxhash.h>

struct login_who login_delay_who(const struct login_delay *d, const char *address, const char *name,
                                 size_t name_length)
{
    /* An IPv6 address counts as its /64 network, because one client may own all 2^64 addresses of that. */
    char plain[INET6_ADDRSTRLEN];
    struct in6_addr v6;
    (void)snprintf(plain, sizeof(plain), "%.*s", (int)strcspn(address, "%"), address); /* without a scope */
    bool network =
        inet_pton(AF_INET6, plain, &v6) == 1 && !IN6_IS_ADDR_V4MAPPED(&v6) && !IN6_IS_ADDR_LOOPBACK(&v6);
    uint64_t hash = network ? XXH3_64bits_withSeed(&v6, 8, d->seed)
                            : XXH3_64bits_withSeed(address, strlen(address), d->seed);
    return (struct login_who){.address = hash != 0 ? hash : 1,
                              .name = XXH3_64bits_withSeed(name, name_length, d->seed) % LOGIN_NAMES};
}

bool login_who_is(struct login_who a, struct login_who b)
{
    return a.address == b.address && a.name == b.name;
}

static const struct login_source *find(const struct login_delay *d, struct login_who who)
{
    const struct login_source *set = d->source[who.address % LOGIN_SETS];
    for (size_t i = 0; i < LOGIN_WAYS; i++)
        if (set[i].address == who.address)
            return &set[i];
    return NULL;
}

/* Find the entry of @who, or replace the entry that was used least recently. */
static struct login_source *find_or_add(struct login_delay *d, struct login_who who)
{
    struct login_source *set = d->source[who.address % LOGIN_SETS], *oldest = set;
    for (size_t i = 0; i < LOGIN_WAYS; i++) {
        if (set[i].address == who.address)
            return &set[i];
        if (set[i].used < oldest->used)
            oldest = &set[i];
    }
    *oldest = (struct login_source){.address = who.address};
    return oldest;
}

static uint32_t failures(const struct login_failures *f, uint64_t now_us)
{
    return now_us - f->last_us < LOGIN_FORGET_S * 1000000ull ? f->count : 0;
}

uint64_t login_delay_until_us(const struct login_delay *d, struct login_who who, uint64_t now_us)
{
    const struct login_source *s = find(d, who);
    uint32_t count = s != NULL ? failures(&s->name[who.name], now_us) : 0;
    if (count <= LOGIN_FREE_FAILURES)
        return 0;
    uint32_t doubled = count - LOGIN_FREE_FAILURES - 1;
    uint64_t ms = doubled < 16 ? (uint64_t)LOGIN_DELAY_MS << doubled : LOGIN_DELAY_MS_MAX;
    ms = ms < LOGIN_DELAY_MS_MAX ? ms : LOGIN_DELAY_MS_MAX;
    return s->name[who.name].last_us + ms * 1000;
}

void login_delay_failed(struct login_delay *d, struct login_who who, uint64_t now_us)
{
    struct login_source *s = find_or_add(d, who);
    struct login_failures *f = &s->name[who.name];
    uint32_t count = failures(f, now_us);
    *f = (struct login_failures){.last_us = now_us, .count = count < UINT32_MAX ? count + 1 : count};
    s->used = ++d->turns;
}

uint64_t login_delay_turn(const struct login_delay *d, struct login_who who)
{
    const struct login_source *s = find(d, who);
    return s != NULL ? s->used : 0;
}

void login_delay_serve(struct login_delay *d, struct login_who who)
{
    find_or_add(d, who)->used = ++d->turns;
}
