/* SPDX-License-Identifier: MIT */
/* /livez, /readyz, the description of the interface, and the page of its errors.
 *
 * Ready means: within a second the metadata node of Redis answers PING, and every worker runs a task. The
 * answer says what did not respond, if no login is required. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "service/http/http_internal.h"
#include "service/config/users.h"
#include "service/keys/key_port.h"

enum { PROBE_MS_MAX = 1000 };

extern const char embedded_openapi[], embedded_errors[];

void http_livez(struct http_request *r)
{
    struct buffer json = {0};
    buffer_puts(&json, "{\"status\":\"ok\"}");
    http_answer(r, 200, &json);
}

void http_openapi(struct http_request *r)
{
    http_answer_builtin(r, 200, "application/json", embedded_openapi, strlen(embedded_openapi));
}

void http_errors(struct http_request *r)
{
    http_header(r, "Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'");
    http_answer_builtin(r, 200, "text/html; charset=utf-8", embedded_errors, strlen(embedded_errors));
}

/* --- readiness --- */

struct probe {
    struct http_request *r; /* held; NULL: answered */
    struct http *http;
    unsigned asked;                /* how many have still to respond */
    unsigned workers;              /* workers that have not responded yet */
    bool home;                     /* the metadata node has responded */
    char why[256];                 /* why the metadata node failed */
    struct slot_redirect redirect; /* unused: no node redirects PING */
};

/* The node with the keys that belong to no filter. In a cluster it is the node with the set of names. */
static unsigned home_of(const struct http *h)
{
    return nodes_filters(&h->service->nodes, h->service->prefix);
}

static void answer(void *arg)
{
    struct probe *p = arg;
    SCOPED(buffer_fini) struct buffer json = {0}, reasons = {0};
    bool ends = p->http->draining || atomic_load(&p->http->service->leaving);
    bool ready = p->home && p->workers == 0 && !ends;
    if (!p->home)
        buffer_printf(&reasons, "the metadata node (%s): %s",
                      async_client_name(key_port_redis(p->http->keys), home_of(p->http)),
                      p->why[0] != '\0' ? p->why : "no answer in time");
    if (p->workers > 0)
        buffer_printf(&reasons, "%s%u of %u threads do not answer", reasons.length > 0 ? "; " : "",
                      p->workers, p->http->o.worker_count);
    if (ends)
        buffer_printf(&reasons, "%sthe coordinator is shutting down", reasons.length > 0 ? "; " : "");
    buffer_puts(&json, "{\"status\":\"ready\"}");
    if (ready)
        http_answer(p->r, 200, &json);
    else if (users_login_required(p->http->config)) /* probes do not log in, and the reasons name nodes */
        http_problem(p->r, HTTP_NOT_READY, "not ready; the log says why");
    else
        http_problem(p->r, HTTP_NOT_READY, "not ready: %s", buffer_text(&reasons));
    http_request_release(p->r);
    p->r = NULL;
}

/* One of those that were asked has responded. The probe is freed when all have, which may be long after the
 * request was answered. */
static void answer_came(struct probe *p)
{
    p->asked--;
    if (p->asked > 0)
        return;
    if (p->r != NULL)
        answer(p);
    free(p);
}

static void note_why(struct probe *p, const char *why)
{
    (void)snprintf(p->why, sizeof(p->why), "%s", why);
}

static void on_ping(void *arg, const redisReply *pong)
{
    struct probe *p = arg;
    p->home = pong != NULL && pong->type == REDIS_REPLY_STATUS;
    if (pong == NULL)
        note_why(p, "the connection broke");
    else if (pong->type == REDIS_REPLY_ERROR)
        note_why(p, pong->str);
    answer_came(p);
}

struct echo {
    struct probe *probe;
    struct mailbox *back;
};

static void on_echo(void *arg)
{
    struct echo *echo = arg;
    struct probe *p = echo->probe;
    free(echo);
    p->workers--;
    answer_came(p);
}

/* Runs in the worker's thread. */
static void send_back(void *arg)
{
    struct echo *echo = arg;
    if (mailbox_post(echo->back, on_echo, echo) != ERR_OK)
        log_error("out_of_memory", "part=http note=\"a worker's reply to a probe is lost\"");
}

static void ask_worker(struct probe *p, struct mailbox *worker)
{
    struct echo *echo = malloc(sizeof(*echo));
    p->workers++; /* a worker without memory for the task counts as not responding */
    if (echo == NULL)
        return;
    *echo = (struct echo){.probe = p, .back = p->http->mailbox};
    if (mailbox_post(worker, send_back, echo) == ERR_OK)
        p->asked++;
    else
        free(echo);
}

static void ask_home(struct probe *p)
{
    static const char ping[] = "*1\r\n$4\r\nPING\r\n";
    struct async_client *async = key_port_redis(p->http->keys);
    unsigned home = home_of(p->http);
    static const size_t end = sizeof(ping) - 1;
    if (async_client_send_together(async, home, &p->redirect, 1, ping, &end, on_ping, p) == 1)
        p->asked++;
    else
        note_why(p, async_client_why(async, home));
}

void http_readyz(struct http_request *r)
{
    struct http *h = r->http;
    unsigned ms = h->service->redis_timeout_ms < PROBE_MS_MAX ? h->service->redis_timeout_ms : PROBE_MS_MAX;
    struct probe *p = calloc(1, sizeof(*p));
    if (p == NULL || !http_deadline(r, ms, answer, p)) {
        free(p);
        http_no_memory(r);
        return;
    }
    p->http = h;
    p->r = http_request_hold(r);
    p->asked = 1; /* for this function */
    ask_home(p);
    for (unsigned i = 0; i < h->o.worker_count; i++)
        ask_worker(p, h->o.workers[i]);
    answer_came(p);
}
