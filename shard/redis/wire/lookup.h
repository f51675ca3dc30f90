/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_WIRE_LOOKUP_H
#define SHARD_REDIS_WIRE_LOOKUP_H
/* The addresses of a host, looked up in a thread of its own: a name server that does not answer holds up
 * nobody else, and whoever waits may go. */
#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>

struct lookup;

/* Begin. NULL: no memory, no thread, or too many that do not end are under way. */
struct lookup *lookup_new(const char *host, uint16_t port);
/* Forget it, whether or not it has ended. NULL is fine. */
void lookup_free(struct lookup *l);

/* Can be read once it has ended. */
int lookup_fd(const struct lookup *l);

/* False: it has not ended. Then *@code is what getaddrinfo() gave, and *@out the caller's (freeaddrinfo()),
 * NULL where that is not 0. To be taken once. */
bool lookup_take(struct lookup *l, struct addrinfo **out, int *code);
#endif
