/* SPDX-License-Identifier: MIT */
/* Reads blocks of shards that are not in memory, from two real servers, with `resident_memory` = 0. A block
 * that was read answers as a shard in memory would. A block that is missing, damaged, or sent by a server
 * that does not count never answers. */
#include "tests/integration/pinning.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "shard/redis/wire/replication.h"
#include "tests/lib/proxy.h"
#include "tests/lib/temp_redis.h"

enum { NODES = 2, REPLY_MS = 5000, ABSENT = 1 << 20 /* keys from here on are in no shard */ };

static struct temp_redis redis[NODES];
static struct client client[NODES];
static struct proxy *proxy;
static unsigned route[NODES];
static struct nodes direct, nodes; /* @nodes lead through the proxy */
static struct pinning p;

static int start(void **state)
{
    struct error e = {""};
    char list[NODES][64], text[256];
    uint16_t port;
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    must(proxy_start(&proxy, &e), e);
    for (int i = 0; i < NODES; i++) {
        must(temp_redis_start(&redis[i], NULL, &e), e);
        must(client_open(&client[i], redis[i].port, REPLY_MS, &e), e);
        must(proxy_add(proxy, WIRE_REDIS, redis[i].port, &route[i], &port, &e), e);
        (void)snprintf(list[i], sizeof(list[i]), "redis://127.0.0.1:%u", port);
    }
    (void)snprintf(text, sizeof(text), "%s, %s", redis[0].url, redis[1].url);
    must(nodes_parse(&direct, text, &e), e);
    (void)snprintf(text, sizeof(text), "%s, %s", list[0], list[1]);
    must(nodes_parse(&nodes, text, &e), e);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    proxy_stop(proxy);
    for (int i = 0; i < NODES; i++) {
        client_close(&client[i]);
        temp_redis_fini(&redis[i]);
    }
    return 0;
}

static void accept_eras(void)
{
    p.eras.count = NODES;
    for (unsigned i = 0; i < NODES; i++)
        p.eras.id[i] = lanes_era(&client[i]);
}

static int set_up(void **state)
{
    (void)state;
    pinning_open(&p, &direct, &nodes);
    accept_eras();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    proxy_lift(proxy);
    pinning_close(&p);
    return 0;
}

static uint64_t calls_of(const char *command)
{
    char line[64];
    uint64_t calls = 0;
    (void)snprintf(line, sizeof(line), "cmdstat_%s:calls=", command);
    for (unsigned i = 0; i < NODES; i++) {
        redisReply *r = client_command(&client[i], "INFO commandstats");
        const char *at = strstr(r->str, line);
        calls += at == NULL ? 0 : strtoull(at + strlen(line), NULL, 10);
        freeReplyObject(r);
    }
    return calls;
}

static void reset_calls(void)
{
    struct error e = {""};
    for (unsigned i = 0; i < NODES; i++)
        must(client_ok(&client[i], &e, "CONFIG RESETSTAT"), e);
}

static void nothing_passes(unsigned from)
{
    for (unsigned i = from; i < NODES; i++)
        proxy_set(proxy, route[i], &(struct proxy_fault){.swallow = true});
}

static void reads(struct pinning_request *q, uint64_t first, unsigned count)
{
    pinning_begin(q, &p, first, count);
    pinning_ends(q, ERR_OK, "");
}

/* All of these keys must have the answer @wanted. */
static void answers_as(const struct pinning_request *q, enum resident_answer wanted)
{
    uint8_t answers[PINNING_MANY];
    pinning_look(q, answers);
    for (unsigned i = 0; i < q->count; i++)
        assert_int_equal(answers[i], wanted);
}

/* --- reading --- */

