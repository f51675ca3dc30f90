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

/* Connect to 127.0.0.1:@port; @timeout_ms bounds the connect and every later reply. */
MUST_CHECK enum err client_open(struct client *c, uint16_t port, unsigned timeout_ms, struct error *e);
/* Fine on a zeroed struct. */
void client_close(struct client *c);

/* Connect and PING until PONG comes, or a request for a password. @watched, where not NULL: give up as soon
 * as this process has ended. */
MUST_CHECK enum err client_wait_ping(uint16_t port, unsigned deadline_ms, struct process *watched,
                                     struct error *e);

/* Send one command and wait for the reply, which the caller frees; NULL: the connection broke or timed out.
 */
redisReply *client_command(struct client *c, const char *format, ...);
redisReply *client_argv(struct client *c, size_t argc, const char *const argv[], const size_t lengths[]);

/* One command whose reply must be of the kind named. ERR_IO: no reply; ERR_REFUSED: an error reply (its text
 * is in
 * @e); ERR_PARSE: a reply of another type or value (described in @e). */
MUST_CHECK enum err client_integer(struct client *c, int64_t *out, struct error *e, const char *format, ...);
MUST_CHECK enum err client_ok(struct client *c, struct error *e, const char *format, ...);
/* The same again and again while the reply is BUSY: a job, one that heals by itself too, has the filter. */
MUST_CHECK enum err client_when_free(struct client *c, unsigned deadline_ms, struct error *e,
                                     const char *command);

/* SAVE, as soon as no background save is under way: a replica that attached has begun one. */
MUST_CHECK enum err client_save(struct client *c, struct error *e);

/* The keys of a set are made by a function of their number, so that none need be kept. Returns the length. */
enum { CLIENT_KEY_MAX = 64 };
typedef size_t client_key_fn(uint64_t number, char out[CLIENT_KEY_MAX]);

/* BF.MEXISTS of keys [@first, @first + @count) in chunks; *@present is the number of those answered 1, and
 * *@first_absent the number of the first one answered 0 (untouched where there is none; may be NULL). */
MUST_CHECK enum err client_mexists(struct client *c, const char *filter, client_key_fn *key, uint64_t first,
                                   uint64_t count, uint64_t *present, uint64_t *first_absent,
                                   struct error *e);

/* BF.MADD of the same in chunks; every element must be an integer. */
MUST_CHECK enum err client_madd(struct client *c, const char *filter, client_key_fn *key, uint64_t first,
                                uint64_t count, struct error *e);

/* One field of TB.STATUS @filter as text. ERR_NOT_FOUND: the reply has no such field. */
MUST_CHECK enum err client_status(struct client *c, const char *filter, const char *field, char *out,
                                  size_t size, struct error *e);
/* A moment, "..._at", in milliseconds since 1970. */
MUST_CHECK enum err client_status_number(struct client *c, const char *filter, const char *field,
                                         int64_t *out, struct error *e);

/* Ask for TB.STATUS @filter again and again until @field is @wanted; connects again where the connection
 * broke. ERR_TIMEOUT: the text says what was seen last, with the whole status. */
MUST_CHECK enum err client_wait_status(struct client *c, const char *filter, const char *field,
                                       const char *wanted, unsigned deadline_ms, struct error *e);

/* The same for a number, as client_status_number() has it, of at least @wanted. */
MUST_CHECK enum err client_wait_status_least(struct client *c, const char *filter, const char *field,
                                             int64_t wanted, unsigned deadline_ms, struct error *e);

/* Names of all keys that match @pattern (SCAN), told to @each. */
typedef void client_name_fn(const char *name, void *arg);
MUST_CHECK enum err client_scan(struct client *c, const char *pattern, client_name_fn *each, void *arg,
                                struct error *e);
#endif
