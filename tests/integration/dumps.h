/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_DUMPS_H
#define TESTS_INTEGRATION_DUMPS_H
/* Dumps as a client has them, each piece with its position; and two installations, to move dumps from one to
 * the other. */
#include "shard/filter/names.h"
#include "tests/integration/fixture.h"

enum {
    DUMP_PIECES_MAX = 64,
    TWO_REPLY_MS = 30000,
    TWO_ABSENT = 50000 /* keys that two_false_positives() checks */
};

/* `from` has two nodes, Postgres and the filter FILTER. `to` has one node with little memory, another prefix
 * ("other") and the filter `configured`. */
struct two {
    struct fixture fixture;
    struct temp_redis redis;
    struct daemon daemon;
    struct client from, to;           /* coordinators */
    struct client from_node, to_node; /* the first node of each */
};

/* For a CMocka group. */
int two_start(struct two *t);
int two_stop(struct two *t);

struct dump;

/* Make a filter at `from` with the keys [0, @count), and dump it. */
void two_make(struct two *t, const char *name, unsigned capacity, unsigned count, struct dump *d);
/* Make a filter with 3000 keys in several layers, so that its dump has several chunks. */
void two_make_layers(struct two *t, const char *name, struct dump *d);

/* Count the matching keys of `to_node`; find a matching key of @node; send a command to @node that must not
 * fail. */
unsigned two_count_keys(struct two *t, const char *pattern);
void two_find_key(struct client *node, const char *pattern, char name[KEY_NAME_MAX]);
void two_tell(struct client *node, const char *command, const char *key);

/* The reply to a command must be this error or status; a call of dump_...() must have ended with this
 * error. */
void two_says(struct client *c, const char *command, const char *reply);
void two_refused(enum err code, const struct error *e, const char *text);

void two_all_present(struct client *c, const char *filter, uint64_t first, uint64_t count);
uint64_t two_false_positives(struct client *c, const char *filter);
int64_t two_status(struct client *c, const char *filter, const char *field);
/* BF.INFO must be equal for @a at `from` and @b at `to`. */
void two_same_info(struct two *t, const char *a, const char *b);

/* Run `twinbloom ARGUMENTS` at a coordinator. Returns the exit code; *@output has both outputs, which the
 * caller frees. */
int two_cli(const struct client *c, const char *arguments, char **output);
/* As above: the exit code must be @code, and the output must contain @part. */
void two_cli_says(const struct client *c, const char *arguments, int code, const char *part);

struct piece {
    int64_t position; /* that BF.SCANDUMP returned with the piece */
    size_t length;
    char *data;
};

struct dump {
    size_t count; /* piece[0] is the header */
    struct piece piece[DUMP_PIECES_MAX];
};

/* Request the piece at @position and append it. ERR_NOT_FOUND: the dump is complete. ERR_REFUSED: an error
 * reply. */
MUST_CHECK enum err dump_next(struct dump *d, struct client *c, const char *filter, int64_t position,
                              struct error *e);
/* Request all pieces after the last one in @d (from 0 if @d is empty). */
MUST_CHECK enum err dump_rest(struct dump *d, struct client *c, const char *filter, struct error *e);
void dump_free(struct dump *d);

/* Load one piece, or all in order. ERR_REFUSED: an error reply, whose text is in @e. */
MUST_CHECK enum err dump_load(const struct piece *p, struct client *c, const char *filter, struct error *e);
MUST_CHECK enum err dump_load_all(const struct dump *d, struct client *c, const char *filter,
                                  struct error *e);
#endif