static void test_keys_of_all_shards__are_answered_while_their_blocks_are_pinned(void **state)
{
    struct pinning_request present, absent;
    (void)state;
    reads(&present, 0, PINNING_MANY);
    reads(&absent, ABSENT, PINNING_MANY);
    answers_as(&present, RESIDENT_PRESENT);
    answers_as(&absent, RESIDENT_ABSENT);
    assert_int_equal(p.budget.used, 0);
    pinning_end(&present);
    answers_as(&absent, RESIDENT_ABSENT);
    pinning_end(&absent);
    answers_as(&absent, RESIDENT_UNKNOWN);
}

static void test_an_add__is_told_what_is_new(void **state)
{
    struct pinning_request q;
    uint8_t added[PINNING_MANY];
    (void)state;
    reads(&q, PINNING_KEYS - 10, 30);
    must(resident_apply(p.r, 0, (struct log_id){1, 0}, q.hashes, q.count, added, NULL), (struct error){""});
    for (unsigned i = 0; i < q.count; i++)
        assert_int_equal(added[i], i < 10 ? RESIDENT_OLD : RESIDENT_NEW);
    must(resident_apply(p.r, 0, (struct log_id){2, 0}, q.hashes, q.count, added, NULL), (struct error){""});
    for (unsigned i = 0; i < q.count; i++)
        assert_int_equal(added[i], RESIDENT_OLD);
    answers_as(&q, RESIDENT_PRESENT);
    pinning_end(&q);
    reads(&q, PINNING_KEYS, 20); /* answered by the overlay */
    answers_as(&q, RESIDENT_PRESENT);
    pinning_end(&q);
}

static void test_a_header__is_read_once_a_view_and_a_block_once_for_all_holders(void **state)
{
    struct pinning_request first, second, other;
    (void)state;
    reset_calls();
    reads(&first, ABSENT, 1);
    assert_int_equal(calls_of("getrange"), 4); /* one for each of two layers */
    reads(&second, ABSENT, 1);
    assert_int_equal(calls_of("getrange"), 4);
    pinning_end(&first);
    answers_as(&second, RESIDENT_ABSENT);
    pinning_end(&second);
    reads(&first, ABSENT, 1);
    assert_int_equal(calls_of("getrange"), 6);
    pinning_end(&first);
    reads(&other, ABSENT, PINNING_MANY);
    pinning_end(&other);
    reset_calls();
    uint64_t blocks = 0;
    for (unsigned layer = 0; layer < 2; layer++)
        for (unsigned i = 0; i < PINNING_MANY; i++) {
            struct key_place a = pinning_place(layer, ABSENT + i);
            bool met = false;
            for (unsigned k = 0; k < i && !met; k++) {
                struct key_place b = pinning_place(layer, ABSENT + k);
                met = a.shard == b.shard && a.block == b.block;
            }
            blocks += !met;
        }
    reads(&other, ABSENT, PINNING_MANY);
    pinning_end(&other);
    assert_int_equal(calls_of("getrange"), blocks);
    resident_discard(p.r);
    p.source.view = resident_view(p.r);
    reset_calls();
    reads(&other, ABSENT, PINNING_MANY);
    assert_int_equal(calls_of("getrange"), blocks + 6 + 2);
    pinning_end(&other);
}

/* One write to each node requests headers and blocks of all layers and shards, followed by one INFO. */
static void test_blocks_of_all_layers__are_read_in_one_round_trip(void **state)
{
    struct pinning_request q;
    (void)state;
    reads(&q, ABSENT, PINNING_MANY); /* until connected */
    pinning_end(&q);
    resident_discard(p.r);
    p.source.view = resident_view(p.r);
    reset_calls();
    reads(&q, ABSENT, PINNING_MANY);
    assert_int_equal(calls_of("info"), NODES);
    assert_true(calls_of("getrange") > PINNING_MANY); /* blocks of both layers */
    pinning_end(&q);
}

