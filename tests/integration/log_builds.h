/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_LOG_BUILDS_H
#define TESTS_INTEGRATION_LOG_BUILDS_H
/* A filter that is a log, made by hand with one lane and generation 2, and builds of its next generation.
 * Keys are numbers. */
#include "migrate/build/build.h"
#include "shard/fold/folder.h"
#include "shard/generations/grace.h"
#include "shard/view/view_load.h"
#include "tests/integration/filters.h"

enum {
    LOG_OLD = 2,            /* the current generation */
    LOG_BUILD_KEYS = 20000, /* the capacity of a generation */
    LOG_SEED = 9,           /* of the filter */
    LOG_SPILLS = 16 << 10,  /* memory for a few shards */
    LOG_PAGE = 500          /* rows */
};

/* The parts of a build that one process has. */
struct log_process {
    struct sync_client *link;
    struct builder *builder;
    struct build *build; /* NULL: none yet */
};

extern struct servers log_servers;
extern struct names log_names;
extern char log_directory[];

/* Setup of a group, and of each test. */
int log_start(void **state);
int log_stop(void **state);
int log_setup(void **state);

struct key_hash log_key(uint64_t number);
/* The stored view, in static storage. */
const struct log_view *log_stored(void);
void log_set_field(const char *name, const char *value);
/* The value of a field of the view; "": there is none. */
const char *log_field(const char *name);
/* The number of keys of Redis that match "test:{f" and @pattern. */
long long log_count_keys(const char *pattern);

/* The main thread appends the keys [first, first + count) to the lane, in one entry. */
void log_add(uint64_t first, unsigned count);
void log_add_hashes(const struct key_hash *keys, unsigned count);
/* A lane_apply_fn that does nothing. */
enum err log_pass_over(void *arg, const struct tail_record *record, struct error *e);
/* The lane, and a position in it, for another thread. */
void log_lane(struct lane *out, struct log_position *at);
/* Replace lane 0: make a new lane, and name it in the view. The lane before stays open. */
void log_replace_lane(void);
/* Trim the lane to its last entry. */
void log_trim(void);
/* Delete lane 0. */
void log_lose_lane(void);

/* The layers of a build. */
struct generation log_shape(void);
void log_open(struct log_process *p, const struct nodes *nodes);
void log_close(struct log_process *p);
/* Make p->build for a build that has begun. */
void log_bits(struct log_process *p, uint64_t memory, work_fn *poll, void *arg);
/* Begin and start a build, and make p->build. */
void log_begin(struct log_process *p, uint64_t memory);
/* Put rows [first, last) by writer 0. */
void log_rows(struct log_process *p, uint64_t first, uint64_t last);
void log_checkpoint(struct log_process *p, const char *rows);
void log_cuts_over(struct log_process *p);
/* Resume the build into @p. True: it starts from the beginning; else @rows has the recorded progress,
 * NUL-terminated. */
bool log_resumes(struct log_process *p, char rows[32]);
/* Start a build that starts from the beginning, and make p->build. */
void log_starts(struct log_process *p, uint64_t memory);
/* Whether the generation LOG_OLD is still the current one. */
bool log_reads_old(void);

/* How many keys of [first, last) a process misses that loads the current generation and the lane's tail. */
uint64_t log_missing(uint64_t first, uint64_t last);
uint64_t log_missing_hashes(const struct key_hash *keys, size_t count);
/* As above for a generation's shards in Redis, without regard to the view. */
uint64_t log_missing_in(const struct generation *g, uint64_t first, uint64_t last);
/* How many shards of the generation a process can load. */
uint32_t log_count_shards(const struct generation *g);
#endif
