/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_HTTP_INTERNAL_H
#define SERVICE_HTTP_INTERNAL_H
/* What http*.c share: the server, its connections, and a request from its head to its answer. All of it
 * belongs to the HTTP thread. */
#include <pthread.h>
#include <sys/queue.h>
#include <time.h>
#include <event2/event.h>
#include <event2/bufferevent.h>
#include "base/buffer.h"
#include "base/mailbox.h"
#include "service/core/sockets.h"
#include "service/http/http.h"
#include "service/http/message/http_body.h"
#include "service/http/message/http_origin.h"
#include "service/http/message/http_parse.h"
#include "service/http/message/http_problem.h"
#include "service/http/http_route.h"
#include "service/meter/meter.h"
#include "service/config/users.h"

enum {
    HTTP_CALLS_MAX = 64, /* calls in the admin thread or on their way to it */
    /* Memory limit of all requests and answers: this many bodies of the largest size, plus HTTP_WORKING_MORE
     * bytes. */
    HTTP_WORKING_FACTOR = 4,
    HTTP_WORKING_MORE = 1024 * 1024, /* plus this many bytes */
    HTTP_RETRY_AFTER = 1,            /* seconds */
    HTTP_ID_MAX = 64                 /* length of X-Request-Id */
};

struct batch;
struct http_connection;
struct http_events;
TAILQ_HEAD(http_connection_list, http_connection);
LIST_HEAD(http_request_list, http_request);

struct http {
    struct http_options o;
    struct service *service;
    const struct config *config; /* held */
    struct event_base *base;
    struct key_port *keys;
    struct mailbox *mailbox;
    struct meter *meter;
    struct meter_kind meter_kind; /* rows: the routes, in the order of their table; columns: statuses */
    struct event *tasks;
    struct event *turn, *tick; /* see http_connection.c */
    struct sockets sockets;
    struct http_request_list requests; /* requests that are not answered yet */
    unsigned calls;                    /* calls in the admin thread */
    size_t held; /* bytes that all connections hold, and the bodies of requests that are not answered yet */
    bool draining;
    bool stopped; /* this thread and the admin thread have ended */
    /* used by http_connection.c */
    struct http_connection_list waiting, busy, lingering, gone;
    size_t connection_count, lingering_count;
    bool full;                  /* too many connections: no more are accepted */
    struct http_events *events; /* see http_events.c */
    unsigned char csrf_key[CSRF_KEY_SIZE];
    struct buffer policy; /* security policy of the dashboard; see http_dashboard.c */
    char host[256];       /* the name of this machine */
    uint64_t next_id;     /* of the next request, before it is scrambled */
    time_t dated;         /* the time that `date` shows */
    char date[64];        /* the header Date of answers */
    pthread_t thread;
};

/* What incoming bytes are read as. */
enum reading {
    READING_HEAD,
    READING_BODY,
    READING_REST, /* the rest of an unwanted body, read behind the answer */
    READING_NOTHING
};

/* One connection. Only http_connection.c writes it, but for `request` and `on_taken`. */
struct http_connection {
    TAILQ_ENTRY(http_connection) link;
    struct http_connection_list *list; /* of `http`: where it is */
    struct http *http;
    struct bufferevent *io;
    struct event *rest;           /* while it lingers: reads what nobody wants */
    struct http_request *request; /* set from the head of the request to its answer */
    struct http_parser parser;
    /* Set for a stream: called whenever the client has taken all that was sent, until the answer ends. */
    void (*on_taken)(void *arg);
    void *on_taken_arg;
    enum reading reading;
    uint64_t since_us; /* when it began to wait, to send its request, or to be sent its answer */
    size_t held;       /* its part of http->held */
    bool sending;      /* part of a request has arrived */
    bool advancing;
    bool is_tls;
    bool shaking_hands;             /* the TLS handshake has not ended yet */
    bool ended;                     /* the other side has shut down its sending */
    bool last;                      /* the answer in the output is the last; nothing is read behind it */
    char address[ADDRESS_TEXT_MAX]; /* where it comes from */
};

/* One request. It is freed when it is answered and nobody holds it. */
struct http_request {
    LIST_ENTRY(http_request) link; /* until it is answered */
    struct http *http;
    struct http_connection *connection; /* NULL: the request is answered, or its connection is closed */
    const struct http_route *route;
    struct buffer filter; /* the filter's name, from the path */
    uint64_t job;         /* the job's number, from the path */
    struct http_body body;
    struct batch *batch;   /* used by check and add; its keys lie in the body */
    size_t working;        /* its part of http->held */
    struct buffer headers; /* further headers of the answer, each with its CRLF */
    uint64_t began_us;
    char id[HTTP_ID_MAX + 1]; /* id in the answer, and in the log if the request was slow */
    struct event *deadline;
    void (*late)(void *arg); /* answers at the deadline; NULL: 504 */
    void *late_arg;
    atomic_bool *login_is_vain; /* NULL: no password is being verified; set to true when the request ends */
    char user[USERS_NAME_MAX + 1]; /* "": no user */
    unsigned references;
    bool head;
};

/* --- http.c --- */
/* Hold the configuration in force. */
void http_sync(struct http *h);

/* --- http_request.c --- */
/* The head has arrived, or the parser has refused it, which the caller answers. Without memory for the
 * request nothing is done. */
void http_request_begin(struct http *h, struct http_connection *c);
/* The body that was asked for has arrived. */
void http_request_whole(struct http_request *r);
/* The request is answered, or its client is gone: gives back the reference that the answer held. */
void http_request_end(struct http_request *r);
struct http_request *http_request_hold(struct http_request *r);
void http_request_release(struct http_request *r);
/* Answer with @status and a JSON body, and take over @json. If the request is already answered, only @json is
 * freed. */
