/* SPDX-License-Identifier: MIT */
/* The workers of a process share a lane, on a real Redis: how tail reads and entries are combined, when
 * requests get their results, and that four workers at once lose nothing. */
#include "tests/integration/readers.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/lib/process.h"

/* --- gathering --- */

static void test_requests_of_one_turn__share_one_write(void **state)
{
    enum { EACH = 20 };
    struct readers_asked *a[3 * EACH];
    (void)state;
    readers_ends_as(readers_ask_by(0), ERR_OK); /* until connected */
    readers_reset_calls();
    for (unsigned i = 0; i < EACH; i++) {
        a[3 * i] = readers_ask_by(0);
        a[3 * i + 1] = readers_add_by(0, 10 * i, 10);
        a[3 * i + 2] = readers_ask_by(0);
    }
    for (unsigned i = 0; i < 3 * EACH; i++)
        readers_ends_as(a[i], ERR_OK);
    assert_int_equal(readers_calls_of("xrange"), 1);
    assert_int_equal(readers_calls_of("xadd"), 2); /* for 200 keys */
    assert_int_equal(lanes_number(&readers_w.client, "XLEN", &readers_w.lane), 3);
    for (unsigned i = 0; i < 10 * EACH; i++)
        assert_int_equal(readers_bits[i], 1);
}

static void test_what_comes_while_a_read_is_under_way__shares_the_next(void **state)
{
    struct readers_asked *a[40];
    (void)state;
    readers_open_port(1);
    readers_ends_as(readers_ask_by(0), ERR_OK);
    proxy_set(readers_w.proxy, readers_w.route, &(struct proxy_fault){.reply_delay_ms = 100});
    struct readers_asked *first = readers_ask_by(0);
    for (unsigned i = 0; i < 20; i++)
        readers_turn_loops();
    readers_reset_calls(); /* the first one is executed */
    readers_add_from_outside(7);
    for (unsigned i = 0; i < 40; i++)
        a[i] = readers_ask_by(i % 2);
    readers_ends_as(first, ERR_OK);
    for (unsigned i = 0; i < 40; i++) {
        assert_true(a[i]->told == 0 ||
                    readers_bits[7] == 1); /* a request does not end by a read that began before it */
        readers_ends_as(a[i], ERR_OK);
    }
    assert_int_equal(readers_bits[7], 1);
    assert_int_equal(readers_calls_of("xrange"), 1);
}

/* A client that sends its next request as soon as it is told. */
struct eager {
    int socket[2];
    struct lane_request first;
    struct readers_asked *next;
};

static void on_told(void *arg, const struct lane_result *result)
{
    struct eager *c = arg;
    assert_int_equal(result->code, ERR_OK);
    assert_int_equal(write(c->socket[1], "x", 1), 1);
}

static void on_bytes(evutil_socket_t fd, short events, void *arg)
{
    struct eager *c = arg;
    char byte;
    (void)events;
    assert_int_equal(read(fd, &byte, 1), 1);
    c->next = readers_ask_by(0);
}

static void test_a_client_that_is_told_and_asks_again__shares_the_next_read(void **state)
{
    struct eager c = {.next = NULL};
    (void)state;
    readers_ends_as(readers_ask_by(0), ERR_OK);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, c.socket), 0);
    struct event *bytes = event_new(readers_w.base[0], c.socket[0], EV_READ, on_bytes, &c);
    assert_int_equal(event_add(bytes, NULL), 0);
    proxy_set(readers_w.proxy, readers_w.route, &(struct proxy_fault){.reply_delay_ms = 100});
    lane_ask(readers_w.port[0], readers_w.reader, &c.first, on_told, &c);
    struct readers_asked *with_it[2] = {readers_ask_by(0), readers_ask_by(0)};
    for (unsigned i = 0; i < 20; i++)
        readers_turn_loops();
    readers_reset_calls();                           /* the first requests' read is executed */
    struct readers_asked *waits = readers_ask_by(0); /* one is too few for a read of its own */
    while (waits->told == 0 || c.next == NULL || c.next->told == 0)
        readers_turn_loops();
    for (unsigned i = 0; i < 2; i++)
        readers_ends_as(with_it[i], ERR_OK);
    readers_ends_as(waits, ERR_OK);
    readers_ends_as(c.next, ERR_OK);
    assert_int_equal(readers_calls_of("xrange"), 1);
    event_free(bytes);
    (void)close(c.socket[0]);
    (void)close(c.socket[1]);
}