/* The entry comes after the GETRANGE was executed, and before its reply arrives. */
static void test_an_entry_between_the_answer_and_its_arrival__counts(void **state)
{
    struct pinning_request warm, q;
    uint8_t added[20];
    (void)state;
    reads(&warm, 0, PINNING_MANY);
    pinning_end(&warm);
    for (unsigned i = 0; i < NODES; i++)
        proxy_set(proxy, route[i], &(struct proxy_fault){.reply_delay_ms = 150});
    reset_calls();
    pinning_begin(&q, &p, ABSENT, 20);
    while (calls_of("getrange") < 40)
        pinning_turn(&p);
    must(resident_apply(p.r, 0, (struct log_id){1, 0}, q.hashes, 20, added, NULL), (struct error){""});
    assert_int_equal(q.told, 0);
    overlay_folded(p.r->overlay, &(struct log_id){1, 0}); /* the replies lack it */
    pinning_ends(&q, ERR_OK, "");
    answers_as(&q, RESIDENT_PRESENT);
    pinning_end(&q);
}

static void test_two_requests_at_once__share_what_comes_first(void **state)
{
    struct pinning_request a, b;
    (void)state;
    pinning_begin(&a, &p, 0, PINNING_MANY);
    pinning_begin(&b, &p, 0, PINNING_MANY);
    pinning_ends(&a, ERR_OK, "");
    pinning_end(&a);
    pinning_ends(&b, ERR_OK, "");
    answers_as(&b, RESIDENT_PRESENT);
    pinning_end(&b);
}

/* --- shards that are damaged --- */

static uint32_t shard_of(uint64_t key)
{
    return pinning_place(0, key).shard;
}

/* Ways to damage the shard of the first key. */
static void missing(void)
{
    pinning_command(&p, 0, shard_of(ABSENT), "DEL %b", NULL, 0);
}

static void cut(void)
{
    struct header h = pinning_header(&p, 0, shard_of(ABSENT));
    pinning_write(&p, 0, h.shard, &h,
                  geometry_shard_bytes(&pinning_geometry[0]) - pinning_place(0, ABSENT).block * 128ul - 100);
}

static void without_a_tag(void)
{
    struct key_place at = pinning_place(0, ABSENT);
    struct header h = pinning_header(&p, 0, at.shard);
    p.shards[0][at.shard * (size_t)geometry_shard_bytes(&pinning_geometry[0]) + at.block * 128ul] ^= 1;
    pinning_write(&p, 0, at.shard, &h, 0);
}

static void of_another_generation(void)
{
    struct header h = pinning_header(&p, 0, shard_of(ABSENT));
    h.generation++;
    pinning_write(&p, 0, h.shard, &h, 0);
}

static void of_a_later_writer(void)
{
    struct header h = pinning_header(&p, 0, shard_of(ABSENT));
    h.writer.number++;
    pinning_write(&p, 0, h.shard, &h, 0);
}

static void of_a_later_format(void)
{
    pinning_command(&p, 0, shard_of(ABSENT), "SETRANGE %b 5 %b", "\2", 1);
}

/* A builder or grower that was given up has made the shard again, late and empty. */
static void of_an_earlier_attempt(void)
{
    struct header h = pinning_header(&p, 0, shard_of(ABSENT));
    h.writer.number = PINNING_MADE - 1;
    pinning_write(&p, 0, shard_of(ABSENT), &h, 0);
}

static void of_another_type(void)
{
    pinning_command(&p, 0, shard_of(ABSENT), "DEL %b", NULL, 0);
    pinning_command(&p, 0, shard_of(ABSENT), "LPUSH %b %b", "x", 1);
}

static void fails_as(enum err code, const char *text)
{
    struct pinning_request q;
    uint8_t answer;
    struct key_name name = pinning_name(&p, 0, shard_of(ABSENT));
    pinning_begin(&q, &p, ABSENT, 1);
    pinning_ends(&q, code, text);
    assert_non_null(memmem(q.text, strlen(q.text), name.text, name.length));
    assert_true(q.result.at.layer == 0 && q.result.at.shard == shard_of(ABSENT) && !q.result.is_other_era);
    pinning_look(&q, &answer);
    assert_int_equal(answer, RESIDENT_UNKNOWN);
    pinning_end(&q);
}

