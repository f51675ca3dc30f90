/* SPDX-License-Identifier: MIT */
#include "tests/integration/eras_members.h"

#include "base/clock.h"
#include "shard/members/roll.h"
#include "shard/request/log_filter_state.h"

enum { REPLY_MS = 5000 };

bool eras_has_written(const struct log_member *m)
{
    const struct eras_written all = {.all = true};
    bool said;
    struct error e = {""};
    eras_case_load();
    must(eras_has_said(&eras_case_watch, on.link, &on.names, on.view, m->filter->writer, &all, &said, &e), e);
    return said;
}

void eras_await_written(const struct log_member *m)
{
    uint64_t until = clock_mono_us() + ERAS_GUARD_MS * UINT64_C(1000);
    while (!eras_has_written(m) && clock_mono_us() < until)
        clock_sleep_us(1000);
    if (!eras_has_written(m))
        fail_msg("it does not write: %s", m->last.text);
}

void eras_await_forgotten(const struct log_member *m)
{
    uint64_t until = clock_mono_us() + ERAS_GUARD_MS * UINT64_C(1000);
    while (own_count(m->filter->lane[0].own) > 0 && clock_mono_us() < until)
        clock_sleep_us(1000);
    assert_int_equal(own_count(m->filter->lane[0].own), 0);
}

void eras_answer_roll_call(const uint8_t id[LOG_WRITER_BYTES])
{
    struct error e = {""};
    struct own *own = own_new(1000);
    struct roll r;
    uint64_t era;
    eras_case_load();
    roll_init(&r, on.link, &on.names, id);
    must(roll_answer(&r, on.view, 0, own, &era, &e), e);
    roll_fini(&r);
    own_free(own);
}

void eras_lose(void)
{
    struct error e = {""};
    must(client_ok(&on.client, &e, "REPLICAOF 127.0.0.1 1"), e);
    must(client_ok(&on.client, &e, "REPLICAOF NO ONE"), e);
    assert_int_equal(eras_case_look(), ERAS_WRITE);
}

void eras_open(struct log_member *m, uint64_t memory, uint64_t grace_us)
{
    struct error e = {""};
    const struct log_member_options o = {.nodes = &on.nodes,
                                         .names = &on.names,
                                         .memory = memory,
                                         .timeout_ms = REPLY_MS,
                                         .writer_grace_us = grace_us,
                                         .folds = true};
    must(log_member_open(m, &o, &e), e);
}

void eras_await_degraded(const struct log_member *m)
{
    uint64_t until = clock_mono_us() + ERAS_GUARD_MS * UINT64_C(1000);
    while (eras_case_look() != ERAS_KEEP && clock_mono_us() < until) {
        clock_sleep_us(5000);
        eras_case_load();
    }
    if (eras_case_look() != ERAS_KEEP)
        fail_msg("it waits: %s", m->last.text);
    assert_true(on.view->degraded);
}

void eras_shard_key(uint32_t i, struct key_name *key)
{
    names_log_shard(&on.names, (struct shard_id){on.view->slot[1].shape.number, 0, i}, key);
}
