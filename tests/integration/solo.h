/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_SOLO_H
#define TESTS_INTEGRATION_SOLO_H
/* All parts of a process for a filter that is a log, with the only worker in the test's thread. The control
 * is called when it asked for that or was woken, while that worker's loop runs. So a test decides the order
 * of events. */
#include <pthread.h>
#include <stdatomic.h>
#include "shard/control/control.h"
#include "shard/request/key_request.h"
#include "tests/integration/log_members.h"

struct solo {
    struct budget budget;
    struct sync_client *link;
    struct log_filter *filter;
    struct control_thread *thread; /* this one's thread; NULL: the options' thread is used */
    struct control *control;
    struct event_base *base;
    struct async_client *store;
    struct request_port *port;
    _Atomic bool woken;   /* since the last call of the control began */
    _Atomic bool is_over; /* the present call of the control has ended */
    unsigned tends;       /* how often the control was called */
    uint64_t next;        /* when the control wants to be called */
    enum err code;        /* of the control's last call; its text is in @last */
    struct error last;
};

/* A request, in memory of its own, so that sanitizers find late uses of it. */
struct solo_request {
    struct key_request *q;
    struct request_key key;
    char text[24];
    uint8_t answer;
    bool told;
    enum err code;
    char why[200];
};

/* @o: options of the control; its filter and link are set here. @memory: bytes for shards. */
void solo_open(struct solo *s, const struct nodes *nodes, const struct names *names, uint64_t memory,
               const struct control_options *o);
/* Stop cleanly: the process leaves the register. */
void solo_close(struct solo *s);
void solo_tend_once(struct solo *s);
/* Call the control until it has nothing to do immediately. */
void solo_tend(struct solo *s);
/* Ask ahead for the control's next look, which must be all that it has to do within @within us. Between both
 * parts @between is called, unless it is NULL. solo_tend_ahead() comes next. */
void solo_ask_ahead(struct solo *s, uint64_t within, void (*between)(void));
void solo_tend_ahead(struct solo *s);
/* Run the loop, and call the control when it asks for that, until *@done, or for @ms; 0: for 10 s, after
 * which the test fails. */
void solo_run(struct solo *s, const bool *done, unsigned ms);
/* Run only the loop, without the control. */
void solo_loop(struct solo *s, const bool *done, unsigned ms);

/* Begin a check or an add of the key "<number>". It may end at once. */
void solo_begin(struct solo *s, struct solo_request *r, bool adds, uint64_t number);
/* End the request with ERR_CANCELLED; its memory is freed. */
void solo_fail(struct solo_request *r);
/* Check or add one key and return the answer. An error fails the test. */
enum key_answer solo_ask(struct solo *s, bool adds, uint64_t number);
/* Check or add one key, and return the error; its text goes to @why, of 200 bytes. */
enum err solo_error(struct solo *s, bool adds, uint64_t number, char *why);
#endif
