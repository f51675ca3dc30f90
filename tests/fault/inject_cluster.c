/* SPDX-License-Identifier: MIT */
/* Faults of a Redis Cluster: masters fail over, slots move. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tests/fault/fault.h"
#include "tests/fault/inject_kinds.h"
#include "tests/fault/journal.h"

enum { MEND_MS = 30000, CUT_OFF_MS = 2000, TAKE_OVER_MS = 5000, SLOT_MS = 30000, RETRY_US = 50000 };

/* --- failover --- */

static unsigned node_number(const struct injection *i)
{
    return (unsigned)(i->node - i->world->cluster.node);
}

bool failover_begin(struct injection *i)
{
    temp_redis_kill(i->node);
    return true;
}

/* The replica lacks the writes of up to half a second. */
bool failover_lagging_begin(struct injection *i)
{
    struct error e = {""};
    if (temp_cluster_cut_off(&i->world->cluster, node_number(i), CUT_OFF_MS, &e) == ERR_OK)
        clock_sleep_us(fault_between(&i->state, 1000, 500000));
    temp_redis_kill(i->node);
    return true;
}

bool failover_manual_begin(struct injection *i)
{
    struct temp_cluster *c = &i->world->cluster;
    struct error e = {""};
    unsigned replica = (node_number(i) + c->masters) % c->count, heir = 0;
    return client_ok(&c->client[replica], &e, "CLUSTER FAILOVER") == ERR_OK &&
           temp_cluster_failed_over(c, node_number(i), TAKE_OVER_MS, &heir, &e) == ERR_OK;
}

/* The replica lacks the writes of up to half a second, and does not ask the other masters. The former master
 * lives on, and gives way when it hears of it. */
bool failover_takeover_begin(struct injection *i)
{
    struct temp_cluster *c = &i->world->cluster;
    struct error e = {""};
    unsigned replica = (node_number(i) + c->masters) % c->count, heir = 0;
    if (temp_cluster_cut_off(c, node_number(i), CUT_OFF_MS, &e) == ERR_OK)
        clock_sleep_us(fault_between(&i->state, 1000, 500000));
    bool done = client_ok(&c->client[replica], &e, "CLUSTER FAILOVER TAKEOVER") == ERR_OK &&
                temp_cluster_failed_over(c, node_number(i), TAKE_OVER_MS, &heir, &e) == ERR_OK;
    (void)!client_ok(&c->client[node_number(i)], &e, "ACL SETUSER default +psync +sync");
    return done;
}

void failover_end(struct injection *i)
{
    struct error e = {""};
    must_start(temp_cluster_mend(&i->world->cluster, MEND_MS, &e), "a cluster", &e);
}

/* --- slots --- */

/* Begin to move a slot that holds a key of ours; up to three of its keys move now. */
bool slot_moved_begin(struct injection *i)
{
    struct temp_cluster *c = &i->world->cluster;
    struct error e = {""};
    int64_t slot = 0;
    unsigned moved = 0, from = node_number(i);
    unsigned taker = (i->target + (unsigned)fault_between(&i->state, 1, c->masters - 1)) % c->masters;
    char key[sizeof(i->detail)];
    i->to = temp_cluster_master(c, taker);
    if (i->to >= c->count || !pick_key(i, "twinbloom:*", key, sizeof(key)) ||
        client_integer(&c->client[from], &slot, &e, "CLUSTER KEYSLOT %s", key) != ERR_OK)
        return false;
    i->slot = (unsigned)slot;
    (void)snprintf(i->detail, sizeof(i->detail), "slot %u to pair %u, with %.100s", i->slot, taker, key);
    if (temp_cluster_open(c, i->slot, from, i->to, &e) != ERR_OK)
        return false;
    unsigned some = (unsigned)fault_between(&i->state, 0, 3);
    if (some > 0 && temp_cluster_migrate(c, i->slot, from, i->to, some, &moved, &e) != ERR_OK)
        journal_note("slot %u: %s", i->slot, e.text); /* slot_moved_end() moves the rest */
    return true;
}

/* MIGRATE may time out on a busy machine, so the whole step is repeated. */
void slot_moved_end(struct injection *i)
{
    struct temp_cluster *c = &i->world->cluster;
    struct error e = {""};
    unsigned from = node_number(i);
    uint64_t until = clock_mono_us() + SLOT_MS * 1000ull;
    enum err err;
    while ((err = temp_cluster_move(c, i->slot, 1, from, i->to, 0, &e)) != ERR_OK && clock_mono_us() < until)
        clock_sleep_us(RETRY_US);
    if (err == ERR_OK)
        err = temp_cluster_agree(c, MEND_MS, &e);
    must_start(err, "a slot", &e);
}
