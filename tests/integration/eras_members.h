/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_ERAS_MEMBERS_H
#define TESTS_INTEGRATION_ERAS_MEMBERS_H
/* Members of a filter whose shards' node gets another replication id (eras_case.h). */
#include "tests/integration/eras_case.h"
#include "tests/integration/log_members.h"

enum { ERAS_GUARD_MS = 20000 };

/* Whether @m has said that it wrote all shards; wait for that. */
bool eras_has_written(const struct log_member *m);
void eras_await_written(const struct log_member *m);

/* Wait until @m has forgotten its own entries: the shards have their keys, and the view, which is usually on
 * another node, says so. */
void eras_await_forgotten(const struct log_member *m);

/* Answer the roll call as @id, which has no entry to append again. */
void eras_answer_roll_call(const uint8_t id[LOG_WRITER_BYTES]);
/* The node may have lost what it had. */
void eras_lose(void);

/* A member that must wait for writers that are gone. @memory: limit of its shards in memory. @grace_us: so
 * long for an answer. */
void eras_open(struct log_member *m, uint64_t memory, uint64_t grace_us);
enum {
    ERAS_HASTY_US = 20 * 1000,
    ERAS_PATIENT_US = 400 * 1000 /* graces can be told apart on a busy machine */
};
/* Wait until the view takes the node's id, and is degraded. */
void eras_await_degraded(const struct log_member *m);
/* The name of shard @i of the generation that is read. */
void eras_shard_key(uint32_t i, struct key_name *key);
#endif
