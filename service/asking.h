/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_ASKING_H
#define SERVICE_ASKING_H
/* An operation on behalf of a client, and what an add may need before it can be done: a filter that is to be
 * made, another layer for one that is full. Belongs to the client's worker. */
#include <stdbool.h>
#include "service/reply.h"
#include "shard/operation.h"

struct client;

/* What is to be made where an add finds no filter. */
struct creation {
    bool allowed;
    uint64_t capacity; /* 0: as configured, or the default */
    double error_rate; /* 0: likewise */
    uint32_t expansion;
    bool non_scaling;
};

struct asking;
typedef void asking_done_fn(struct asking *a);

struct asking {
    struct client *client;
    struct catalog_filter *filter;
    struct creation creation;
    asking_done_fn *on_done;
    struct operation *op;
    unsigned creations;
    char *refusal; /* why what the add needs could not be made; NULL: it could, or nothing was needed */
};

/* Start @op, which becomes @a's, on a->filter; on_done is called once, never from inside this call. Also to
 * ask once more what is done. The first four members are the caller's to fill. */
void asking_start(struct asking *a, struct operation *op);
/* At any time; no call comes after it, but only where the client is gone too, or on_done was called. */
void asking_fini(struct asking *a);

/* No key has a result: the reply is one error, asking_error(). A check of what was never made has results. */
bool asking_failed(const struct asking *a);
void asking_error(const struct asking *a, struct reply *out);

/* What the reply says of one key. */
enum answer {
    ANSWER_NO,
    ANSWER_YES,
    ANSWER_LOST,
    ANSWER_FULL,
    ANSWER_ERROR /* the deadline passed for this key, say: asking_error() */
};
enum answer asking_answer(const struct asking *a, size_t i);
/* @error: for ANSWER_ERROR, a whole line. */
void answer_reply(struct reply *out, enum answer answer, const char *filter, const char *error);

/* The answers to many keys as one number: how many were YES. An error of one key makes an error of the whole,
 * which says how many were. Zero-initialise. */
struct tally {
    size_t keys, done, yes;
    enum answer worst; /* the first that is no answer; ANSWER_NO where all are */
    char error[160];   /* of ANSWER_ERROR, cut */
};
void tally_add(struct tally *t, enum answer answer, const char *error);
void tally_reply(const struct tally *t, struct reply *out, const char *filter);
#endif