static void test_a_shard_that_is_damaged__is_told_of_and_answers_nothing(void **state)
{
    static const struct {
        void (*damage)(void);
        enum err code;
        const char *first,
            *later; /* the error for a request that reads the header, or has read it; NULL: none */
    } cases[] = {
        {missing, ERR_LOST, "is missing", "is missing, or cut"},
        {cut, ERR_LOST, "is cut: it ends within its block", "is cut: it ends within its block"},
        {without_a_tag, ERR_LOST, "does not begin with its tag", "does not begin with its tag"},
        {of_another_generation, ERR_LOST, "belongs to generation 4", NULL},
        {of_a_later_writer, ERR_FENCED, "token 8, later than the view's 7", NULL},
        {of_an_earlier_attempt, ERR_LOST, "was made under token 5, and those of its layer under 6", NULL},
        {of_a_later_format, ERR_FORMAT, "has format 2", NULL},
        {of_another_type, ERR_WRONG_TYPE, "is no string", "is no string"},
    };
    struct pinning_request q;
    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        cases[i].damage();
        fails_as(cases[i].code, cases[i].first);
        pinning_close(&p);
        (void)set_up(NULL);
        if (cases[i].later == NULL)
            continue;
        reads(&q, ABSENT, 1);
        pinning_end(&q);
        cases[i].damage();
        fails_as(cases[i].code, cases[i].later);
        pinning_close(&p);
        (void)set_up(NULL);
    }
}

/* The address leads to another server, which the view accepts; its shard is of an attempt given up. */
static void test_a_header_that_was_checked_at_another_server__does_not_count(void **state)
{
    struct error e = {""};
    struct pinning_request q;
    (void)state;
    reads(&q, ABSENT, 1);
    answers_as(&q, RESIDENT_ABSENT);
    pinning_end(&q);
    of_an_earlier_attempt();
    for (unsigned i = 0; i < NODES; i++) {
        must(client_ok(&client[i], &e, "DEBUG CHANGE-REPL-ID"), e);
        assert_true(trusted_add(&p.eras, lanes_era(&client[i])));
    }
    fails_as(ERR_LOST, "was made under token 5, and those of its layer under 6");
}

static void test_an_error_of_the_node__is_told(void **state)
{
    struct error e = {""};
    struct pinning_request q;
    (void)state;
    reads(&q, ABSENT, 1);
    pinning_end(&q);
    for (unsigned i = 0; i < NODES; i++)
        must(client_ok(&client[i], &e, "ACL SETUSER default -getrange"), e);
    fails_as(ERR_REFUSED, "NOPERM");
    for (unsigned i = 0; i < NODES; i++)
        must(client_ok(&client[i], &e, "ACL SETUSER default +getrange -info"), e);
    pinning_begin(&q, &p, ABSENT, 1);
    pinning_ends(&q, ERR_REFUSED, "NOPERM");
    answers_as(&q, RESIDENT_UNKNOWN);
    pinning_end(&q);
    for (unsigned i = 0; i < NODES; i++)
        must(client_ok(&client[i], &e, "ACL SETUSER default +@all"), e);
}

/* --- eras --- */

static void is_of_another_era(uint64_t first, const char *text)
{
    struct pinning_request q;
    pinning_begin(&q, &p, first, 1);
    pinning_ends(&q, ERR_FENCED, text);
    assert_true(q.result.is_other_era);
    answers_as(&q, RESIDENT_UNKNOWN);
    pinning_end(&q);
}

static void test_a_server_of_another_era__does_not_count_nor_do_its_errors(void **state)
{
    struct pinning_request q;
    (void)state;
    p.eras.id[0] = p.eras.id[1] = 1;
    is_of_another_era(ABSENT, "which the view does not accept");
    missing();
    is_of_another_era(ABSENT, "which the view does not accept");
    accept_eras();
    pinning_begin(&q, &p, ABSENT, 1);
    pinning_ends(&q, ERR_LOST, "is missing");
    pinning_end(&q);
}

