/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_HTTP_INTERNAL_H
#define SERVICE_HTTP_INTERNAL_H
/* What http*.c share: the server, its connections, a request from its callback to its answer. All of it
 * belongs to the HTTP thread. */
#include <pthread.h>
#include <sys/queue.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include "base/buffer.h"
#include "base/mailbox.h"
#include "service/http/http.h"
#include "service/http/http_body.h"
#include "service/http/http_origin.h"
#include "service/http/http_route.h"
#include "service/users.h"

enum {
    HTTP_CALLS_MAX = 64,     /* calls in the admin thread or on their way to it */
    HTTP_WORKING_FACTOR = 4, /* bodies at one time, in sizes of the largest */
    HTTP_HEADER_MAX = 16384, /* of all lines of a request's head, bytes */
    HTTP_RETRY_AFTER = 1,    /* seconds */
    HTTP_ID_MAX = 64         /* of X-Request-Id */
};

struct batch;
struct http_connection;
struct http_events;
TAILQ_HEAD(http_connection_list, http_connection);
LIST_HEAD(http_request_list, http_request);
LIST_HEAD(lingering_list, lingering);

struct http {
    struct service *service;
    const struct config *config; /* held */
    struct event_base *base;
    struct catalog *catalog;
    struct mailbox *mailbox;
    struct meter *meter; /* rows: routes, in the order of their table; then what is none */
    struct event *letters;
    struct event *turn, *tick; /* see http_connection.c */
    struct evhttp *server;
    struct evhttp_bound_socket *listening;
    struct http_request_list requests; /* not answered yet */
    unsigned calls;                    /* in the admin thread */
    size_t working;                    /* bytes of bodies of requests that are not answered yet */
    bool draining;
    bool stopped;   /* its thread has ended, and the admin thread has */
    bool answering; /* what goes into a connection's output now is ours */
    /* of http_connection.c */
    struct http_connection_list arriving, waiting, busy;
    size_t connection_count;
    size_t buffered; /* bytes that were read and are no request yet */
    struct http_connection **by_fd;
    size_t by_fd_count;
    bool paused; /* takes no connections: there are too many */
    struct lingering_list lingering;
    size_t lingering_count;
    struct http_events *events; /* see http_events.c */
    unsigned char csrf_key[CSRF_KEY_SIZE];
    struct buffer policy; /* of the dashboard; see http_dashboard.c */
    char host[256];       /* the name of this machine */
    pthread_t thread;
};

/* One request. Freed when it is answered and nobody holds it. */
struct http_request {
    LIST_ENTRY(http_request) link; /* until it is answered */
    struct http *http;
    struct evhttp_request *req; /* NULL: answered, or its connection is gone */
    struct http_connection *connection;
    const struct http_route *route;
    struct buffer filter; /* its name, from the path */
    struct http_body body;
    struct batch *batch; /* of check and add: its keys lie in the body */
    size_t working;      /* its part of http->working */
    uint64_t began_us;
    char id[HTTP_ID_MAX + 1]; /* of the answer, and of the log where it was slow */
    struct event *deadline;
    char user[USERS_NAME_MAX + 1]; /* whose request it is; "": nobody's */
    unsigned references;
    bool head;
    bool close; /* the connection, after the answer */
};

/* --- http.c --- */
/* Hold the configuration in force. */
void http_sync(struct http *h);

/* --- http_request.c --- */
void http_on_request(struct evhttp_request *req, void *http);
struct http_request *http_request_hold(struct http_request *r);
void http_request_release(struct http_request *r);
/* Answer with @status and a JSON body; takes what is in @json. Nothing where it was answered already. */
void http_answer(struct http_request *r, int status, struct buffer *json);
/* The same with a body of another type; a Cache-Control that was given before stays. */
void http_answer_as(struct http_request *r, int status, const char *type, struct buffer *body);
/* Answer with a problem (RFC 9457). */
void http_problem(struct http_request *r, int status, const char *format, ...) PRINTF_LIKE(3, 4);
/* The same for an error of ours. */
void http_failure(struct http_request *r, enum err code, const char *why);
/* The status that stands for an error. */
int http_status_of(enum err code);
/* A further header of the answer, before it. */
void http_header(struct http_request *r, const char *name, const char *value);
/* Append a problem's body. */
void http_problem_body(struct buffer *out, int status, const char *detail, const char *instance);
const char *http_reason(int status);
/* The value of @name in the query, NULL where there is none. The caller frees it. */
char *http_query(const struct http_request *r, const char *name);

/* --- http_metrics.c --- */
struct meter *http_meter_new(void);
/* @r is answered with @status. */
void http_meter_count(struct http_request *r, int status);
/* True where whoever asks for metrics needs no login. */
bool http_scrapes_freely(struct http_request *r);

/* --- http_connection.c --- */
MUST_CHECK enum err http_connections_init(struct http *h, struct error *e);
void http_connections_fini(struct http *h);
/* The connection of a request that has begun to be served. */
struct http_connection *http_connection_busy(struct http *h, struct evhttp_request *req);
/* From now to its answer it does not go away. @r NULL: the request is not answered any more. */
void http_connection_serves(struct http_connection *c, struct http_request *r);
/* Its answer is about to be sent, and is the @last one of the connection. */
void http_connection_answered(struct http_connection *c, struct evhttp_request *req, bool last);
/* Close those that wait for a request; the loop ends when the last one is gone. */
void http_connections_drain(struct http *h);

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

/* --- http_admin.c --- */
/* Run @call (taken over) in the admin thread and then @on_done, unless the request is answered by then. Where
 * too many are under way the request is answered at once. */
void http_call_admin(struct http_request *r, struct admin_call *call,
                     void (*on_done)(struct admin_call *call, void *request, void *arg));
#endif
