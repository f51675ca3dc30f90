/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REQUEST_KEY_REQUEST_INTERNAL_H
#define SHARD_REQUEST_KEY_REQUEST_INTERNAL_H
/* The parts of a request's way. Its worker calls. */
#include "shard/request/key_request.h"
#include "shard/request/log_filter_state.h"

/* The request's keys of one lane. */
struct lane_part {
    struct key_request *request;
    struct lane_request asked;
    unsigned first, count; /* in the request's hashes */
    bool is_under_way;
};

/* --- key_bind.c --- */

enum binding {
    BINDING_DONE,
    BINDING_WAITS,  /* for a change of the filter */
    BINDING_SLOWED, /* for the next tick of its port */
    BINDING_OVER    /* the request has its code and text */
};

enum binding key_request_bind(struct key_request *q);
/* Let go of the generation, of the room that was not used, and of the blocks. */
void key_request_release(struct key_request *q);
/* It waits for room no more. True: it did. */
bool key_request_stop_waiting(struct key_request *q);

/* --- key_acks.c --- */

/* Calls key_request_end_part() when all have come. */
void key_request_begin_acks(struct key_request *q);
void key_request_leave_acks(struct key_request *q);

/* --- key_request.c --- */

/* Go on with the next part of the keys; the last one ends the request. */
void key_request_end_part(struct key_request *q);
#endif
