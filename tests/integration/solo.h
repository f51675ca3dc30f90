/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_SOLO_H
#define TESTS_INTEGRATION_SOLO_H
/* All that a process has of a filter that is a log, with the only worker in the test's own thread: the
 * control is called when it says so, or was woken, while that worker's loop runs. So a test decides what
 * comes when. */
#include <pthread.h>
#include <stdatomic.h>
#include "shard/request/control.h"
#include "shard/request/key_request.h"
#include "tests/integration/log_members.h"

struct solo {
    struct budget budget;
    struct sync_client *link;
    struct log_filter *filter;
    struct control_thread *thread; /* its own; NULL: that of the options */
    struct control *control;
    struct event_base *base;
    struct async_client *store;
    struct request_port *port;
    _Atomic bool woken;   /* since the last call of the control began */
    _Atomic bool is_over; /* the call of the control that is under way */
    unsigned tends;       /* calls of the control */
    uint64_t next;        /* when the control wants to be called */
    enum err code;        /* of its last call, and its text */
    struct error last;
};

/* A request that is in memory of its own, so that whoever uses it too late is found. */
struct solo_request {
    struct key_request *q;
    struct request_key key;
    char text[24];
    uint8_t answer;
    bool told;
    enum err code;
    char why[200];
};

/* @o: its filter and link are this one's. @memory: bytes of shards. */
void solo_open(struct solo *s, const struct nodes *nodes, const struct names *names, uint64_t memory,
               const struct control_options *o);
/* At a clean stop: leaves the register. */
void solo_close(struct solo *s);
/* Call the control until it has nothing to do at once. */
void solo_tend(struct solo *s);
/* Run the loop, and the control as it wants to be called, until *@done, or for @ms; 0: 10 s, and a failure.
 */
void solo_run(struct solo *s, const bool *done, unsigned ms);
/* The same without the control. */
void solo_loop(struct solo *s, const bool *done, unsigned ms);

/* Begin a check or an add of the key "<number>"; it may be told at once. */
void solo_begin(struct solo *s, struct solo_request *r, bool adds, uint64_t number);
/* End it with ERR_CANCELLED; its memory is freed. */
void solo_fail(struct solo_request *r);
/* One key, from beginning to end: its answer; an error fails the test. */
enum key_answer solo_ask(struct solo *s, bool adds, uint64_t number);
/* The error that a request ends with, its text in @why, of 200. */
enum err solo_error(struct solo *s, bool adds, uint64_t number, char *why);
#endif
