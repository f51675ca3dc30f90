/* SPDX-License-Identifier: MIT */
#include "tests/fault/ledger.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fault/journal.h"
#include "tests/fault/world.h"

enum { BATCH = 400, REPORTED = 5 };

struct entry {
    atomic_uint_fast64_t at; /* when the key was acknowledged, by journal_now(); 0: never */
    uint8_t coordinator, order;
};

struct ledger {
    struct entry *entries;
    uint64_t size;
    atomic_uint_fast64_t next, first, acknowledged, checked, absent;
};

struct ledger *ledger_new(uint64_t keys_max)
{
    struct ledger *l = calloc(1, sizeof(*l));
    if (l == NULL || (l->entries = calloc(keys_max, sizeof(*l->entries))) == NULL)
        abort();
    l->size = keys_max;
    return l;
}

void ledger_free(struct ledger *l)
{
    if (l != NULL)
        free(l->entries);
    free(l);
}

size_t ledger_key(uint64_t number, char out[CLIENT_KEY_MAX])
{
    return (size_t)snprintf(out, CLIENT_KEY_MAX, "k%" PRIu64, number);
}

uint64_t ledger_take(struct ledger *l)
{
    uint64_t n = atomic_load(&l->next);
    while (n < l->size && !atomic_compare_exchange_weak(&l->next, &n, n + 1))
        continue;
    return n < l->size ? n : UINT64_MAX;
}

void ledger_acknowledge(struct ledger *l, uint64_t number, unsigned coordinator, enum ledger_order order)
{
    struct entry *e = &l->entries[number];
    e->coordinator = (uint8_t)coordinator;
    e->order = (uint8_t)order;
    atomic_store(&e->at, journal_now() + 1);
    atomic_fetch_add(&l->acknowledged, 1);
}

void ledger_forget_below(struct ledger *l, uint64_t number)
{
    atomic_store(&l->first, number);
}

void ledger_withdraw(struct ledger *l, uint64_t number)
{
    atomic_store(&l->entries[number].at, 0);
}

uint64_t ledger_first(const struct ledger *l)
{
    return atomic_load(&l->first);
}

uint64_t ledger_end(const struct ledger *l)
{
    return atomic_load(&l->next);
}

bool ledger_is_promised(const struct ledger *l, uint64_t number)
{
    return number >= ledger_first(l) && number < ledger_end(l) && atomic_load(&l->entries[number].at) != 0;
}

uint64_t ledger_acknowledged(const struct ledger *l)
{
    return atomic_load(&l->acknowledged);
}

uint64_t ledger_checked(const struct ledger *l)
{
    return atomic_load(&l->checked);
}

uint64_t ledger_absent(const struct ledger *l)
{
    return atomic_load(&l->absent);
}

static void report(const struct ledger *l, uint64_t number, struct client *client, unsigned coordinator)
{
    const struct entry *e = &l->entries[number];
    char key[CLIENT_KEY_MAX];
    char status[WORLD_STATUS_MAX];
    uint64_t at = atomic_load(&e->at);
    (void)ledger_key(number, key);
    world_status(client, status);
    (void)fprintf(stderr,
                  "LOST: key %s, acknowledged at %.3f s by coordinator %u (%s), reported absent at %.3f s by "
                  "coordinator %u\n  status: %s\n  what was done since, and just before:\n",
                  key, (double)at / 1e6, e->coordinator,
                  e->order == LEDGER_ADD_THEN_COMMIT ? "BF.ADD, then COMMIT" : "COMMIT, then BF.ADD",
                  (double)journal_now() / 1e6, coordinator, status);
    journal_print(stderr, at);
}

static void note_absent(struct ledger *l, uint64_t number, struct client *client, unsigned coordinator)
{
    if (!ledger_is_promised(l, number))
        return; /* the row was deleted during the request */
    if (atomic_fetch_add(&l->absent, 1) < REPORTED)
        report(l, number, client, coordinator);
}

bool ledger_check(struct ledger *l, struct client *client, unsigned coordinator, const uint64_t *numbers,
                  size_t count)
{
    char keys[BATCH][CLIENT_KEY_MAX];
    const char *argv[BATCH + 2] = {"BF.MEXISTS", WORLD_FILTER};
    size_t lengths[BATCH + 2] = {10, strlen(WORLD_FILTER)};
    bool answered = true;
    if (count > BATCH)
        abort();
    for (size_t i = 0; i < count; i++) {
        lengths[i + 2] = ledger_key(numbers[i], keys[i]);
        argv[i + 2] = keys[i];
    }
    redisReply *r = client_argv(client, count + 2, argv, lengths);
    if (r == NULL || r->type != REDIS_REPLY_ARRAY || r->elements != count)
        answered = false;
    for (size_t i = 0; answered && i < count; i++) {
        bool integer = r->element[i]->type == REDIS_REPLY_INTEGER;
        atomic_fetch_add(&l->checked, integer);
        if (integer && r->element[i]->integer == 0)
            note_absent(l, numbers[i], client, coordinator);
        else if (!integer)
            answered = false;
    }
    freeReplyObject(r);
    return answered;
}

bool ledger_check_all(struct ledger *l, struct client *client, unsigned coordinator)
{
    uint64_t numbers[BATCH];
    size_t count = 0;
    bool answered = true;
    uint64_t end = ledger_end(l);
    for (uint64_t n = ledger_first(l); answered && n < end; n++) {
        if (ledger_is_promised(l, n))
            numbers[count++] = n;
        if (count == BATCH || (count > 0 && n + 1 == end)) {
            answered = ledger_check(l, client, coordinator, numbers, count);
            count = 0;
        }
    }
    return answered;
}