static void test_many_keys__go_as_full_entries_and_say_what_was_new(void **state)
{
    (void)state;
    readers_ends_as(readers_add_by(0, 5, 1), ERR_OK);
    struct readers_asked *a = readers_add_by(0, 0, 300), *b = readers_add_by(0, 290, 20);
    while (a->told == 0 || b->told == 0)
        readers_turn_loops();
    for (unsigned i = 0; i < 300; i++)
        assert_int_equal(a->fresh[i], i != 5);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(b->fresh[i], i >= 10);
    assert_int_equal(lanes_number(&readers_w.client, "XLEN", &readers_w.lane),
                     1 + 1 + 3); /* three entries with 320 keys */
    readers_ends_as(a, ERR_OK);
    readers_ends_as(b, ERR_OK);
}

static void test_more_keys_than_a_turn_has__go_in_several(void **state)
{
    (void)state;
    struct readers_asked *a = readers_add_by(0, 0, LANE_REQUEST_KEYS_MAX),
                         *b = readers_add_by(0, 0, LANE_REQUEST_KEYS_MAX);
    readers_ends_as(a, ERR_OK);
    while (b->told == 0)
        readers_turn_loops();
    for (unsigned i = 0; i < LANE_REQUEST_KEYS_MAX; i++)
        assert_int_equal(b->fresh[i], 0);
    readers_ends_as(b, ERR_OK);
    assert_int_equal(lanes_number(&readers_w.client, "XLEN", &readers_w.lane),
                     1 + 2 * LANE_REQUEST_KEYS_MAX / LOG_KEYS_MAX);
}

static void test_a_tail_of_many_pages__is_read_to_its_end(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 3 * LANE_RANGE_COUNT; i++)
        readers_add_from_outside(i);
    struct readers_asked *a = readers_add_by(0, 4000, 1);
    readers_ends_as(a, ERR_OK);
    assert_int_equal(atomic_load(&readers_applied), 3 * LANE_RANGE_COUNT + 1);
    struct log_position p;
    lane_reader_position(readers_w.reader, &p);
    readers_ends_as(readers_ask_by(0), ERR_OK);
    assert_int_equal(atomic_load(&readers_applied), 3 * LANE_RANGE_COUNT + 1); /* no entry twice */
}

static void test_a_worker_that_goes__leaves_its_read_to_another(void **state)
{
    (void)state;
    readers_open_port(1);
    readers_ends_as(readers_ask_by(0), ERR_OK);
    proxy_set(readers_w.proxy, readers_w.route, &(struct proxy_fault){.reply_delay_ms = 200});
    struct readers_asked *a = readers_add_by(0, 1, 1), *b = readers_add_by(1, 2, 1);
    for (unsigned i = 0; i < 20; i++)
        readers_turn_loops(); /* the first port has the read under way */
    readers_close_port(0);
    readers_ends_as(a, ERR_CANCELLED);
    while (b->told == 0)
        readers_turn_loops();
    assert_int_equal(b->fresh[0], 1);
    readers_ends_as(b, ERR_OK);
    assert_int_equal(readers_bits[2], 1);
}

