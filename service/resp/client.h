/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_RESP_CLIENT_H
#define SERVICE_RESP_CLIENT_H
/* One connection of a client: its life (client.c), bytes to commands (client_input.c), replies in the order
 * of the commands (request.c), and to bytes (client_output.c). Belongs to its worker's thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <event2/bufferevent.h>
#include <event2/util.h>
#include "base/buffer.h"
#include "service/keys/pending_query.h"
#include "service/keys/request_count.h"
#include "service/protocol/reply.h"
#include "service/protocol/resp.h"
#include "service/resp/session.h"

struct worker;
struct client;
struct admin_call;
struct command;
struct request;

LIST_HEAD(client_list, client);
TAILQ_HEAD(client_queue, client);
STAILQ_HEAD(request_list, request);

/* A command of a transaction, or one that waits behind others: its own copy. */
struct queued_command {
    STAILQ_ENTRY(queued_command) link;
    size_t count;
    struct argument *arguments; /* in the same allocation */
};

STAILQ_HEAD(command_list, queued_command);

/* What a command lies in, once somebody has taken it over. */
struct command_memory {
    struct buffer bytes;
    struct argument *arguments;
    struct queued_command *queued;
};

void command_memory_fini(struct command_memory *m);

enum reply_shape {
    REPLY_ONE,   /* of one key */
    REPLY_ARRAY, /* an element a key */
    REPLY_COUNT  /* how many keys are new, or found */
};

/* A command that checks or adds keys. */
struct key_command {
    struct key_query asked;
    enum reply_shape shape;
    const struct argument *keys;
    size_t count;
};

/* What a connection is at, one at a time. client_enter() alone changes it: the table in client.c has the
 * edges. */
enum client_state {
    CLIENT_READY,   /* what has come is begun */
    CLIENT_STALLED, /* a command waits until the replies before it are written */
    CLIENT_BLOCKED, /* a command that is answered elsewhere, or a batch, runs alone */
    CLIENT_HELD,    /* the worker has too much in flight */
    CLIENT_CLOSING, /* nothing more is begun, and it goes when all is written */
    CLIENT_GONE     /* its memory goes with the last reference */
};

struct client {
    LIST_ENTRY(client) link;
    TAILQ_ENTRY(client) held_link; /* while CLIENT_HELD */
    TAILQ_ENTRY(client) due_link;  /* while `is_due` */
    TAILQ_ENTRY(client) late_link; /* while `is_late` */
    struct worker *worker;
    enum client_state state;
    struct bufferevent *io; /* TLS; else it writes alone, and only what the socket did not take at once */
    struct event *readable; /* NULL: TLS */
    struct fresh {
        char *bytes;
        size_t length;
    } fresh; /* bytes that have come just now and are not used, in the worker's memory */
    struct resp_parser parser;
    struct buffer input; /* bytes of a command that came in several pieces, or wait */
    size_t input_from;   /* what is before it in `input` is used */
    /* The command that is being run, for client_take_command(). */
    struct present {
        struct queued_command *queued; /* from a transaction or the line; else from bytes */
        const char *bytes;
        size_t length;   /* of the bytes that have come, from there on */
        size_t more;     /* bytes behind it that are begun with it, */
        unsigned others; /* and the commands in them: client_run.h */
        bool taken;
        bool took_input; /* with `input` itself */
        bool put_off;    /* by its handler: it waits until the replies before it are written */
    } present;
    struct request_list requests;
    size_t request_count;            /* commands in them */
    size_t early_checks;             /* of them, checks under way that would find what is added behind them */
    struct command_list transaction; /* between MULTI and EXEC */
    struct command_list replay;      /* of an EXEC, before anything newer */
    size_t transaction_count, transaction_bytes, replay_bytes;
    bool in_transaction, transaction_failed;
    bool mute; /* a reply is missing: none is written any more */
    bool pumping;
    bool is_tls;
    bool reads;       /* what comes */
    bool is_late;     /* client_write_known() is called in some milliseconds */
    bool is_due;      /* client_turn_ends() is called at the end of this turn of the loop: */
    bool answered;    /* the first of its requests has its answer */
    bool turn_is_due; /* client_advance() is called in the next turn of the loop */
    struct session session;
    int protocol;
    unsigned references; /* calls in or on their way to the admin thread, pumping */
    uint64_t id;
    uint64_t connected_us;
    uint64_t active_us;  /* bytes came, or were taken */
    uint64_t arrived_us; /* bytes came */
    uint64_t waiting_us; /* what waits in `replay` had come then */
    struct counted {
        size_t row;           /* of the meter; METER_NO_ROW: is not counted */
        uint64_t came_us;     /* it had come then */
    } counted;                /* the command that is being run */
    uint64_t unread_since_us; /* 0: it reads its replies in time */
    const char *command;      /* the last that was run: "PING", "client|list"; NULL: none */
    char name[256];
    char library[128];
    char library_version[64];
    char address[64];
    struct buffer out;    /* replies of this turn of the loop, which leave at its end; not of TLS */
    bool writes;          /* io has replies that the socket did not take: the loop is asked when it does */
    size_t request_bytes; /* of keys and replies of its requests */
    size_t memory;        /* its part of the worker's client_memory */
};

