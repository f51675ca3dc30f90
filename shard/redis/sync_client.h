/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_SYNC_CLIENT_H
#define SHARD_REDIS_SYNC_CLIENT_H
/* Blocking, pipelined connections from one thread to all Redis nodes: for jobs and administration, never for
 * requests. Every wait has a deadline. The next use replaces a connection that failed; the pipelined commands
 * that were on it fail when their replies are read. After a node exceeded the deadline for connecting,
 * further attempts wait only a moment, for as long as that deadline.
 *
 * Commands go to addresses (nodes.h). In a cluster, a command that is redirected (MOVED, ASK) is sent on. A
 * command that fails for a moment (TRYAGAIN, CLUSTERDOWN, ...) is sent again with pauses, for @timeout_ms. So
 * two commands that are pipelined to one address may run in the other order, and the second one without the
 * first. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buffer.h"
#include "base/error.h"
#include "shard/redis/nodes/nodes.h"
#include "shard/redis/wire/replies.h"
#include "shard/filter/slots.h"

struct replications;
struct sync_client;

/* @nodes is borrowed and must outlive the client. @timeout_ms bounds connecting, and each reply. @name (a
 * literal without blanks; NULL: none) is what CLIENT LIST shows; a user who may not set it connects all the
 * same. */
struct sync_client *sync_client_new(const struct nodes *nodes, unsigned timeout_ms, const char *name);
void sync_client_free(struct sync_client *l);
const struct nodes *sync_client_nodes(const struct sync_client *l);

/* The address of all keys of a filter except its shards. */
unsigned sync_client_home(const struct sync_client *l, const struct names *names);
/* The node's name, or that of the slot's master, for people. Valid until the next call with @l. */
const char *sync_client_name(const struct sync_client *l, unsigned where);

/* Ask for all nodes that hold keys: those of the list, or the cluster's current masters, also new ones
 * without slots yet. Their addresses are valid until the next call. The reply of a master that is gone is
 * ERR_UNREACHABLE. ERR_TIMEOUT, ERR_REFUSED. */
MUST_CHECK enum err sync_client_masters(struct sync_client *l, unsigned *count, struct error *e);
unsigned sync_client_master(const struct sync_client *l, unsigned i);
/* The share of all shards that master @i is likely to get. */
double sync_client_master_share(const struct sync_client *l, unsigned i);
/* The index of the master that held @where, the address of a shard or another key, when sync_client_masters()
 * asked. The number of masters or more: no master held it. */
unsigned sync_client_master_of(const struct sync_client *l, unsigned where);
/* The lowest slot that master @i holds; SLOTS if it holds none, or if there is no cluster. */
unsigned sync_client_master_slot(const struct sync_client *l, unsigned i);
/* The address of a key of names_on_master() for master @i. Commands to this address follow a slot that moves;
 * commands to the master's own address then fail. */
unsigned sync_client_master_keys(const struct sync_client *l, unsigned i);
/* True if keys may lie on master @i: not on a cluster's master without slots. */
bool sync_client_master_has_slots(const struct sync_client *l, unsigned i);

/* Queue a command for @where. sync_client_reply() reads the replies in order. ERR_UNREACHABLE, ERR_NOMEM. */
MUST_CHECK enum err sync_client_append(struct sync_client *l, unsigned where, size_t argc,
                                       const char *const *argv, const size_t *lengths, struct error *e);

/* As above, for one command of @format, which is hiredis' (%s, %b with size_t, numbers). */
MUST_CHECK enum err sync_client_send(struct sync_client *l, unsigned where, struct error *e,
                                     const char *format, ...);

/* Queue @count commands that go over one connection together. @commands holds them, formatted; @ends holds
 * their ends. sync_client_reply() reads each reply. In a cluster these commands are not redirected one by
 * one: a reply MOVED or ASK is returned as it is, and sets *@redirect. Pass *@redirect to the next call,
 * which goes there (behind ASKING, if that is what the node asks for) and clears it. *@redirect must live
 * until the last reply is read or forgotten. *@connection (may be NULL): the number of that connection, which
 * no other connection of @l has. On error nothing is queued. */
MUST_CHECK enum err sync_client_append_together(struct sync_client *l, unsigned where,
                                                struct slot_redirect *redirect, unsigned count,
                                                const char *commands, const size_t *ends,
                                                uint64_t *connection, struct error *e);