/* A header in a reply of another era is not remembered. */
static void test_a_header_of_another_era__is_read_again(void **state)
{
    struct pinning_request q;
    (void)state;
    p.eras.id[0] = p.eras.id[1] = 1;
    is_of_another_era(ABSENT, "which the view does not accept");
    accept_eras();
    of_another_generation();
    pinning_begin(&q, &p, ABSENT, 1);
    pinning_ends(&q, ERR_LOST, "belongs to generation 4");
    pinning_end(&q);
}

/* The connection and the data stay the same. */
static void test_a_master_that_becomes_a_replica__does_not_count(void **state)
{
    struct error e = {""};
    struct pinning_request q;
    (void)state;
    reads(&q, ABSENT, PINNING_MANY);
    pinning_end(&q);
    uint64_t key = ABSENT;
    while (shard_of(key) % NODES != 1)
        key++;
    must(client_ok(&client[1], &e, "REPLICAOF 127.0.0.1 1"), e);
    is_of_another_era(key, "is no master");
    must(client_ok(&client[1], &e, "REPLICAOF NO ONE"), e); /* the node then has a new replication id */
    is_of_another_era(key, "which the view does not accept");
    accept_eras();
    reads(&q, key, 1);
    answers_as(&q, RESIDENT_ABSENT);
    pinning_end(&q);
}

static void test_a_node_that_restarts__counts_when_the_view_accepts_its_new_era(void **state)
{
    struct error e = {""};
    struct pinning_request q;
    (void)state;
    uint64_t key = ABSENT;
    while (shard_of(key) % NODES != 1)
        key++;
    reads(&q, key, 1);
    pinning_end(&q);
    client_close(&client[1]);
    temp_redis_kill(&redis[1]);
    must(temp_redis_restart(&redis[1], false, &e), e);
    must(client_open(&client[1], redis[1].port, REPLY_MS, &e), e);
    is_of_another_era(key, "which the view does not accept");
    for (unsigned layer = 0; layer < 2; layer++)
        for (uint32_t s = 1; s < pinning_geometry[layer].shards; s += 2) {
            struct header h = pinning_header(&p, layer, s);
            pinning_write(&p, layer, s, &h, 0);
        }
    accept_eras();
    resident_discard(p.r);
    p.source.view = resident_view(p.r);
    reads(&q, key, 1);
    answers_as(&q, RESIDENT_ABSENT);
    pinning_end(&q);
}

/* --- views --- */

static void test_a_new_view__discards_what_is_under_way(void **state)
{
    struct pinning_request q;
    struct block_read *read = NULL;
    (void)state;
    reads(&q, 0, 1);
    pinning_end(&q);
    proxy_set(proxy, route[0], &(struct proxy_fault){.reply_delay_ms = 60});
    proxy_set(proxy, route[1], &(struct proxy_fault){.reply_delay_ms = 60});
    pinning_begin(&q, &p, 0, PINNING_MANY);
    pinning_turn(&p);
    resident_discard(p.r);
    pinning_ends(&q, ERR_FENCED, "the view of the filter changed meanwhile");
    assert_false(q.result.is_other_era);
    pinning_end(&q);
    assert_int_equal(block_read_start(&read, &p.source, p.base, p.store, q.hashes, 1, NULL, NULL, NULL),
                     ERR_FENCED);
    p.source.view = resident_view(p.r);
    reads(&q, 0, PINNING_MANY);
    answers_as(&q, RESIDENT_PRESENT);
    pinning_end(&q);
}

static void test_a_new_view_behind_the_last_answer__changes_nothing(void **state)
{
    struct pinning_request first, q;
    (void)state;
    reads(&first, ABSENT, 1);
    pinning_begin(&q, &p, ABSENT, 1); /* all of the request's blocks are pinned and being read */
    resident_discard(p.r);
    pinning_ends(&q, ERR_OK, "");
    answers_as(&q, RESIDENT_ABSENT);
    pinning_end(&q);
    pinning_end(&first);
}

