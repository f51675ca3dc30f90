/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_LANES_H
#define TESTS_INTEGRATION_LANES_H
/* Shared parts of the tests of lanes: entries, and a record of those that a reader of a lane has applied. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "shard/log/lane_sync.h"
#include "tests/lib/client.h"

/* Fail the test with the error's text unless @expression gives @code. */
#define gives(code, expression, e)                                                                           \
    do {                                                                                                     \
        enum err got_ = (expression);                                                                        \
        if (got_ != (code))                                                                                  \
            fail_msg("%s: %s (%s), expected %s", #expression, error_name(got_), (e).text, error_name(code)); \
    } while (0)
#define must(expression, e) gives(ERR_OK, expression, e)

extern const uint8_t lanes_writer[LOG_WRITER_BYTES];

/* Make an entry of @count keys that derive from @sequence. Returns its length. */
size_t lanes_entry(uint8_t out[LOG_ENTRY_BYTES_MAX], uint64_t sequence, unsigned count);

/* The sequences of lanes_writer's entries in the order in which they were applied. */
enum { LANES_MET_MAX = 4096 };
struct lanes_met {
    unsigned count;
    uint64_t sequence[LANES_MET_MAX];
};
enum err lanes_apply(void *arg, const struct tail_record *record, struct error *e);
/* How often @sequence was applied. */
unsigned lanes_times(const struct lanes_met *met, uint64_t sequence);

/* The replication id of the server. */
uint64_t lanes_era(struct client *c);
/* The reply to a command, which must be an integer. */
int64_t lanes_number(struct client *c, const char *command, const struct lane *lane);
#endif
