/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_RESP_CLIENT_H
#define SERVICE_RESP_CLIENT_H
/* One connection of a client: its life (client.c), from bytes to commands (client_input.c), replies in the
 * order of the commands (request.c), and from replies to bytes (client_output.c). It belongs to its worker's
 * thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <event2/bufferevent.h>
#include <event2/util.h>
#include "base/buffer.h"
#include "service/keys/key_operation.h"
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

/* A copy of a command that is part of a transaction, or that waits behind other commands. */
struct queued_command {
    STAILQ_ENTRY(queued_command) link;
    size_t count;
    struct argument *arguments; /* lies in the same allocation */
};

STAILQ_HEAD(command_list, queued_command);

/* The memory that holds a command, once somebody has taken the command over. */
struct command_memory {
    struct buffer bytes;
    struct argument *arguments;
    struct queued_command *queued;
};

void command_memory_fini(struct command_memory *m);

enum reply_shape {
    REPLY_ONE,   /* the reply to one key */
    REPLY_ARRAY, /* an array with one element for each key */
    REPLY_COUNT  /* the number of keys that are new, or that were found */
};

/* A command that checks or adds keys. */
struct key_command {
    struct key_query asked;
    enum reply_shape shape;
    const struct argument *keys;
    size_t count;
};

/* The state of a connection. Only client_enter() changes it; the table in client.c has the allowed edges. */
enum client_state {
    CLIENT_READY,   /* commands are started as their bytes arrive */
    CLIENT_STALLED, /* a command waits until the replies before it are written */
    CLIENT_BLOCKED, /* one command runs alone: it is answered by another thread, or it is a batch */
    CLIENT_HELD,    /* the worker has too much in flight */
    CLIENT_CLOSING, /* nothing more is started; the client is destroyed when all replies are written */
    CLIENT_GONE     /* destroyed; the memory is freed with the last reference */
};

struct client {
    LIST_ENTRY(client) link;
    TAILQ_ENTRY(client) held_link; /* used while CLIENT_HELD */
    TAILQ_ENTRY(client) due_link;  /* used while `is_due` */
    TAILQ_ENTRY(client) late_link; /* used while `is_late` */
    struct worker *worker;
    enum client_state state;
    /* With TLS: all I/O; without TLS: only writes what the socket did not take at once. */
    struct bufferevent *io;
    struct event *readable; /* NULL with TLS */
    struct fresh {
        char *bytes;
        size_t length;
    } fresh; /* bytes that were just read and are not parsed yet; they lie in the worker's memory */
    struct resp_parser parser;
    struct buffer input; /* bytes of a command that came in several pieces, or that has to wait */
    size_t input_from;   /* bytes of `input` before this offset are already used */
    /* The command that is being run, for client_take_command(). */
    struct present {
        /* Set if the command comes from a transaction or waited; NULL if it comes from bytes. */
        struct queued_command *queued;
        const char *bytes;
        size_t length;   /* number of bytes that are available from `bytes` on */
        size_t more;     /* bytes behind the command that are started together with it */
        unsigned others; /* number of commands in these bytes; see client_run_take() */
        bool taken;
        bool took_input; /* `input` itself was taken, not a copy */
        bool put_off;    /* the handler has put the command off until the replies before it are written */
    } present;
    struct request_list requests;
    size_t request_count; /* commands in `requests` */
    /* How many of `requests` are running checks that would see keys added after them. */
    size_t early_checks;
    struct command_list transaction; /* commands between MULTI and EXEC */
    struct command_list replay;      /* commands of an EXEC; they run before any newer command */
    size_t transaction_count, transaction_bytes, replay_bytes;
    bool in_transaction, transaction_failed;
    bool mute; /* a reply could not be written, so no later reply is written either */
    bool pumping;
    bool is_tls;
    bool reads;       /* the loop reports incoming bytes */
    bool ended;       /* the client has sent its last byte */
    bool is_late;     /* client_write_known() will be called in some milliseconds */
    bool is_due;      /* client_turn_ends() will be called at the end of this turn of the loop */
    bool answered;    /* the first of `requests` has its answer */
    bool turn_is_due; /* client_advance() will be called in the next turn of the loop */
    struct session session;
    int protocol;
    unsigned references; /* held by calls in the admin thread or on their way to it, and by pumping */
    uint64_t id;
    uint64_t connected_us;
    uint64_t active_us;  /* when bytes last came in or were last sent */
    uint64_t arrived_us; /* when bytes last came in */
    uint64_t waiting_us; /* when the commands in `replay` came in */
    struct counted {
        size_t row;           /* row of the meter; METER_NO_ROW: the command is not counted */
        uint64_t came_us;     /* when the command came in */
    } counted;                /* the command that is being run */
    uint64_t unread_since_us; /* since when too many reply bytes are unread; 0: the client reads in time */
    const char *command;      /* the last command that was run, such as "PING" or "client|list"; NULL: none */
    char name[256];
    char library[128];
    char library_version[64];
    char address[64];
    struct buffer out; /* replies of this turn of the loop, sent at its end; unused with TLS */
    /* `io` has replies that the socket did not take; the loop reports when it can take more. */
    bool writes;
    size_t request_bytes; /* bytes of keys and replies in `requests` */
    size_t memory;        /* bytes of the worker's client_memory that this client holds */
};

