/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_DUMPS_H
#define TESTS_INTEGRATION_DUMPS_H
/* Dumps as a client holds them: each piece with the position that came with it; and two installations to
 * carry them between. */
#include "shard/filter/names.h"
#include "tests/integration/fixture.h"

enum { DUMP_PIECES_MAX = 64, TWO_REPLY_MS = 30000, TWO_ABSENT = 50000 /* of two_false_positives() */ };

/* `from` has two nodes, Postgres and the filter FILTER; `to` one node with little memory, another prefix
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

/* A filter at `from` with the keys [0, @count), and its dump. */
void two_make(struct two *t, const char *name, unsigned capacity, unsigned count, struct dump *d);
/* One with 3000 keys in several layers, so that its dump has several chunks. */
void two_make_layers(struct two *t, const char *name, struct dump *d);

/* How many keys of `to_node` match; the name of one key of @node that does; a command to it that must not
 * fail. */
unsigned two_count_keys(struct two *t, const char *pattern);
void two_find_key(struct client *node, const char *pattern, char name[KEY_NAME_MAX]);
void two_tell(struct client *node, const char *command, const char *key);

/* The error or status line that a command gives; the error line that a call of dump_...() gave. */
void two_says(struct client *c, const char *command, const char *reply);
void two_refused(enum err code, const struct error *e, const char *text);

void two_all_present(struct client *c, const char *filter, uint64_t first, uint64_t count);
uint64_t two_false_positives(struct client *c, const char *filter);
int64_t two_status(struct client *c, const char *filter, const char *field);
/* BF.INFO is the same of @a at `from` and @b at `to`. */
void two_same_info(struct two *t, const char *a, const char *b);

/* `twinbloom ARGUMENTS` at a coordinator: both of its outputs (the caller frees them) and its exit code. */
int two_cli(const struct client *c, const char *arguments, char **output);
/* It must exit with @code, and @part must be in what it says. */
void two_cli_says(const struct client *c, const char *arguments, int code, const char *part);

struct piece {
    int64_t position; /* what BF.SCANDUMP returned with it */
    size_t length;
    char *data;
};

struct dump {
    size_t count; /* piece[0] is the header */
    struct piece piece[DUMP_PIECES_MAX];
};

/* Append the piece that @position asks for. ERR_NOT_FOUND: there is none, this was the end. ERR_REFUSED: an
 * error reply. */
MUST_CHECK enum err dump_next(struct dump *d, struct client *c, const char *filter, int64_t position,
                              struct error *e);
/* Go on from the last piece (from 0 where there is none) to the end. */
MUST_CHECK enum err dump_rest(struct dump *d, struct client *c, const char *filter, struct error *e);
void dump_free(struct dump *d);

/* Load one piece, or all in order. ERR_REFUSED: an error reply, its text in @e. */
MUST_CHECK enum err dump_load(const struct piece *p, struct client *c, const char *filter, struct error *e);
MUST_CHECK enum err dump_load_all(const struct dump *d, struct client *c, const char *filter,
                                  struct error *e);
#endif
