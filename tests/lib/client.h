/* SPDX-License-Identifier: MIT */
#ifndef TESTS_LIB_CLIENT_H
#define TESTS_LIB_CLIENT_H
/* A small blocking Redis client for tests, over hiredis. One thread at a time may use a connection. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <hiredis/hiredis.h>
#include "base/error.h"
#include "tests/lib/process.h"

struct client {
    redisContext *redis;
    uint16_t port;
};

/* Connect to 127.0.0.1:@port. @timeout_ms limits the connect and every later reply. */
MUST_CHECK enum err client_open(struct client *c, uint16_t port, unsigned timeout_ms, struct error *e);
/* A zeroed struct is fine. */
void client_close(struct client *c);

/* Connect and send PING until the reply is PONG or asks for a password. If @watched is not NULL, give up as
 * soon as that process has ended. */
MUST_CHECK enum err client_wait_ping(uint16_t port, unsigned deadline_ms, struct process *watched,
                                     struct error *e);

/* Send one command and wait for the reply, which the caller frees. NULL: the connection broke or timed
 * out. */
redisReply *client_command(struct client *c, const char *format, ...);
redisReply *client_argv(struct client *c, size_t argc, const char *const argv[], const size_t lengths[]);

/* Send one command whose reply must have the type of the function's name. ERR_IO: no reply; ERR_REFUSED: an
 * error reply (its text is in @e); ERR_PARSE: a reply of another type or value (described in @e). */
MUST_CHECK enum err client_integer(struct client *c, int64_t *out, struct error *e, const char *format, ...);
MUST_CHECK enum err client_ok(struct client *c, struct error *e, const char *format, ...);
/* As client_integer(), repeated while the reply is BUSY, because a job of any kind has the filter. */
MUST_CHECK enum err client_when_free(struct client *c, unsigned deadline_ms, struct error *e,
                                     const char *command);

/* Send SAVE, as soon as no background save is running: a replica that attached has started one. */
MUST_CHECK enum err client_save(struct client *c, struct error *e);

/* A function of this type makes the key for a number, so that no test has to store its keys. It returns the
 * length. */
enum { CLIENT_KEY_MAX = 64 };
typedef size_t client_key_fn(uint64_t number, char out[CLIENT_KEY_MAX]);

/* BF.MEXISTS of the keys [@first, @first + @count) in chunks. *@present is how many were answered 1.
 * *@first_absent is the number of the first key that was answered 0; it is untouched if there is none, and
 * @first_absent may be NULL. */
MUST_CHECK enum err client_mexists(struct client *c, const char *filter, client_key_fn *key, uint64_t first,
                                   uint64_t count, uint64_t *present, uint64_t *first_absent,
                                   struct error *e);

/* BF.MADD of the same keys in chunks. Every element of the reply must be an integer. */
MUST_CHECK enum err client_madd(struct client *c, const char *filter, client_key_fn *key, uint64_t first,
                                uint64_t count, struct error *e);

/* Get one field of TB.STATUS @filter as text. ERR_NOT_FOUND: the reply has no such field. */
MUST_CHECK enum err client_status(struct client *c, const char *filter, const char *field, char *out,
                                  size_t size, struct error *e);
/* Get one field as a number. A time ("..._at") is in milliseconds since 1970. */
MUST_CHECK enum err client_status_number(struct client *c, const char *filter, const char *field,
                                         int64_t *out, struct error *e);

/* Repeat TB.STATUS @filter until @field is @wanted. If the connection breaks, connect again. ERR_TIMEOUT: the
 * text has the last value and the whole status. */
MUST_CHECK enum err client_wait_status(struct client *c, const char *filter, const char *field,
                                       const char *wanted, unsigned deadline_ms, struct error *e);

/* As client_wait_status(), until a number, read by client_status_number(), is at least @wanted. */
MUST_CHECK enum err client_wait_status_least(struct client *c, const char *filter, const char *field,
                                             int64_t wanted, unsigned deadline_ms, struct error *e);

/* Call @each with the name of every key that matches @pattern (SCAN). */
typedef void client_name_fn(const char *name, void *arg);
MUST_CHECK enum err client_scan(struct client *c, const char *pattern, client_name_fn *each, void *arg,
                                struct error *e);
#endif