/* An add that was sent before gets "unknown", as its newness is not known; a check reads again. */
static void test_lanes_that_are_read_again_behind_the_last_answer__make_it_none(void **state)
{
    struct pinning_request first, q;
    (void)state;
    reads(&first, ABSENT, 1);
    pinning_begin(&q, &p, ABSENT, 1);
    resident_rebase(p.r);
    pinning_ends(&q, ERR_OK, "");
    answers_as(&q, RESIDENT_UNKNOWN);
    pinning_end(&q);
    pinning_end(&first);
}

/* --- nodes that are away --- */

static void test_a_connection_that_breaks__is_read_over_again(void **state)
{
    struct pinning_request q;
    (void)state;
    reads(&q, 0, 1);
    pinning_end(&q);
    for (unsigned i = 0; i < NODES; i++)
        proxy_set(proxy, route[i], &(struct proxy_fault){.resets = 3});
    reads(&q, 0, PINNING_MANY);
    answers_as(&q, RESIDENT_PRESENT);
    pinning_end(&q);
    for (unsigned i = 0; i < NODES; i++)
        proxy_set(proxy, route[i], &(struct proxy_fault){.cuts = 1});
    reads(&q, ABSENT, PINNING_MANY);
    answers_as(&q, RESIDENT_ABSENT);
    pinning_end(&q);
}

static void test_a_node_that_says_nothing__is_waited_for_until_the_end(void **state)
{
    struct pinning_request q;
    (void)state;
    reads(&q, 0, PINNING_MANY);
    pinning_end(&q);
    proxy_set(proxy, route[1], &(struct proxy_fault){.swallow = true});
    pinning_begin(&q, &p, 0, PINNING_MANY);
    pinning_waits(&q, 300);
    pinning_end(&q);
    pinning_begin(&q, &p, 0, PINNING_MANY); /* the store drops the connection meanwhile */
    pinning_waits(&q, 3000);
    uint8_t answers[PINNING_MANY];
    pinning_look(&q, answers);
    unsigned unknown = 0;
    for (unsigned i = 0; i < PINNING_MANY; i++) {
        assert_int_not_equal(answers[i], RESIDENT_ABSENT);
        unknown += answers[i] == RESIDENT_UNKNOWN;
    }
    assert_true(unknown > 0);
    pinning_end(&q);
    proxy_lift(proxy);
    reads(&q, 0, PINNING_MANY);
    answers_as(&q, RESIDENT_PRESENT);
    pinning_end(&q);
}

static void test_a_node_that_dies_in_the_middle__is_waited_for(void **state)
{
    struct error e = {""};
    struct pinning_request q;
    (void)state;
    reads(&q, 0, PINNING_MANY);
    pinning_end(&q);
    nothing_passes(1);
    pinning_begin(&q, &p, 0, PINNING_MANY);
    for (unsigned i = 0; i < 100; i++)
        pinning_turn(&p);
    client_close(&client[1]);
    proxy_set(proxy, route[1], &(struct proxy_fault){.refuse = true});
    temp_redis_kill(&redis[1]);
    pinning_waits(&q, 800);
    pinning_end(&q);
    must(temp_redis_restart(&redis[1], false, &e), e);
    must(client_open(&client[1], redis[1].port, REPLY_MS, &e), e);
}

/* --- ends --- */

