/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CLIENT_H
#define SERVICE_CLIENT_H
/* One connection of a client: bytes to commands, replies in the order of the commands. Belongs to its
 * worker's thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <event2/bufferevent.h>
#include "base/buffer.h"
#include "service/reply.h"
#include "service/resp.h"
#include "shard/operation.h"

struct worker;
struct client;
struct admin_call;

LIST_HEAD(client_list, client);

struct argument {
    const char *bytes;
    size_t length;
};

/* What is to be made where an add finds no filter. */
struct creation {
    bool allowed;
    uint64_t capacity; /* 0: as configured, or the default */
    double error_rate; /* 0: likewise */
    uint32_t expansion;
    bool non_scaling;
};

/* What is answered to an operation: its only key's result; that of each, in an array; how many keys were new
 * (checks: are there). */
enum reply_shape { REPLY_ONE, REPLY_ARRAY, REPLY_COUNT };

/* A command whose reply is not written yet. */
struct request {
    STAILQ_ENTRY(request) link;
    struct client *client;
    struct operation *op; /* NULL: the reply is in `ready`, or comes from the admin thread */
    bool done;
    enum reply_shape shape;
    bool overtaken; /* an add before it was retried after this check had been sent */
    struct creation creation;
    unsigned creations;
    struct catalog_filter *filter;
    struct buffer ready;
};

STAILQ_HEAD(request_list, request);

/* A command of a transaction, or one that waits behind others: its own copy. */
struct queued_command {
    STAILQ_ENTRY(queued_command) link;
    size_t count;
    struct argument *arguments; /* in the same allocation */
};

STAILQ_HEAD(command_list, queued_command);

struct client {
    LIST_ENTRY(client) link;
    struct worker *worker;
    struct bufferevent *io;
    struct resp_parser parser;
    struct request_list requests;
    size_t request_count;
    struct command_list transaction; /* between MULTI and EXEC */
    struct command_list replay;      /* of an EXEC, before anything newer */
    size_t transaction_count;
    bool in_transaction, transaction_failed;
    bool blocked; /* a command that is answered elsewhere runs alone */
    bool stalled; /* a command waits until the replies before it are written */
    bool closing; /* close when everything is written */
    bool destroyed;
    bool pumping;
    bool authenticated; /* see client_needs_login() */
    int protocol;
    unsigned references; /* calls in or on their way to the admin thread, pumping */
    uint64_t id;
    uint64_t connected_us;
    char name[64];
    char library[64];
    char address[64];
    struct buffer scratch;
};

/* Takes @fd over. NULL: no memory. */
struct client *client_new(struct worker *w, int fd, const char *address);
void client_close_when_idle(struct client *c);
/* At once, whatever is under way. */
void client_destroy(struct client *c);

/* --- for commands --- */
/* True where a password is in force and the client has not given one. Who has logged in, or has sent a
 * command while there was no password, may go on when another one comes. */
bool client_needs_login(struct client *c);
/* Begin and end one immediate reply, at its place in the order. */
struct reply client_reply_begin(struct client *c);
void client_reply_end(struct client *c);
void client_error(struct client *c, const char *format, ...) PRINTF_LIKE(2, 3);

/* Check or add @count keys; the reply comes when it is known. */
void client_operate(struct client *c, enum operation_kind kind, const struct argument *filter,
                    const struct argument *keys, size_t count, enum reply_shape shape,
                    const struct creation *creation);

/* Run @call in the admin thread (takes it over); the client does nothing else until its reply is there. */
void client_call_admin(struct client *c, struct admin_call *call);
void client_close_after_reply(struct client *c);
MUST_CHECK bool client_queue_command(struct command_list *list, const struct argument *arguments,
                                     size_t count);
void client_clear_commands(struct command_list *list);
#endif