/* Takes @fd over. @tls: it begins with a handshake. NULL: no memory. */
struct client *client_new(struct worker *w, int fd, const char *address, bool tls);
void client_close_when_idle(struct client *c);
/* At once, whatever is under way. */
void client_destroy(struct client *c);
/* The same with a line in the log. */
void client_cut(struct client *c, const char *why);
/* Bytes of a reply: they leave at the end of this turn of the loop, with all others, in one write. False: no
 * memory. */
MUST_CHECK bool client_put(struct client *c, const void *bytes, size_t length);
/* The first of its requests has its answer: go on with it at the end of this turn of the loop. */
void client_answered(struct client *c);
/* That end has come. */
void client_turn_ends(struct client *c);
/* Its first request waits: write those of its replies that are known. */
void client_write_known(struct client *c);
/* Every second: who is idle, or does not read, is closed. */
void client_tick(struct client *c, uint64_t now_us);
/* The worker's configuration has changed. */
void client_reconfigure(struct client *c);

/* --- for commands --- */
/* True where the client is nobody. Who has logged in, or was there while no login was needed, may go on when
 * another password comes. */
bool client_needs_login(struct client *c);
/* Begin and end one immediate reply, at its place in the order. */
struct reply client_reply_begin(struct client *c);
void client_reply_end(struct client *c);
void client_error(struct client *c, const char *format, ...) PRINTF_LIKE(2, 3);
/* As reply_failure(). */
void client_failure(struct client *c, enum err code, const char *format, ...) PRINTF_LIKE(3, 4);

/* Check or add @count keys; the reply comes when it is known. */
void client_operate(struct client *c, enum operation_kind kind, const struct argument *filter,
                    const struct argument *keys, size_t count, enum reply_shape shape,
                    const struct creation *creation);

/* Run @call in the admin thread (takes it over); the client does nothing else until its reply is there. */
void client_call_admin(struct client *c, struct admin_call *call);
/* The same as client_call_admin() for what is answered by other means: the client does nothing else until
 * client_answer(), in its worker's thread, which must come even where the client was destroyed meanwhile.
 * NULL: no memory. */
MUST_CHECK struct request *client_await(struct client *c);
void client_answer(struct client *c, struct request *r, const struct buffer *reply);
/* Nothing more is read; what is written must be taken within a while. */
void client_close_after_reply(struct client *c);
/* A copy at the end of @list. Returns the bytes it takes; 0: no memory. */
MUST_CHECK size_t client_queue_command(struct command_list *list, const struct argument *arguments,
                                       size_t count);
void client_clear_commands(struct command_list *list);

/* Keep the command that is being run beyond its handler: the caller owns @out, in which its array of
 * arguments lies on. False: no memory. */
MUST_CHECK bool client_take_command(struct client *c, struct command_memory *out);

/* --- between client*.c and request.c --- */
enum {
    OUTPUT_HIGH = 1024 * 1024, /* unread bytes of replies before nothing more is begun */
    CLIENT_OUTPUT_LOW = 64 * 1024,
    REQUESTS_MAX = 8192 /* commands in flight on one connection before its bytes wait */
};

void client_enter(struct client *c, enum client_state to);
/* It is ready, if it was in @from. */
void client_leave(struct client *c, enum client_state from);
/* It is closing, unless it is gone. */
void client_end(struct client *c);
/* The same, and no reply is written any more: one, or a part of one, is missing, and what followed would be
 * taken for that. */
void client_mute(struct client *c);
/* Count all that it holds, once more. */
void client_account(struct client *c);
/* Start what may be started: first what waits of a transaction, then new bytes. */
void client_pump(struct client *c);
/* Have the loop tell of bytes that come, or not. */
void client_read_on(struct client *c, bool more);
/* So much of its replies is unread that nothing more is begun. */
bool client_reads_slowly(const struct client *c);
/* @arg: the client. */
void client_on_bytes(evutil_socket_t fd, short events, void *arg);
/* Of TLS. */
void client_on_read(struct bufferevent *io, void *arg);
void client_on_written(struct bufferevent *io, void *arg);

/* Give a reference back: the memory goes with the last one, once the client is destroyed. */
void client_unref(struct client *c);
/* Write what may be written, start what waited for that. */
void client_advance(struct client *c);
void client_write_done(struct client *c);
void client_drop_requests(struct client *c);
/* Unread replies, bytes. */
size_t client_unread(const struct client *c);
#endif
