/* SPDX-License-Identifier: MIT */
#include "tests/integration/coordinator.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

enum { REDIS_TIMEOUT_MS = 300, GUARD_MS = 20000 };

static struct filter_policy policy_of(void *arg, const char *name, size_t length)
{
    const struct coordinator *c = arg;
    return length == 1 && *name == 'f' ? c->policy : (struct filter_policy){0};
}

static void on_seen(void *arg, const char *name, size_t length, uint64_t incarnation)
{
    (void)incarnation;
    struct coordinator *c = arg;
    c->seen |= length == 1 && *name == 'f';
}

static void on_dropped(void *arg, const char *name, size_t length, uint64_t incarnation)
{
    struct coordinator *c = arg;
    (void)incarnation;
    if (length == 1 && *name == 'f')
        c->seen = false;
}

static bool was_seen(void *arg, const char *name, size_t length)
{
    struct coordinator *c = arg;
    c->looks++;
    if (c->seen_from_look != 0 && c->looks >= c->seen_from_look)
        return true;
    return length == 1 && *name == 'f' && c->seen;
}

static void on_lost(void *arg, const char *name, size_t length, const struct lost_shard *lost)
{
    struct coordinator *c = arg;
    c->lost += length == 1 && *name == 'f';
    c->lost_generation = lost->generation;
}

static void on_suspect(void *arg, const char *name, size_t length)
{
    struct coordinator *c = arg;
    c->suspect += length == 1 && *name == 'f';
}

static bool is_loss_sure(void *arg, const char *name, size_t length, const struct view *v)
{
    const struct coordinator *c = arg;
    (void)name;
    (void)length;
    (void)v;
    return !c->unsure;
}

void coordinator_open(struct coordinator *c, const struct servers *s, struct filter_policy policy)
{
    memset(c, 0, sizeof(*c));
    c->policy = policy;
    c->give_ms = COORDINATOR_TIMEOUT_MS;
    c->base = event_base_new();
    assert_non_null(c->base);
    const struct catalog_options o = {.nodes = &s->nodes,
                                      .prefix = PREFIX,
                                      .latency = &c->latency,
                                      .redis_timeout_ms = REDIS_TIMEOUT_MS,
                                      .timeout_ms = COORDINATOR_TIMEOUT_MS,
                                      .tombstone_ms = TOMBSTONE_MS,
                                      .policy = policy_of,
                                      .policy_arg = c,
                                      .on_seen = on_seen,
                                      .on_dropped = on_dropped,
                                      .was_seen = was_seen,
                                      .on_lost = on_lost,
                                      .on_suspect = on_suspect,
                                      .is_loss_sure = is_loss_sure,
                                      .arg = c};
    c->catalog = catalog_new(c->base, &o);
    assert_non_null(c->catalog);
}

void coordinator_give(struct coordinator *c, unsigned ms)
{
    c->give_ms = ms;
    catalog_configure(c->catalog, ms, TOMBSTONE_MS);
}

void coordinator_open_patient(struct coordinator *c, const struct servers *s, struct filter_policy policy)
{
    coordinator_open(c, s, policy);
    coordinator_give(c, COORDINATOR_PATIENT_MS);
}

void coordinator_close(struct coordinator *c)
{
    if (c->base == NULL)
        return;
    catalog_free(c->catalog);
    (void)event_base_loop(c->base, EVLOOP_NONBLOCK);
    event_base_free(c->base);
    c->base = NULL;
}

void coordinator_done(struct operation *op, void *arg)
{
    struct coordinator *c = arg;
    c->done = true;
    c->retried = operation_was_retried(op);
    c->status = operation_status(op);
    (void)snprintf(c->error, sizeof(c->error), "%s", operation_error(op));
    for (size_t i = 0; i < operation_keys(op); i++)
        c->result[i] = operation_result(op, i);
}

void coordinator_done_release(struct operation *op, void *arg)
{
    coordinator_done(op, arg);
    operation_release(op);
}

void coordinator_wait(struct coordinator *c)
{
    uint64_t until = clock_mono_us() + GUARD_MS * 1000ull;
    while (!c->done) {
        uint64_t now = clock_mono_us();
        assert_true(now < until);
        c->late_turns += now >= c->deadline;
        (void)event_base_loop(c->base, EVLOOP_ONCE);
    }
}

void coordinator_run(struct coordinator *c, unsigned ms)
{
    uint64_t until = clock_mono_us() + ms * 1000ull;
    while (clock_mono_us() < until)
        (void)event_base_loop(c->base, EVLOOP_ONCE);
}

struct operation *coordinator_start(struct coordinator *c, enum operation_kind kind, const char *filter,
                                    unsigned first, unsigned count, operation_done_fn *done)
{
    struct error e = {""};
    struct catalog_filter *entry;
    must(catalog_find(c->catalog, filter, strlen(filter), &entry, &e), e);
    assert_true(count <= COORDINATOR_KEYS_MAX);
    struct operation *op = operation_new(c->catalog, kind, count, (size_t)count * 16);
    assert_non_null(op);
    for (unsigned i = 0; i < count; i++) {
        char key[16];
        int n = snprintf(key, sizeof(key), "k%u", first + i);
        operation_key(op, key, (size_t)n);
    }
    c->done = false;
    c->late_turns = 0;
    c->deadline = clock_mono_us() + c->give_ms * 1000ull;
    operation_start(op, entry, done, c);
    assert_false(c->done);
    return op;
}

enum err coordinator_ask(struct coordinator *c, enum operation_kind kind, unsigned first, unsigned count)
{
    struct operation *op = coordinator_start(c, kind, "f", first, count, coordinator_done);
    coordinator_wait(c);
    enum err status = operation_status(op);
    operation_release(op);
    return status;
}

unsigned coordinator_results(const struct coordinator *c, unsigned count, enum key_result wanted)
{
    unsigned n = 0;
    for (unsigned i = 0; i < count; i++)
        n += c->result[i] == wanted;
    return n;
}

unsigned coordinator_check(struct coordinator *c, unsigned first, unsigned count, enum key_result wanted)
{
    enum err status = coordinator_ask(c, OPERATION_CHECK, first, count);
    if (status != ERR_OK)
        fail_msg("check: %s (%s)", error_name(status), c->error);
    return coordinator_results(c, count, wanted);
}

void coordinator_add(struct coordinator *c, unsigned first, unsigned count)
{
    enum err status = coordinator_ask(c, OPERATION_ADD, first, count);
    if (status != ERR_OK)
        fail_msg("add: %s (%s)", error_name(status), c->error);
    assert_int_equal(coordinator_results(c, count, KEY_LOST), 0);
}
