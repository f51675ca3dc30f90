/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_HTTP_INTERNAL_H
#define SERVICE_HTTP_INTERNAL_H
/* What http*.c share: the server, its connections, a request from its callback to its answer. All of it
 * belongs to the HTTP thread. */
#include <pthread.h>
#include <sys/queue.h>
#include <time.h>
#include <event2/event.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>
#include "base/buffer.h"
#include "base/mailbox.h"
#include "service/http/http.h"
#include "service/http/message/http_body.h"
#include "service/http/message/http_origin.h"
#include "service/http/message/http_parse.h"
#include "service/http/message/http_problem.h"
#include "service/http/http_route.h"
#include "service/meter/meter.h"
#include "service/config/users.h"

enum {
    HTTP_CALLS_MAX = 64,     /* calls in the admin thread or on their way to it */
    HTTP_WORKING_FACTOR = 4, /* what all requests and answers hold: so many bodies of the largest size, */
    HTTP_WORKING_MORE = 1024 * 1024, /* and so many bytes */
    HTTP_RETRY_AFTER = 1,            /* seconds */
    HTTP_ID_MAX = 64                 /* of X-Request-Id */
};

struct batch;
struct http_connection;
struct http_events;
TAILQ_HEAD(http_connection_list, http_connection);
LIST_HEAD(http_request_list, http_request);
LIST_HEAD(lingering_list, lingering);

struct http {
    struct http_options o;
    struct service *service;
    const struct config *config; /* held */
    struct event_base *base;
    struct key_port *keys;
    struct mailbox *mailbox;
    struct meter *meter;
    struct meter_kind meter_kind; /* rows: routes, in the order of their table; columns: statuses */
    struct event *tasks;
    struct event *turn, *tick; /* see http_connection.c */
    struct evconnlistener *listener;
    struct http_request_list requests; /* not answered yet */
    unsigned calls;                    /* in the admin thread */
    size_t held; /* bytes of all connections and of the bodies of requests that are not answered yet */
    bool draining;
    bool stopped; /* its thread has ended, and the admin thread has */
    /* of http_connection.c */
    struct http_connection_list waiting, busy, gone;
    size_t connection_count;
    bool paused; /* takes no connections: there are too many */
    struct lingering_list lingering;
    size_t lingering_count;
    struct http_events *events; /* see http_events.c */
    unsigned char csrf_key[CSRF_KEY_SIZE];
    struct buffer policy; /* of the dashboard; see http_dashboard.c */
    char host[256];       /* the name of this machine */
    uint64_t next_id;     /* of a request, before it is scrambled */
    time_t dated;         /* of `date` */
    char date[64];        /* as answers say it */
    pthread_t thread;
};

/* One request. Freed when it is answered and nobody holds it. */
struct http_request {
    LIST_ENTRY(http_request) link; /* until it is answered */
    struct http *http;
    struct http_connection *connection; /* NULL: answered, or it is gone */
    const struct http_route *route;
    struct buffer filter; /* its name, from the path */
    uint64_t job;         /* likewise */
    struct http_body body;
    struct batch *batch;   /* of check and add: its keys lie in the body */
    size_t working;        /* its part of http->held */
    struct buffer headers; /* of the answer, each with its CRLF */
    uint64_t began_us;
    char id[HTTP_ID_MAX + 1]; /* of the answer, and of the log where it was slow */
    struct event *deadline;
    char user[USERS_NAME_MAX + 1]; /* whose request it is; "": nobody's */
    unsigned references;
    bool head;
};

/* --- http.c --- */
/* Hold the configuration in force. */
void http_sync(struct http *h);

/* --- http_request.c --- */
/* The head is there, or it is refused, which the caller answers. Nothing where there is no memory. */
void http_request_begin(struct http *h, struct http_connection *c);
/* So is the body that was asked for. */
void http_request_whole(struct http_request *r);
/* It is answered, or nobody waits for the answer: gives back the reference of the one who answers. */
void http_request_end(struct http_request *r);
struct http_request *http_request_hold(struct http_request *r);
void http_request_release(struct http_request *r);
/* Answer with @status and a JSON body; takes what is in @json. Nothing where it was answered already. */
void http_answer(struct http_request *r, int status, struct buffer *json);
/* The same with a body of another type; a Cache-Control that was given before stays. */
void http_answer_as(struct http_request *r, int status, const char *type, struct buffer *body);
/* Answer with a problem. */
void http_problem(struct http_request *r, enum http_code code, const char *format, ...) PRINTF_LIKE(3, 4);
/* The same with a code of base/error.h; of one whose text says nothing of the filter that is not found. */
void http_error(struct http_request *r, enum err code, const char *format, ...) PRINTF_LIKE(3, 4);
void http_failure(struct http_request *r, enum err code, const char *why);
/* The same for a request that http_parse.c or http_origin.c refused with @status. */
void http_refusal(struct http_request *r, int status, const char *why);
void http_no_memory(struct http_request *r);
/* A further header of the answer, before it. */
void http_header(struct http_request *r, const char *name, const char *value);
/* The value of a header that came; NULL where there is none. */
const char *http_asked(const struct http_request *r, const char *header);
/* Begin an answer whose end is not known; the connection ends with it. False: no memory. */
MUST_CHECK bool http_stream_begin(struct http_request *r);
bool http_stream_send(struct http_request *r, const struct buffer *bytes);
/* The answer is whole: as http_request_end(). */
void http_stream_end(struct http_request *r);

