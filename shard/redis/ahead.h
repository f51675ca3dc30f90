/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_AHEAD_H
#define SHARD_REDIS_AHEAD_H
/* Replies that a sync client asks for before they are needed: for many users in a few round trips, where each
 * user would wait for its own. A user is somebody who will send the same commands in the same order, such as
 * a look at one of a thread's filters.
 *
 * The happy path is: begin; ask for all users; read; ask for what must be read behind that; close; let one
 * user after the other send what it always sends. Its commands get the replies as long as they are those that
 * were asked for, in order. The first other one, and all behind it, are sent to their nodes as ever. If a
 * reply cannot be read, or a connection breaks between the first reply and the close, all users ask for
 * themselves.
 *
 * So a user must take what it compares the replies with (a counter, the time) before it is asked for. */
#include <stdbool.h>
#include "shard/redis/sync_client.h"

/* False: @l has unread replies, or is pinned. Until ahead_end() a connection that breaks is not made again,
 * as where @l is pinned. */
MUST_CHECK bool ahead_begin(struct sync_client *l);
/* Ask for what sync_client_ask() will ask. @user: 1 or more. */
void ahead_ask(struct sync_client *l, unsigned user, unsigned where, const char *format, ...);
/* Wait for all that was asked for: what is asked for next is read later. In a cluster ask for its masters,
 * too. */
void ahead_read(struct sync_client *l);
/* The number of masters, and how sync_client_masters() will be asked for them: once for all users. From then
 * on sync_client_master() and the like have them. Behind ahead_read(); any other user of
 * sync_client_masters() ends the whole. */
unsigned ahead_masters(const struct sync_client *l);
void ahead_ask_masters(struct sync_client *l, unsigned user);
/* Ask for what sync_client_replications() will ask. Behind ahead_read(). */
void ahead_ask_replications(struct sync_client *l, unsigned user);
/* Read the rest, and the role of each node behind it. */
void ahead_close(struct sync_client *l);
/* From now on @user sends; 0: nobody of them. */
void ahead_use(struct sync_client *l, unsigned user);
/* Forget what was not used. */
void ahead_end(struct sync_client *l);

/* All of that, for users 0 to @count - 1 in groups of AHEAD_GROUP: @ask asks for all that the @i-th one will
 * send, as @user; then @use has the @i-th one send it. Before each group, unread replies are forgotten. @use
 * false: the remaining users send nothing. @l is not pinned. */
enum { AHEAD_GROUP = 64 };
typedef void ahead_ask_fn(void *arg, size_t i, unsigned user);
typedef bool ahead_use_fn(void *arg, size_t i);
void ahead_each(struct sync_client *l, size_t count, ahead_ask_fn *ask, ahead_use_fn *use, void *arg);
#endif