/* Make a client and take @fd over. @tls: the connection begins with a handshake. NULL: no memory. */
struct client *client_new(struct worker *w, int fd, const char *address, bool tls);
void client_close_when_idle(struct client *c);
/* The client has sent its last byte. */
void client_has_ended(struct client *c);
/* Destroy the client at once, even if operations are under way. */
void client_destroy(struct client *c);
/* As client_destroy(), with a line in the log that says why. */
void client_cut(struct client *c, const char *why);
/* Append bytes of a reply. They are sent at the end of this turn of the loop, in one write with all others.
 * False: no memory. */
MUST_CHECK bool client_put(struct client *c, const void *bytes, size_t length);
/* The client's first request has its answer: continue with it at the end of this turn of the loop. */
void client_answered(struct client *c);
/* Called by the worker at the end of that turn. */
void client_turn_ends(struct client *c);
/* The client's first request still waits: write those of its replies that are known. */
void client_write_known(struct client *c);
/* Called every second: closes a client that is idle or does not read. @crowded: others were rejected, because
 * max_clients are connected; then a client that has sent its last byte gets no more replies. */
void client_tick(struct client *c, uint64_t now_us, bool crowded);
/* Called after the worker's configuration has changed. */
void client_reconfigure(struct client *c);

/* --- for commands --- */
/* True if the client has to log in first. A client that has logged in, or that connected while no login was
 * needed, stays logged in when the password changes. */
bool client_needs_login(struct client *c);
/* Begin and end one immediate reply, written at its place in the order of commands. */
struct reply client_reply_begin(struct client *c);
void client_reply_end(struct client *c);
void client_error(struct client *c, const char *format, ...) PRINTF_LIKE(2, 3);
/* As reply_failure(). */
void client_failure(struct client *c, enum err code, const char *format, ...) PRINTF_LIKE(3, 4);

/* Check or add @count keys. The reply is written when the answers are known. */
void client_operate(struct client *c, enum operation_kind kind, const struct argument *filter,
                    const struct argument *keys, size_t count, enum reply_shape shape,
                    const struct creation *creation);

enum {
    CLIENT_RUN_KEYS = 128,       /* at most; an entry of the log has as many keys */
    CLIENT_RUN_BYTES = 64 * 1024 /* bytes of the commands behind the first one */
};
/* A run is consecutive commands of a pipeline that differ in their key alone. They are started together, as
 * one request with a reply for each key. So the fixed cost of a command is paid once for all of them.
 *
 * Take the commands that follow the present one into its run. @k describes the present command. @keys has
 * room for CLIENT_RUN_KEYS keys: it gets the present command's key and those that follow. Returns their
 * number. The caller need not start these commands any more. */
size_t client_run_take(struct client *c, const struct key_command *k, const struct argument *filter,
                       struct argument *keys);

/* Run @call in the admin thread, which takes it over. The client starts nothing else until the reply is
 * written. */
void client_call_admin(struct client *c, struct admin_call *call);
/* As client_call_admin(), for commands that are answered in other ways. The client starts nothing else until
 * client_answer() is called in its worker's thread. That call must be made even if the client was destroyed
 * meanwhile. NULL: no memory. */
MUST_CHECK struct request *client_await(struct client *c);
void client_answer(struct client *c, struct request *r, const struct buffer *reply);
/* Read nothing more. The client must take what is written within a limited time. */
void client_close_after_reply(struct client *c);
/* Append a copy of a command to @list. Returns the bytes that the copy takes; 0: no memory. */
MUST_CHECK size_t client_queue_command(struct command_list *list, const struct argument *arguments,
                                       size_t count);
void client_clear_commands(struct command_list *list);
/* Does what DISCARD does. */
void client_drop_transaction(struct client *c);

/* Keep the command that is being run beyond the return of its handler. The caller owns @out; the array of
 * arguments that the handler got stays valid in it. False: no memory. */
MUST_CHECK bool client_take_command(struct client *c, struct command_memory *out);

/* --- between client*.c and request.c --- */
enum {
    OUTPUT_HIGH = 1024 * 1024, /* with more unread bytes of replies than this, no more commands are started */
    CLIENT_OUTPUT_LOW = 64 * 1024,
    REQUESTS_MAX = 8192 /* with this many commands in flight on one connection, its bytes wait */
};

void client_enter(struct client *c, enum client_state to);
/* Make the client CLIENT_READY if its state is @from. */
void client_leave(struct client *c, enum client_state from);
/* Make the client CLIENT_CLOSING unless it is CLIENT_GONE. */
void client_end(struct client *c);
/* As client_end(), and write no more replies. A reply, or a part of one, is missing, and the client would
 * take what follows for it. */
void client_mute(struct client *c);
/* Count again how much memory the client holds. */
void client_account(struct client *c);
/* Start the commands that may be started: first those that wait in `replay`, then those in new bytes. */
void client_pump(struct client *c);
/* Tell the loop whether to report incoming bytes. */
void client_read_on(struct client *c, bool more);
/* True if so many reply bytes are unread that no more commands are started. */
bool client_reads_slowly(const struct client *c);
/* @arg is the client. Used without TLS. */
void client_on_bytes(evutil_socket_t fd, short events, void *arg);
/* Used with TLS. */
void client_on_read(struct bufferevent *io, void *arg);
void client_on_written(struct bufferevent *io, void *arg);

/* Give a reference back. The memory is freed with the last reference, once the client is destroyed. */
void client_unref(struct client *c);
/* Write the replies that may be written, then start the commands that waited for this. */
void client_advance(struct client *c);
void client_write_done(struct client *c);
void client_drop_requests(struct client *c);
/* The number of reply bytes that the client has not read. */
size_t client_unread(const struct client *c);
#endif