static void test_a_request__may_end_at_any_moment(void **state)
{
    struct pinning_request q, pair;
    uint8_t added;
    (void)state;
    reads(&q, 0, 1); /* until connected */
    pinning_end(&q);
    for (unsigned turns = 0; turns < 40; turns++) {
        pinning_begin(&q, &p, 100ul * turns, PINNING_MANY);
        pinning_begin(&pair, &p, 100ul * turns, PINNING_MANY);
        for (unsigned i = 0; i < turns; i++)
            (void)event_base_loop(p.base, EVLOOP_NONBLOCK);
        pinning_end(&q);
        unsigned told = q.told;
        pinning_ends(&pair, ERR_OK, ""); /* shares the blocks of the other request */
        answers_as(&pair, 100 * turns < PINNING_KEYS ? RESIDENT_PRESENT : RESIDENT_ABSENT);
        pinning_end(&pair);
        assert_int_equal(q.told, told);
    }
    assert_int_equal(p.budget.pinned, 0);
    must(resident_apply(p.r, 0, (struct log_id){1, 0}, q.hashes, 1, &added, NULL), (struct error){""});
    overlay_folded(p.r->overlay, &(struct log_id){1, 0});
    struct resident_status s;
    resident_status(p.r, &s);
    assert_int_equal(s.overlay_keys, 0); /* no read is left */
}

static void test_a_request__may_end_when_it_is_told(void **state)
{
    struct pinning_request q;
    (void)state;
    missing();
    pinning_begin(&q, &p, ABSENT, PINNING_MANY);
    q.end_when_told = true;
    pinning_ends(&q, ERR_LOST, "is missing");
    pinning_begin(&q, &p, 0, 0); /* a request of no keys */
    q.end_when_told = true;
    pinning_ends(&q, ERR_OK, "");
}

static void test_replies_that_nobody_waits_for__come_after_the_end(void **state)
{
    struct pinning_request q, behind;
    (void)state;
    reads(&behind, 0, PINNING_MANY);
    pinning_end(&behind);
    nothing_passes(0);
    pinning_begin(&q, &p, ABSENT, PINNING_MANY);
    for (unsigned i = 0; i < 10; i++)
        pinning_turn(&p);
    pinning_end(&q);
    proxy_lift(proxy);
    reads(&behind, 0, PINNING_MANY); /* over the same connections */
    pinning_end(&behind);
    assert_int_equal(q.told, 0);
    nothing_passes(0);
    pinning_begin(&q, &p, ABSENT, PINNING_MANY); /* the store is freed before an answer comes */
    for (unsigned i = 0; i < 10; i++)
        pinning_turn(&p);
    pinning_end(&q);
}

#define READ_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        READ_TEST(test_keys_of_all_shards__are_answered_while_their_blocks_are_pinned),
        READ_TEST(test_an_add__is_told_what_is_new),
        READ_TEST(test_a_header__is_read_once_a_view_and_a_block_once_for_all_holders),
        READ_TEST(test_blocks_of_all_layers__are_read_in_one_round_trip),
        READ_TEST(test_an_entry_between_the_answer_and_its_arrival__counts),
        READ_TEST(test_two_requests_at_once__share_what_comes_first),
        READ_TEST(test_a_header_that_was_checked_at_another_server__does_not_count),
        READ_TEST(test_a_shard_that_is_damaged__is_told_of_and_answers_nothing),
        READ_TEST(test_an_error_of_the_node__is_told),
        READ_TEST(test_a_server_of_another_era__does_not_count_nor_do_its_errors),
        READ_TEST(test_a_header_of_another_era__is_read_again),
        READ_TEST(test_a_master_that_becomes_a_replica__does_not_count),
        READ_TEST(test_a_node_that_restarts__counts_when_the_view_accepts_its_new_era),
        READ_TEST(test_a_new_view__discards_what_is_under_way),
        READ_TEST(test_a_new_view_behind_the_last_answer__changes_nothing),
        READ_TEST(test_lanes_that_are_read_again_behind_the_last_answer__make_it_none),
        READ_TEST(test_a_connection_that_breaks__is_read_over_again),
        READ_TEST(test_a_node_that_says_nothing__is_waited_for_until_the_end),
        READ_TEST(test_a_node_that_dies_in_the_middle__is_waited_for),
        READ_TEST(test_a_request__may_end_at_any_moment),
        READ_TEST(test_a_request__may_end_when_it_is_told),
        READ_TEST(test_replies_that_nobody_waits_for__come_after_the_end),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
