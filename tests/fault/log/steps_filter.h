/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULT_LOG_STEPS_FILTER_H
#define TESTS_FAULT_LOG_STEPS_FILTER_H
/* What all steps do with the filter, in either process. Functions return false on failure, and say why. */
#include "tests/fault/log/ledger.h"
#include "tests/fault/log/servers.h"
#include "tests/lib/log_member.h"

enum {
    STEPS_TIMEOUT_MS = 2000,
    STEPS_KEYS = 2000,           /* of the filter; each step adds some more */
    STEPS_END_US = 20000 * 1000, /* deadline of every wait */
    STEPS_LOOK_US = 2000
};

/* Lies in memory that A shares. A reads it, and changes only a copy of its own. */
struct steps {
    const struct step *kind;
    struct launcher *launcher; /* starts A */
    struct fault_servers servers;
    struct proxy *proxy;
    unsigned route;
    struct nodes a, b; /* the server through the proxy, by two users: A's and B's */
    struct names names;
    struct sync_client *link; /* the client of B */
    struct ledger *ledger;
    struct log_member writer; /* adds while the filter exists, and has its shards in memory */
    struct log_view *view;
    bool has_writer;
    uint64_t next;     /* keys below it are acknowledged */
    uint64_t requests; /* how many requests A has sent */
};

/* What process A does. Each function returns false on failure. */
struct step {
    bool filter;       /* the filter exists before the step, and a process writes */
    bool alone;        /* only A has shards in memory */
    uint64_t capacity; /* of the filter, which then grows; 0: the filter has room for all keys */
    bool (*ready)(struct steps *s, void **x); /* in A, before its requests are counted; NULL: nothing */
    bool (*before)(struct steps *s);          /* then in the test; NULL: nothing */
    bool (*act)(struct steps *s, void *x);    /* A */
    bool (*finish)(struct steps *s);          /* in B: ends the work */
    bool (*after)(struct steps *s);           /* in the test, after A has ended, too; NULL: nothing */
};

bool steps_said(enum err code, const struct error *e);
bool steps_is_said(bool ok, const char *text);

bool steps_make(struct steps *s, const struct nodes *nodes);
bool steps_begin_filter(struct steps *s);
struct log_member_options steps_member_options(struct steps *s, const struct nodes *nodes, bool folds);
/* Close the writer, whose entries are folded before it leaves. If the shard may be lost for good it cannot
 * fold, and is abandoned. */
void steps_end_writer(struct steps *s);

/* "Maybe" is right where only A has the lost shard in memory, and dies or is late. */
extern bool steps_allows_maybe;
/* Check or add the keys [first, last), until the request is answered. False: an answer is not @wanted. The
 * answers of an add that had to be repeated are not compared, as its keys may be new or not. */
bool steps_ask(struct log_member *m, bool adds, uint64_t first, uint64_t last, enum key_answer wanted);
bool steps_add_more(struct steps *s, struct log_member *m);
/* Wait until the current generation is folded up to the ends of all lanes. @m: a member besides the writer
 * whose last error is told; NULL: none. */
bool steps_wait_until_folded(struct steps *s, const struct log_member *m);
/* A new process, which only has the data in Redis, finds all acknowledged keys. */
bool steps_all_is_there(struct steps *s);
#endif