void http_answer(struct http_request *r, int status, struct buffer *json);
/* As http_answer(), with a body of another type. A Cache-Control header that was set before stays. */
void http_answer_as(struct http_request *r, int status, const char *type, struct buffer *body);
/* As above, with bytes that stay as long as the process. */
void http_answer_builtin(struct http_request *r, int status, const char *type, const void *bytes,
                         size_t length);
/* Answer with a problem. */
void http_problem(struct http_request *r, enum http_code code, const char *format, ...) PRINTF_LIKE(3, 4);
/* Answer with a problem for @code of base/error.h. http_failure() is for codes whose text does not name the
 * filter that was not found. */
void http_error(struct http_request *r, enum err code, const char *format, ...) PRINTF_LIKE(3, 4);
void http_failure(struct http_request *r, enum err code, const char *why);
/* Answer a request that http_parse.c or http_origin.c refused with @status. */
void http_refusal(struct http_request *r, int status, const char *why);
void http_no_memory(struct http_request *r);
/* Add a header to the answer. Call before the answer. */
void http_header(struct http_request *r, const char *name, const char *value);
/* Have @late answer with what is known when @ms have passed, or http_timeout. False: no memory; it is
 * answered. */
MUST_CHECK bool http_deadline(struct http_request *r, uint64_t ms, void (*late)(void *arg), void *arg);
/* The value of a request's header; NULL: the header is missing. */
const char *http_asked(const struct http_request *r, const char *header);
/* Begin an answer of unknown length. The connection is closed at its end. False: no memory. */
MUST_CHECK bool http_stream_begin(struct http_request *r);
bool http_stream_send(struct http_request *r, const struct buffer *bytes);
/* End such an answer, as http_request_end(). */
void http_stream_end(struct http_request *r);

/* --- http_query.c --- */
/* False: the query is ambiguous, and the request was answered. */
MUST_CHECK bool http_query_is_sound(struct http_request *r);
/* The value of @name; NULL: it is missing. The caller frees it. */
char *http_query(const struct http_request *r, const char *name);

/* --- http_admin.c --- */
/* Have the admin thread run the route's function, and answer with its reply. */
void http_ask(struct http_request *r);

/* --- http_metrics.c --- */
/* Make the meter of this thread. @kind is filled with the routes and lives as long as the meter. NULL: no
 * memory. */
struct meter *http_meter_new(struct meter_kind *kind);
/* Count that @r is answered with @status. */
void http_meter_count(struct http_request *r, int status);
/* True if metrics can be read without a login. */
bool http_scrapes_freely(struct http_request *r);

/* --- http_connection.c --- */
MUST_CHECK enum err http_connections_init(struct http *h, struct error *e);
void http_connections_fini(struct http *h);
/* Callbacks of the sockets that listen; @arg is the struct http. */
void http_connection_not_accepted(struct evconnlistener *listener, void *arg);
void http_connection_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *address,
                            int length, void *arg);
/* Close the connections that wait for a request. The loop ends when the last connection is closed. */
void http_connections_drain(struct http *h);
/* True if @more bytes would exceed the memory limit. */
bool http_is_flooded(const struct http *h, size_t more);

/* Read the body of the request, or read and drop it if it is not @wanted. http_request_whole() is called
 * afterwards. */
void http_connection_read_body(struct http_connection *c, bool wanted);
/* Return the body that was read. The caller owns it. */
struct buffer http_connection_take_body(struct http_connection *c);
/* True if another request may follow this one, whose body is not wanted. */
bool http_connection_may_go_on(struct http_connection *c);
/* False: no memory. */
MUST_CHECK bool http_connection_send(struct http_connection *c, const void *bytes, size_t length);
/* As http_connection_send(), for an answer that is complete. */
MUST_CHECK bool http_connection_answer(struct http_connection *c, const struct buffer *head,
                                       const struct buffer *body);
/* The answer was sent. @last: it is the last answer of the connection. */
void http_connection_answered(struct http_connection *c, bool last);
/* The number of sent bytes that the client has not taken yet. */
size_t http_connection_unread(const struct http_connection *c);
/* Close the connection at once, with the request that it serves. */
void http_connection_drop(struct http_connection *c, const char *why);

/* --- http_access.c --- */
/* Find out who the user is, then call @go_on, or answer that the user is unknown. This happens now or later,
 * but not if the request has been answered meanwhile. */
typedef void http_known_fn(struct http_request *r);
void http_authenticate(struct http_request *r, http_known_fn *go_on);
/* Have @call list only what the user may see. False: no memory. */
MUST_CHECK bool http_limit(struct http_request *r, struct admin_call *call);
/* True if the user has @role for @filter (NULL: no filter, or all of them). False: the request was
 * answered. */
MUST_CHECK bool http_authorise(struct http_request *r, enum http_role role, const char *filter,
                               size_t length);

/* --- http_events.c --- */
MUST_CHECK enum err http_events_init(struct http *h, struct error *e);
/* A view has changed: streams should get it soon. */
void http_events_hurry(struct http *h);
/* End all streams, and begin no more. */
void http_events_drain(struct http *h);
/* http_events_forget(): the thread has ended; forget the streams. http_events_fini(): call once no look is
 * under way; frees everything. */
void http_events_forget(struct http *h);
void http_events_fini(struct http *h);

/* --- http_dashboard.c --- */
MUST_CHECK enum err http_dashboard_init(struct http *h, struct error *e);
#endif