/* The control's thread reads a tail now and then, and only runs its loop until the read ends. */
static void test_a_port_whose_loop_rests__leaves_the_next_read_to_another(void **state)
{
    (void)state;
    readers_open_port(1);
    readers_ends_as(readers_ask_by(0), ERR_OK);
    proxy_set(readers_w.proxy, readers_w.route, &(struct proxy_fault){.reply_delay_ms = 100});
    struct readers_asked *a = readers_ask_by(1);
    for (unsigned i = 0; i < 4; i++)
        readers_turn_loops(); /* the second port has the read under way */
    struct readers_asked *b = readers_ask_by(0);
    while (a->told == 0)
        (void)event_base_loop(readers_w.base[1], EVLOOP_ONCE);
    readers_ends_as(a, ERR_OK);
    while (b->told == 0)
        (void)event_base_loop(readers_w.base[0], EVLOOP_ONCE);
    readers_ends_as(b, ERR_OK);
}

/* Its request is taken back at a deadline; the reply comes when nobody runs the loop any more. */
static void test_a_port_that_rests__lets_go_of_the_lane(void **state)
{
    struct lane_request late;
    (void)state;
    readers_open_port(1);
    readers_ends_as(readers_ask_by(0), ERR_OK);
    readers_ends_as(readers_ask_by(1), ERR_OK); /* both are connected */
    proxy_set(readers_w.proxy, readers_w.route, &(struct proxy_fault){.reply_delay_ms = 100});
    lane_ask(readers_w.port[1], readers_w.reader, &late, NULL, NULL);
    for (unsigned i = 0; i < 4; i++)
        (void)event_base_loop(readers_w.base[1], EVLOOP_NONBLOCK); /* the read is under way */
    lane_cancel(&late);
    lane_port_rest(readers_w.port[1]);
    struct readers_asked *a = readers_ask_by(0);
    while (a->told == 0)
        (void)event_base_loop(readers_w.base[0], EVLOOP_ONCE);
    readers_ends_as(a, ERR_OK);
}

/* Redis takes no more connections, and one worker has none: the others read for all. */
static void test_a_worker_without_a_connection__leaves_its_read_to_another(void **state)
{
    struct error e = {""};
    static struct nodes away;
    char url[64];
    (void)state;
    (void)snprintf(url, sizeof(url), "redis://127.0.0.1:%u", process_free_port());
    must(nodes_parse(&away, url, &e), e);
    readers_w.base[1] = event_base_new();
    readers_w.store[1] = async_client_new(readers_w.base[1], &away, STORE_MS, NULL);
    readers_w.port[1] = lane_port_new(readers_w.base[1], readers_w.store[1], PORT_MS);
    readers_ends_as(readers_ask_by(0), ERR_OK);
    struct readers_asked *a = readers_add_by(1, 1, 1);
    for (unsigned i = 0; i < 4; i++)
        readers_turn_loops(); /* the second port has the turn */
    struct readers_asked *b = readers_add_by(0, 2, 1);
    while (a->told == 0 || b->told == 0)
        readers_turn_loops();
    assert_true(a->fresh[0] == 1 && b->fresh[0] == 1);
    readers_ends_as(a, ERR_OK);
    readers_ends_as(b, ERR_OK);
}

static void test_what_is_cancelled__is_not_told(void **state)
{
    (void)state;
    struct readers_asked *a = readers_add_by(0, 1, 1), *b = readers_ask_by(0);
    lane_cancel(&a->request);
    readers_ends_as(b, ERR_OK);
    proxy_set(readers_w.proxy, readers_w.route, &(struct proxy_fault){.reply_delay_ms = 200});
    struct readers_asked *c = readers_ask_by(0);
    for (unsigned i = 0; i < 4; i++)
        readers_turn_loops(); /* the read is under way */
    lane_cancel(&c->request);
    readers_ends_as(readers_ask_by(0), ERR_OK);
    assert_true(a->told == 0 && c->told == 0 && readers_bits[1] == 0);
    free(a);
    free(c);
}

/* --- an owner that is told --- */

/* The hook of a reader that stalls: it lasts until it may return. */
struct slow_owner {
    struct lane_reader *reader;
    sem_t called, may_return;
    atomic_bool is_told;
    bool told_before_stop_returned;
};

