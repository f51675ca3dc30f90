/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_RESPONDER_H
#define TESTS_INTEGRATION_RESPONDER_H
/* A server that speaks the daemon's protocol and replies what a test needs; and runs of the command line
 * against it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdbool.h>

struct responder {
    int listener;
    unsigned port;
    pthread_t thread;
    const char *_Atomic last_state; /* of the job, once it has run for two polls */
    _Atomic unsigned polls;         /* polls of the status since a rebuild; 0: there was no rebuild */
    _Atomic bool held;              /* the job holds before its cutover */
    _Atomic bool switched;          /* the new generation was in use before */
    _Atomic bool grace;             /* the new generation serves, and its grace time runs */
    _Atomic bool away;              /* Postgres is away, so dead keys are not known */
};

/* For a CMocka setup and teardown; *@state is a struct responder. */
int responder_start(void **state);
int responder_stop(void **state);

struct result {
    int code;
    char text[65536]; /* both outputs */
};

/* Run the command line with @input (a format of printf(1)) on standard input, which is no terminal. The
 * result is valid until the next run. Main thread only. */
const struct result *twinbloom(const struct responder *r, const char *input, const char *arguments);
/* Run it on a terminal, whose lines end in CR LF and which echoes @input. */
const struct result *twinbloom_on_terminal(const struct responder *r, const char *input,
                                           const char *arguments);

/* The output must be exactly @expected; or contain @part. */
void assert_run(const struct responder *r, const char *input, const char *arguments, int code,
                const char *expected);
void assert_says(const struct responder *r, const char *arguments, int code, const char *part);
#endif
