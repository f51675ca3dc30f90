/* SPDX-License-Identifier: MIT */
#include "tests/integration/log_members.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shard/filter/block.h"
#include "shard/redis/nodes/nodes.h"

enum { TIMEOUT_MS = 5000 };

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
