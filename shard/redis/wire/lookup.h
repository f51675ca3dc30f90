/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_WIRE_LOOKUP_H
#define SHARD_REDIS_WIRE_LOOKUP_H
/* The addresses of a host, looked up in a separate thread: a name server that does not answer delays nobody
 * else, and the caller need not wait. */
#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>

struct lookup;

/* Begin. NULL: no memory, no thread, or too many lookups are under way. */
struct lookup *lookup_new(const char *host, uint16_t port);
/* Give up the lookup, ended or not. @l may be NULL. */
void lookup_free(struct lookup *l);

/* A descriptor that is readable once the lookup has ended. */
int lookup_fd(const struct lookup *l);

/* Take the result, once. False: the lookup has not ended. *@code is getaddrinfo()'s. The caller owns *@out
 * (freeaddrinfo()), which is NULL unless *@code is 0. */
bool lookup_take(struct lookup *l, struct addrinfo **out, int *code);
#endif