static enum err apply_nothing(void *arg, const struct tail_record *record, uint8_t *fresh, struct error *e)
{
    (void)arg;
    (void)record;
    (void)fresh;
    (void)e;
    return ERR_OK;
}

static void on_stalled_slowly(void *arg, enum tail_state state)
{
    struct slow_owner *o = arg;
    (void)state;
    (void)sem_post(&o->called);
    (void)sem_wait(&o->may_return);
    atomic_store(&o->is_told, true);
}

static void *stop(void *arg)
{
    struct slow_owner *o = arg;
    lane_reader_stop(o->reader);
    o->told_before_stop_returned = atomic_load(&o->is_told);
    return NULL;
}

static void note_end(void *arg, const struct lane_result *result)
{
    *(enum err *)arg = result->code;
}

static void *run_port(void *arg)
{
    const enum err *code = arg;
    while (*code == ERR_BUSY)
        readers_turn_loops();
    return NULL;
}

/* Else the owner could be told of a lane that it has just replaced, or after it has freed the reader. */
static void test_who_stops_or_frees_a_reader__waits_until_its_owner_is_told(void **state)
{
    static const struct lane_reader_hooks hooks = {.apply = apply_nothing, .stalled = on_stalled_slowly};
    struct slow_owner o = {.told_before_stop_returned = false};
    struct lane_request request;
    enum err code = ERR_BUSY;
    pthread_t port, stopper;
    struct error e = {""};
    (void)state;
    assert_int_equal(sem_init(&o.called, 0, 0), 0);
    assert_int_equal(sem_init(&o.may_return, 0, 0), 0);
    o.reader =
        lane_reader_new(&readers_w.lane, &readers_w.anchor, (const uint8_t *)"of this process", &hooks, &o);
    assert_non_null(o.reader);
    assert_int_equal(lanes_number(&readers_w.client, "DEL", &readers_w.lane), 1);
    lane_ask(readers_w.port[0], o.reader, &request, note_end, &code);
    assert_int_equal(pthread_create(&port, NULL, run_port, &code), 0);
    assert_int_equal(sem_wait(&o.called), 0);
    assert_int_equal(pthread_create(&stopper, NULL, stop, &o), 0);
    clock_sleep_us(50 * 1000); /* the other thread has time to return too early */
    bool freed = lane_reader_free(o.reader);
    assert_int_equal(sem_post(&o.may_return), 0);
    (void)pthread_join(stopper, NULL);
    assert_false(freed);
    assert_true(o.told_before_stop_returned);
    must(lane_make(readers_w.link, &readers_w.lane, lanes_writer, 1, &readers_w.anchor, &e), e);
    lane_reader_move(o.reader, &readers_w.lane, &readers_w.anchor);
    (void)pthread_join(port, NULL);
    assert_int_equal(code, ERR_OK);
    while (!lane_reader_free(o.reader))
        readers_turn_loops();
    (void)sem_destroy(&o.called);
    (void)sem_destroy(&o.may_return);
}

/* --- four workers --- */

enum { WORKERS = 4, EACH_ROUNDS = 150, AT_ONCE = 8, EACH_KEYS = 3 };

struct worker {
    pthread_t thread;
    struct event_base *base;
    struct lane_port *port;
    struct slot {
        struct worker *worker;
        struct lane_request request;
        struct key_hash keys[EACH_KEYS];
        uint8_t fresh[EACH_KEYS];
        bool adds;
    } slot[AT_ONCE];
    unsigned number, begun, told, fresh, wrong;
};

static void begin_one(struct worker *o, struct slot *s);

