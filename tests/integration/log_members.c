/* SPDX-License-Identifier: MIT */
#include "tests/integration/log_members.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "shard/filter/block.h"
#include "shard/filter/hash.h"
#include "shard/redis/nodes/nodes.h"

enum { TIMEOUT_MS = 5000, GUARD_US = 20 * 1000 * 1000 };

void log_members_open(struct log_member *m, const struct nodes *nodes, const struct names *names,
                      uint64_t memory, bool folds)
{
    struct error e = {""};
    const struct log_member_options o = {
        .nodes = nodes, .names = names, .memory = memory, .timeout_ms = TIMEOUT_MS, .folds = folds};
    must(log_member_open(m, &o, &e), e);
}

static enum err ask(struct log_member *m, bool adds, uint64_t first, unsigned count, uint8_t *answers,
                    struct error *e)
{
    uint64_t *keys = calloc(count, sizeof(*keys));
    for (unsigned i = 0; i < count; i++)
        keys[i] = first + i;
    enum err code = log_member_ask(m, adds, keys, count, answers, e);
    free(keys);
    return code;
}

enum err log_member_check(struct log_member *m, uint64_t first, unsigned count, uint8_t *answers,
                          struct error *e)
{
    return ask(m, false, first, count, answers, e);
}

enum err log_member_add(struct log_member *m, uint64_t first, unsigned count, uint8_t *answers,
                        struct error *e)
{
    return ask(m, true, first, count, answers, e);
}

static unsigned count_of(const uint8_t *answers, unsigned count, enum key_answer answer)
{
    unsigned n = 0;
    for (unsigned i = 0; i < count; i++)
        n += answers[i] == answer;
    return n;
}

unsigned log_member_count(struct log_member *m, uint64_t first, unsigned count, enum key_answer answer)
{
    struct error e = {""};
    uint8_t *answers = malloc(count);
    must(log_member_check(m, first, count, answers, &e), e);
    unsigned n = count_of(answers, count, answer);
    free(answers);
    return n;
}

unsigned log_member_added(struct log_member *m, uint64_t first, unsigned count)
{
    struct error e = {""};
    uint8_t *answers = malloc(count);
    must(log_member_add(m, first, count, answers, &e), e);
    unsigned n = count_of(answers, count, KEY_ADDED);
    assert_int_equal(n + count_of(answers, count, KEY_OLD), count);
    free(answers);
    return n;
}

uint64_t log_members_key_of(const struct log_view *v, unsigned lane, uint64_t from)
{
    char text[24];
    int n;
    do
        n = snprintf(text, sizeof(text), "%" PRIu64, from++);
    while (log_lane_of(hash_key(v->seed, text, (size_t)n), v->lane_count) != lane);
    return from - 1;
}

bool log_members_is_loaded(struct log_member *m)
{
    struct log_status *s = calloc(1, sizeof(*s));
    control_status(m->control, s);
    const struct resident_status *memory = &s->generation[s->generation[0].answers ? 0 : 1].memory;
    bool is = memory->shards > 0 && memory->resident == memory->shards;
    free(s);
    return is;
}

void log_members_await_loaded(struct log_member *m)
{
    uint64_t until = clock_mono_us() + GUARD_US;
    for (; !log_members_is_loaded(m); clock_sleep_us(10 * 1000))
        if (clock_mono_us() > until)
            fail_msg("not all shards are in memory: %s", m->last.text);
}

const char *log_members_failing(struct log_member *m)
{
    static char text[sizeof(m->last.text)];
    clock_sleep_us(10 * 1000);
    (void)pthread_mutex_lock(&m->lock);
    (void)snprintf(text, sizeof(text), "%s", m->failing == ERR_OK ? "" : m->last.text);
    (void)pthread_mutex_unlock(&m->lock);
    return text;
}
