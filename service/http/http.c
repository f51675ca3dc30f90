/* SPDX-License-Identifier: MIT */
#include "service/http/http.h"

#include <stdlib.h>
#include <unistd.h>
#include <openssl/rand.h>
#include "base/log.h"
#include "base/random.h"
#include "service/http/http_internal.h"
#include "service/keys/loop.h"
#include "service/meter/meter.h"

enum { DRAIN_SECONDS = 5 };

/* --- tasks --- */

static void on_tasks(evutil_socket_t fd UNUSED, short events UNUSED, void *arg)
{
    mailbox_run(((struct http *)arg)->mailbox);
}

void http_sync(struct http *h)
{
    if (!live_config_is(h->service->config, h->config))
        loop_take_config(h->service, h->keys, &h->config);
}

static void take_config(void *arg)
{
    struct http *h = arg;
    loop_take_config(h->service, h->keys, &h->config);
}

/* Have the thread run @fn. @note: what happens if there is no memory for that. */
static void post(struct http *h, mailbox_fn *fn, const char *note)
{
    if (h != NULL && mailbox_post(h->mailbox, fn, h) != ERR_OK)
        log_error("out_of_memory", "part=http note=\"%s\"", note);
}

void http_reconfigure(struct http *h)
{
    post(h, take_config, "it keeps its configuration until the next change");
}

static void on_refresh(void *arg)
{
    struct http *h = arg;
    if (!h->stopped)
        http_events_hurry(h);
}

void http_refresh(struct http *h)
{
    post(h, on_refresh, "the dashboard shows a change later");
}

struct mailbox *http_mailbox(struct http *h)
{
    return h == NULL ? NULL : h->mailbox;
}

static void begin_drain(void *arg)
{
    static const struct timeval patience = {DRAIN_SECONDS, 0};
    struct http *h = arg;
    h->draining = true;
    sockets_close(&h->sockets);
    http_events_drain(h);
    http_connections_drain(h);
    (void)event_base_loopexit(h->base, &patience);
}

/* --- the thread --- */

static void *run(void *arg)
{
    struct http *h = arg;
    (void)pthread_setname_np(pthread_self(), "http");
    (void)event_base_loop(h->base, EVLOOP_NO_EXIT_ON_EMPTY);
    return NULL;
}

static enum err make(struct http *h, struct error *e)
{
    h->base = h->sockets.base = loop_base_new();
    h->sockets.on_error = http_connection_not_accepted;
    h->mailbox = mailbox_new();
    h->meter = http_meter_new(&h->meter_kind);
    if (h->base == NULL || h->mailbox == NULL || h->meter == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    h->keys = key_port_new(h->service, h->base, &h->config);
    h->tasks = event_new(h->base, mailbox_fd(h->mailbox), EV_READ | EV_PERSIST, on_tasks, h);
    if (h->keys == NULL || h->tasks == NULL || event_add(h->tasks, NULL) != 0)
        return error_set(e, ERR_NOMEM, "out of memory");
    enum err code = http_connections_init(h, e);
    if (code == ERR_OK)
        code = http_events_init(h, e);
    if (code == ERR_OK)
        code = http_dashboard_init(h, e);
    h->next_id = random_u64();
    if (gethostname(h->host, sizeof(h->host) - 1) != 0)
        h->host[0] = '\0';
    /* The secret for the tokens of this process's pages: see http_origin.h. */
    if (code == ERR_OK && RAND_bytes(h->csrf_key, sizeof(h->csrf_key)) != 1)
        code = error_set(e, ERR_IO, "no random bytes");
    if (code == ERR_OK)
        code = sockets_listen(&h->sockets, "http", h->config->http, http_connection_accept, h, e);
    return code;
}

enum err http_start(struct http **out, const struct http_options *o, struct error *e)
{
    struct service *s = o->service;
    const struct config *config = live_config_acquire(s->config);
    struct http *h = config->http[0] == '\0' ? NULL : calloc(1, sizeof(*h));
    *out = NULL;
    if (h == NULL) {
        enum err code = config->http[0] == '\0' ? ERR_OK : error_set(e, ERR_NOMEM, "out of memory");
        config_release(config);
        return code;
    }
    h->o = *o;
    h->service = s;
    h->config = config;
    LIST_INIT(&h->requests);
    enum err code = make(h, e);
    if (code == ERR_OK) {
        *out = h;
        meters_add(&s->meters, h->meter);
        if (pthread_create(&h->thread, NULL, run, h) != 0)
            code = error_set(e, ERR_NOMEM, "the HTTP thread could not be started");
    }
    if (code == ERR_OK) {
        log_info("http_listening", "address=%s", h->config->http);
    } else {
        *out = NULL;
        http_free(h);
    }
    return code;
}

void http_drain(struct http *h)
{
    post(h, begin_drain, "it ends without draining");
}

void http_join(struct http *h)
{
    if (h != NULL)
        (void)pthread_join(h->thread, NULL);
}

void http_free(struct http *h)
{
    if (h == NULL)
        return;
    h->stopped = true;
    http_events_forget(h);
    struct http_request *r;
    /* End the requests first, so that they start nothing more. Clients that still wait get no answer: the
     * time of the drain is over. */
    while ((r = LIST_FIRST(&h->requests)) != NULL)
        http_request_end(r);
    if (h->mailbox != NULL)
        mailbox_run(h->mailbox); /* run tasks that came late, such as answers of the admin thread */
    key_port_free(h->keys);      /* ends all operations */
    http_events_fini(h);
    http_connections_fini(h);
    loop_event_free(h->tasks);
    if (h->base != NULL)
        event_base_free(h->base);
    mailbox_free(h->mailbox);
    meter_free(h->meter);
    buffer_fini(&h->policy);
    config_release(h->config);
    free(h);
}