/* --- http_query.c --- */
/* False: it was answered, as the query could be read in two ways. */
MUST_CHECK bool http_query_is_sound(struct http_request *r);
/* The value of @name, NULL where there is none. The caller frees it. */
char *http_query(const struct http_request *r, const char *name);

/* --- http_metrics.c --- */
/* @kind becomes that of routes; it lives as long as the meter. NULL: no memory. */
struct meter *http_meter_new(struct meter_kind *kind);
/* @r is answered with @status. */
void http_meter_count(struct http_request *r, int status);
/* True where whoever asks for metrics needs no login. */
bool http_scrapes_freely(struct http_request *r);

/* --- http_connection.c --- */
MUST_CHECK enum err http_connections_init(struct http *h, struct error *e);
void http_connections_fini(struct http *h);
/* Of a listener; @arg is the struct http. */
void http_connection_accept(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *address,
                            int length, void *arg);
/* Close those that wait for a request; the loop ends when the last one is gone. */
void http_connections_drain(struct http *h);
/* True where with @more bytes more would be held than may be. */
bool http_is_flooded(const struct http *h, size_t more);

const struct http_parser *http_connection_parser(const struct http_connection *c);
struct bufferevent *http_connection_io(struct http_connection *c);
/* Where it comes from. */
const char *http_connection_host(const struct http_connection *c);
const char *http_connection_port(const struct http_connection *c);
/* @r is what it serves; NULL: nothing. */
void http_connection_serves(struct http_connection *c, struct http_request *r);
/* Read the body of the request, and drop it where it is not @wanted; then http_request_whole(). */
void http_connection_read_body(struct http_connection *c, bool wanted);
bool http_connection_is_reading(const struct http_connection *c);
/* The body that was read, which is the caller's. */
struct buffer http_connection_take_body(struct http_connection *c);
/* True where another request may follow this one; its body is not wanted. */
bool http_connection_may_go_on(struct http_connection *c);
/* False: no memory. */
MUST_CHECK bool http_connection_send(struct http_connection *c, const void *bytes, size_t length);
/* The same of an answer that is whole. */
MUST_CHECK bool http_connection_answer(struct http_connection *c, const struct buffer *head,
                                       const struct buffer *body);
/* The answer was sent, and is the @last one of the connection. */
void http_connection_answered(struct http_connection *c, bool last);
/* Call @on_taken whenever all that was sent is taken, until it is answered. */
typedef void http_taken_fn(void *arg);
void http_connection_streams(struct http_connection *c, http_taken_fn *on_taken, void *arg);
/* Bytes that were sent and are not taken yet. */
size_t http_connection_unread(const struct http_connection *c);
/* At once, with the request that it serves. */
void http_connection_drop(struct http_connection *c, const char *why);

/* --- http_linger.c --- */
/* The connection of @fd is about to be closed, and not all was read: see to it that its answer arrives. */
void http_linger(struct http *h, int fd);
void http_linger_fini(struct http *h);

/* --- http_id.c --- */
/* Take the id that came with the request, if it is one that may be repeated; else make one up. */
void http_id_take(struct http_request *r);
/* True where @id is of 1 to HTTP_ID_MAX letters, digits and . _ : + / = @ - */
bool http_id_is_sane(const char *id);
/* It was answered with @status after @us: tell, where that is slow. */
void http_slow(struct http_request *r, int status, uint64_t us);

/* --- http_access.c --- */
/* Find out who asks, then go on; or answer that nobody does. Now or later, but not once it is answered. */
typedef void http_known_fn(struct http_request *r);
void http_authenticate(struct http_request *r, http_known_fn *go_on);
/* What whoever asks may not see will not be listed. False: no memory. */
MUST_CHECK bool http_limit(struct http_request *r, struct admin_call *call);
/* May whoever asks do what needs @role, on @filter (NULL: on none, or on all)? False: it was answered. */
MUST_CHECK bool http_authorise(struct http_request *r, enum http_role role, const char *filter,
                               size_t length);

/* --- http_events.c --- */
MUST_CHECK enum err http_events_init(struct http *h, struct error *e);
/* A view has changed: those who listen shall hear of it soon. */
void http_events_hurry(struct http *h);
/* End all streams; none is begun any more. */
void http_events_drain(struct http *h);
/* The thread has ended: forget them; and, once nothing is asked any more, free all. */
void http_events_forget(struct http *h);
void http_events_fini(struct http *h);

/* --- http_dashboard.c --- */
MUST_CHECK enum err http_dashboard_init(struct http *h, struct error *e);
#endif