static void on_worker_done(void *arg, const struct lane_result *result)
{
    struct slot *s = arg;
    struct worker *o = s->worker;
    o->told++;
    o->wrong += result->code != ERR_OK;
    for (unsigned i = 0; s->adds && i < EACH_KEYS; i++) {
        o->fresh += s->fresh[i];
        o->wrong += atomic_load_explicit(&readers_bits[s->keys[i].low], memory_order_relaxed) == 0;
    }
    begin_one(o, s);
    if (o->told == EACH_ROUNDS * AT_ONCE)
        (void)event_base_loopbreak(o->base);
}

/* All workers add the same keys. */
static void begin_one(struct worker *o, struct slot *s)
{
    if (o->begun == EACH_ROUNDS * AT_ONCE)
        return;
    unsigned n = o->begun++;
    s->adds = n % 2 == 0;
    for (unsigned i = 0; i < EACH_KEYS; i++)
        s->keys[i] = (struct key_hash){.high = o->number, .low = (n * EACH_KEYS + i) % KEYS};
    if (s->adds)
        lane_add(o->port, readers_w.reader, &s->request, s->keys, EACH_KEYS, s->fresh, 0, on_worker_done, s);
    else
        lane_ask(o->port, readers_w.reader, &s->request, on_worker_done, s);
}

static void *work(void *arg)
{
    struct worker *o = arg;
    o->base = event_base_new();
    struct async_client *store = async_client_new(o->base, &readers_w.direct, REPLY_MS, NULL);
    o->port = lane_port_new(o->base, store, GUARD_MS);
    for (unsigned i = 0; i < AT_ONCE; i++) {
        o->slot[i].worker = o;
        begin_one(o, &o->slot[i]);
    }
    (void)event_base_dispatch(o->base);
    lane_port_free(o->port);
    async_client_free(store);
    event_base_free(o->base);
    return NULL;
}

static void test_four_workers__are_told_what_is_new_once(void **state)
{
    static struct worker worker[WORKERS];
    unsigned told = 0, fresh = 0, wrong = 0, set = 0;
    (void)state;
    readers_reset_calls();
    for (unsigned i = 0; i < WORKERS; i++) {
        worker[i] = (struct worker){.number = i};
        assert_int_equal(pthread_create(&worker[i].thread, NULL, work, &worker[i]), 0);
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        (void)pthread_join(worker[i].thread, NULL);
        told += worker[i].told;
        fresh += worker[i].fresh;
        wrong += worker[i].wrong;
    }
    for (unsigned i = 0; i < KEYS; i++)
        set += readers_bits[i];
    assert_int_equal(told, WORKERS * EACH_ROUNDS * AT_ONCE);
    assert_int_equal(wrong, 0);
    assert_int_equal(fresh, set);
    uint64_t reads = readers_calls_of("xrange");
    assert_true(reads < told / 2); /* workers share reads */
    readers_ends_as(readers_ask_by(0), ERR_OK);
}

#define READER_TEST(name) cmocka_unit_test_setup_teardown(name, readers_set_up, readers_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        READER_TEST(test_requests_of_one_turn__share_one_write),
        READER_TEST(test_what_comes_while_a_read_is_under_way__shares_the_next),
        READER_TEST(test_a_client_that_is_told_and_asks_again__shares_the_next_read),
        READER_TEST(test_many_keys__go_as_full_entries_and_say_what_was_new),
        READER_TEST(test_more_keys_than_a_turn_has__go_in_several),
        READER_TEST(test_a_tail_of_many_pages__is_read_to_its_end),
        READER_TEST(test_a_worker_that_goes__leaves_its_read_to_another),
        READER_TEST(test_a_port_whose_loop_rests__leaves_the_next_read_to_another),
        READER_TEST(test_a_port_that_rests__lets_go_of_the_lane),
        READER_TEST(test_a_worker_without_a_connection__leaves_its_read_to_another),
        READER_TEST(test_what_is_cancelled__is_not_told),
        READER_TEST(test_who_stops_or_frees_a_reader__waits_until_its_owner_is_told),
        READER_TEST(test_four_workers__are_told_what_is_new_once),
    };
    return cmocka_run_group_tests(tests, readers_start, readers_stop);
}
