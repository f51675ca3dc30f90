/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CORE_LOGIN_DELAY_H
#define SERVICE_CORE_LOGIN_DELAY_H
/* When may the next login be tried? Failures are counted per address and name. A few are free; then each
 * failure delays the next try from that address with that name, twice as long as the one before. Other
 * addresses and names are not delayed. Only time resets the count: a successful login does not, as others may
 * share its place in the table.
 *
 * The table has a fixed size. It keeps LOGIN_SOURCES addresses (for IPv6 the /64 network) and forgets the one
 * that was used least recently. The names of one address share LOGIN_NAMES places, whether or not they exist.
 * So a flood of names cannot remove a failure, and a delay does not tell whether a user exists. Pure: times
 * are arguments, in microseconds of a monotonic clock. Not thread-safe. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LOGIN_SOURCES = 1024,
    LOGIN_NAMES = 16,
    LOGIN_FREE_FAILURES = 5,
    LOGIN_DELAY_MS = 100, /* after the first failure that is not free */
    LOGIN_DELAY_MS_MAX = 5000,
    LOGIN_FORGET_S = 600 /* after the last failure */
};

enum { LOGIN_WAYS = 4, LOGIN_SETS = LOGIN_SOURCES / LOGIN_WAYS };

/* Embedded by its owner. Zero-initialise all but the seed. */
struct login_delay {
    uint64_t seed; /* random, so that nobody can choose with whom to share a place */
    uint64_t turns;
    struct login_source {
        uint64_t address; /* a hash; 0: the place is free */
        uint64_t used;    /* the last turn, see login_delay_serve() */
        struct login_failures {
            uint64_t last_us;
            uint32_t count;
        } name[LOGIN_NAMES];
    } source[LOGIN_SETS][LOGIN_WAYS];
};

/* Where a login comes from, and its name. */
struct login_who {
    uint64_t address; /* a hash */
    unsigned name;    /* index of a place */
};

/* @address is an IP address without a port, or a path. */
struct login_who login_delay_who(const struct login_delay *d, const char *address, const char *name,
                                 size_t name_length);
bool login_who_is(struct login_who a, struct login_who b);

/* The time from which on the next login may be tried; 0: there is no delay. */
uint64_t login_delay_until_us(const struct login_delay *d, struct login_who who, uint64_t now_us);
void login_delay_failed(struct login_delay *d, struct login_who who, uint64_t now_us);

/* Addresses take turns: the lowest value is served next. It is the number of the address's last turn; 0: it
 * had none. */
uint64_t login_delay_turn(const struct login_delay *d, struct login_who who);
void login_delay_serve(struct login_delay *d, struct login_who who);
#endif