/* Send what is queued, and read the next reply of @where. The caller frees *@out with freeReplyObject(). An
 * error reply of Redis is a reply, not an error. ERR_UNREACHABLE, ERR_TIMEOUT. */
MUST_CHECK enum err sync_client_reply(struct sync_client *l, unsigned where, redisReply **out,
                                      struct error *e);

/* The code for an error reply of a node, with its text in @e: ERR_UNREACHABLE if the node will answer later
 * (it is loading, busy, its master is down), else ERR_REFUSED. */
enum err sync_client_refusal(const struct sync_client *l, unsigned where, const redisReply *reply,
                             struct error *e);

/* Read a page of SCAN. @cursor: "0", or that of the page before; the next one, out. @type: of keys; NULL:
 * any.
 * *@out: the reply, whose second element has the names, for freeReplyObject(). Errors as
 * sync_client_command(); ERR_PARSE: it is no page. */
enum { SYNC_CLIENT_CURSOR = 32 };
MUST_CHECK enum err sync_client_scan(struct sync_client *l, unsigned where, char cursor[SYNC_CLIENT_CURSOR],
                                     const struct buffer *pattern, const char *type, redisReply **out,
                                     struct error *e);

/* Ask, behind commands that were queued for @where, whether their server is a master; and read the answer,
 * behind their replies: a connection outlives that a server becomes a replica, which still answers. In a
 * cluster both do nothing for a slot: there a replica answers MOVED. ERR_UNREACHABLE: it is a replica, and
 * the replies do not count; the next use connects again. */
MUST_CHECK enum err sync_client_send_role(struct sync_client *l, unsigned where, struct error *e);
MUST_CHECK enum err sync_client_read_role(struct sync_client *l, unsigned where, struct error *e);

/* Send one command and read its reply, which may be an error of Redis, and counts only from a master, as
 * above. @format: as sync_client_send(). All replies of pipelined commands to the same address must have been
 * read before. */
MUST_CHECK enum err sync_client_ask(struct sync_client *l, unsigned where, redisReply **out, struct error *e,
                                    const char *format, ...);
/* As sync_client_ask(). ERR_REFUSED: Redis returned an error; its text is in @e. @out NULL: the reply is not
 * wanted. */
MUST_CHECK enum err sync_client_command(struct sync_client *l, unsigned where, redisReply **out,
                                        struct error *e, const char *format, ...);

/* From now on a connection to a node that breaks is not made again: commands to that node are
 * ERR_UNREACHABLE, until each pin was taken off. So all replies of a node are one server's, wherever its
 * address leads meanwhile. */
void sync_client_pin(struct sync_client *l);
void sync_client_unpin(struct sync_client *l);
/* Count the servers of a cluster to which something was sent since the first pin. sync_client_master() has
 * their addresses, until the next call of sync_client_masters(). */
unsigned sync_client_asked(struct sync_client *l);
/* One of them is not the master that it was taken for, and does not say so: ask another node of the cluster
 * for the map, if it is time to ask. */
void sync_client_doubt_map(struct sync_client *l);

/* Forget the replies that were not read yet, and close their connections: for a fresh start after an error
 * inside a pipeline. */
void sync_client_forget(struct sync_client *l);

/* As sync_client_command(), for the filter's key P:{F}:<what>; @command has one %b, which becomes the key. */
MUST_CHECK enum err sync_client_filter_command(struct sync_client *l, const struct names *names,
                                               const char *what, const char *command, redisReply **out,
                                               struct error *e);

/* Ask all masters of @l now for their replication ids (replication.h): all nodes of the list; in a cluster
 * also masters without slots. Fills *@out anew. A master that cannot be asked gets the id 0; one that has
 * become a replica also gets the id 0, with its run_id. @known (may be NULL): an earlier result, from which
 * what a node cannot change under one id is taken: its run_id, and the bytes received. ERR_UNREACHABLE,
 * ERR_TIMEOUT: no node says which masters there are. ERR_REFUSED: the user may not call INFO. ERR_RANGE: too
 * many masters. ERR_PARSE, ERR_NOMEM. */
MUST_CHECK enum err sync_client_replications(struct sync_client *l, const struct replications *known,
                                             struct replications *out, struct error *e);
#endif
