/* SPDX-License-Identifier: MIT */
/* GET /v1/events: the states of all filters that the user may see, as server-sent events.
 *
 * The happy path is: while there are streams, the admin thread looks at all filters every second or two
 * (admin_watching). A state that changed becomes the newest entry of a list. Each stream is sent the entries
 * that are newer than the last one it was sent. Possible failure modes are: a client reads slowly (it is sent
 * at most PENDING_MAX at a time, and misses states that changed again meanwhile; a client that takes nothing
 * for PATIENCE_MS is cut off), a client disconnects (noticed at the next turn), its user loses the right to
 * read or the daemon ends (the stream ends), Redis is unreachable (the entries stay, and the event "tick"
 * gives the error). Without streams there are no entries and no looks. */
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <event2/bufferevent.h>
#include "base/clock.h"
#include "base/log.h"
#include "service/admin/admin_watching.h"
#include "service/http/http_internal.h"
#include "service/http/http_states.h"
#include "service/meter/meter.h"
#include "service/keys/loop.h"

enum {
    STREAMS_MAX = 64,         /* and at most half of http_max_clients */
    PENDING_MAX = 128 * 1024, /* bytes that a stream has not taken yet */
    SOCKET_BYTES = 64 * 1024, /* about so many of them may be in the kernel */
    INPUT_MAX = 4096,         /* bytes; a client has nothing to send on a stream */
    PATIENCE_MS = 15000,
    LOST_PEER_MS = 30000,
    BUSY_MS = 1000,  /* between two looks while a job runs */
    QUIET_MS = 2000, /* between two looks while no job runs */
    HURRY_MS = 100,  /* until the next look after a view changed */
    COST_FACTOR = 4, /* the pause after a look is at least so many times the look's duration */
    /* After this long without data a stream is sent the time; the page gives up after three times as long. */
    SILENCE_MS = 5000,
    TURN_MS = 500
};

struct stream {
    LIST_ENTRY(stream) link;
    struct http_request *r; /* held */
    uint64_t sent;          /* version of the newest entry that was sent */
    uint64_t ticked;        /* time of the look after which the event "tick" was sent last */
    uint64_t said_us;       /* when something was last sent */
    uint64_t stuck_us;      /* since when sent bytes wait to be taken; 0: none wait */
};
LIST_HEAD(stream_list, stream);

struct http_events {
    struct http *http;
    struct http_states states;
    struct stream_list streams;
    unsigned count;
    struct event *turn; /* fires every TURN_MS while there are streams */
    bool query;         /* the admin thread is looking */
    bool hurry;
    struct statuses found;       /* by a look; used by the admin thread during a query */
    uint64_t looked_us, cost_us; /* when the last look ended, and how long it took */
    struct buffer traffic;       /* the event "traffic" of the last look */
};

/* --- streams --- */

static size_t pending_of(const struct stream *s)
{
    return http_connection_unread(s->r->connection);
}

static void send_chunk(struct stream *s, const struct buffer *out)
{
    s->said_us = clock_mono_us();
    if (!http_stream_send(s->r, out))
        http_connection_drop(s->r->connection, "out of memory");
}

static bool is_silent(const struct stream *s)
{
    return clock_mono_us() - s->said_us > (uint64_t)SILENCE_MS * 1000;
}

/* Send the new entries, as far as they fit. */
static void pump(struct http_events *ev, struct stream *s)
{
    const struct config_user *u =
        s->r->connection == NULL ? NULL : users_find(ev->http->config, s->r->user, strlen(s->r->user));
    SCOPED(buffer_fini) struct buffer out = {0};
    size_t i;
    if (u == NULL || pending_of(s) > PENDING_MAX / 2)
        return;
    for (i = 0; i < ev->states.of.count && out.length <= PENDING_MAX / 2; i++) {
        const struct status *one = &ev->states.of.of[i];
        if (one->version <= s->sent)
            continue;
        if (http_state_may_be_seen(one, u))
            http_state_put(one, &out);
        s->sent = one->version;
    }
    if (i == ev->states.of.count &&
        (s->ticked != ev->looked_us || is_silent(s))) { /* the stream has every entry */
        if (s->ticked != ev->looked_us && !buffer_failed(&ev->traffic))
            buffer_append(&out, ev->traffic.data, ev->traffic.length);
        s->ticked = ev->looked_us;
        http_states_tick(&ev->states, &out);
    }
    if (out.length > 0 || buffer_failed(&out))
        send_chunk(s, &out);
}

static void on_taken(void *arg)
{
    struct stream *s = arg;
    if (!s->r->http->draining)
        pump(s->r->http->events, s);
}

static void stream_free(struct http_events *ev, struct stream *s)
{
    LIST_REMOVE(s, link);
    ev->count--;
    http_request_release(s->r);
    free(s);
}

/* End the stream, and with it the answer. */
static void end_stream(struct http_events *ev, struct stream *s, const char *why)
{
    SCOPED(buffer_fini) struct buffer out = {0};
    buffer_printf(&out, "event: end\ndata: {\"reason\":\"%s\"}\n\n", why);
    send_chunk(s, &out);
    if (s->r->connection != NULL)
        http_stream_end(s->r);
    stream_free(ev, s);
}

/* --- looks --- */

static bool is_due(const struct http_events *ev)
{
    uint64_t since_us = clock_mono_us() - ev->looked_us;
    uint64_t wanted_us = ev->states.busy ? BUSY_MS * 1000 : QUIET_MS * 1000;
    if (ev->hurry && wanted_us > HURRY_MS * 1000)
        wanted_us = HURRY_MS * 1000;
    if (wanted_us < COST_FACTOR * ev->cost_us)
        wanted_us = COST_FACTOR * ev->cost_us;
    return !ev->query && (ev->looked_us == 0 || since_us >= wanted_us);
}

/* Counters since this coordinator started. The page computes the difference of two events. */
static void note_traffic(struct http_events *ev)
{
    struct traffic t;
    struct buffer *out = &ev->traffic;
    const char *separator = "";
    traffic_read(&ev->http->service->meters, &t);
    buffer_clear(out);
    buffer_printf(out, "event: traffic\ndata: {\"read_at\":%.3f,\"requests\":%" PRIu64 ",\"failed\":%" PRIu64,
                  (double)clock_wall_us() / 1e6, t.requests, t.failed);
    buffer_printf(out, ",\"checks\":%" PRIu64 ",\"maybe\":%" PRIu64 ",\"adds\":%" PRIu64 ",\"duration_us\":[",
                  t.keys.checks, t.keys.maybe, t.keys.adds);
    for (unsigned i = 0; i < TIMING_BUCKETS; i++, separator = ",")
        buffer_printf(out, "%s%" PRIu64, separator, t.took.bucket[i]);
    buffer_puts(out, "]}\n\n");
}

static void take_answer(struct http_events *ev, const struct admin_call *call)
{
    uint64_t now = clock_mono_us();
    ev->cost_us = now - ev->looked_us;
    ev->looked_us = now;
    ev->states.error = call->status != ERR_OK ? call->error : (struct error){.text = ""};
    note_traffic(ev);
    http_states_take(&ev->states, &ev->found, call->status == ERR_OK);
}

static void schedule(struct http_events *ev);

static void on_answer(void *arg)
{
    struct admin_call *call = arg;
    struct http_events *ev = call->asker;
    struct stream *s;
    ev->query = false;
    if (!ev->http->stopped && ev->count > 0) {
        take_answer(ev, call);
        LIST_FOREACH(s, &ev->streams, link)
        pump(ev, s);
        /* Entries of filters that are gone are kept until all streams have been sent them. */
        uint64_t told = ev->states.of.version;
        LIST_FOREACH(s, &ev->streams, link)
        told = s->sent < told ? s->sent : told;
        statuses_forget_gone(&ev->states.of, told);
    }
    statuses_fini(&ev->found); /* if nobody listens any more */
    admin_call_free(call);
}

static bool is_anybody_restricted(const struct http_events *ev)
{
    const struct stream *s;
    LIST_FOREACH(s, &ev->streams, link)
    {
        const struct config_user *u = users_find(ev->http->config, s->r->user, strlen(s->r->user));
        if (u != NULL && !user_may_all_filters(u))
            return true;
    }
    return false;
}

static void look(struct http_events *ev)
{
    struct admin_call *call = admin_call_new(admin_watching, NULL, 0);
    if (call == NULL)
        return;
    call->asker = ev;
    call->subject = &ev->found;
    call->protocol = REPLY_JSON;
    call->flags = is_anybody_restricted(ev) ? WATCHING_RESTRICTED : 0;
    ev->query = true;
    ev->hurry = false;
    ev->looked_us = clock_mono_us(); /* when the look begins; its end replaces this time */
    admin_post(ev->http->o.admin, call, ev->http->mailbox, on_answer);
}

/* --- turns --- */

static bool is_still_welcome(const struct http_events *ev, const struct stream *s)
{
    const struct config_user *u = users_find(ev->http->config, s->r->user, strlen(s->r->user));
    return u != NULL && user_may(u, ROLE_READ);
}

/* Check one stream, which may be freed. */
static void look_after(struct http_events *ev, struct stream *s, uint64_t now)
{
    uint64_t patience_ms = ev->http->config->http_timeout_ms;
    patience_ms = patience_ms < PATIENCE_MS ? patience_ms : PATIENCE_MS;
    if (s->r->connection == NULL) {
        stream_free(ev, s);
        return;
    }
    if (pending_of(s) == 0)
        s->stuck_us = 0;
    else if (s->stuck_us == 0)
        s->stuck_us = now;
    if (s->stuck_us != 0 && now - s->stuck_us > patience_ms * 1000) {
        static const char why[] = "the client does not read";
        log_info("http_stream_closed", "reason=\"%s\"", why);
        http_connection_drop(s->r->connection, why);
        stream_free(ev, s);
    } else if (!is_still_welcome(ev, s)) {
        end_stream(ev, s, "the user has lost the right to read");
    } else if (is_silent(s)) { /* a look takes long, or took so long that the next one is far away */
        pump(ev, s);
    }
}

static void on_turn(evutil_socket_t fd UNUSED, short events UNUSED, void *arg)
{
    struct http_events *ev = arg;
    struct stream *s, *next;
    for (s = LIST_FIRST(&ev->streams); s != NULL; s = next) {
        next = LIST_NEXT(s, link);
        look_after(ev, s, clock_mono_us());
    }
    if (ev->count == 0) {
        http_states_clear(&ev->states);
        return;
    }
    if (is_due(ev) && !ev->http->draining)
        look(ev);
    schedule(ev);
}

static void schedule(struct http_events *ev)
{
    unsigned ms = ev->hurry ? HURRY_MS : TURN_MS;
    const struct timeval next = {ms / 1000, ms % 1000 * 1000};
    (void)evtimer_add(ev->turn, &next);
}

/* --- a new stream --- */

static void prepare_connection(struct http *h, struct http_request *r)
{
    static const int bytes = SOCKET_BYTES, lost_ms = LOST_PEER_MS;
    struct bufferevent *io = r->connection->io;
    const struct timeval patience = {(time_t)(h->config->http_timeout_ms / 1000) + 1, 0};
    int fd = bufferevent_getfd(io);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &lost_ms, sizeof(lost_ms));
    bufferevent_setwatermark(io, EV_READ, 0, INPUT_MAX);
    /* A stream may be idle for ever, but must take what it is sent. */
    (void)bufferevent_set_timeouts(io, NULL, &patience);
}

static void begin(struct http_events *ev, struct http_request *r, struct stream *s)
{
    *s = (struct stream){.r = http_request_hold(r)};
    (void)event_del(r->deadline);
    if (ev->count == 0)
        http_states_clear(&ev->states);
    LIST_INSERT_HEAD(&ev->streams, s, link);
    ev->count++;
    prepare_connection(ev->http, r);
    http_header(r, "Content-Type", "text/event-stream");
    http_header(r, "Cache-Control", "no-store");
    http_header(r, "X-Accel-Buffering", "no"); /* a proxy must not collect the events */
    r->connection->on_taken = on_taken;
    r->connection->on_taken_arg = s;
    SCOPED(buffer_fini) struct buffer hello = {0};
    buffer_puts(&hello, "retry: 2000\n\n");
    if (http_stream_begin(r))
        send_chunk(s, &hello);
    else
        http_connection_drop(r->connection, "out of memory");
    ev->hurry = true;
    on_turn(-1, 0, ev);
}

void http_events(struct http_request *r)
{
    struct http_events *ev = r->http->events;
    struct buffer nothing = {0};
    if (r->head) {
        http_answer_as(r, 200, "text/event-stream", &nothing);
        return;
    }
    uint64_t half = r->http->o.max_clients / 2;
    if (ev->count >= STREAMS_MAX || ev->count >= (half == 0 ? 1 : half) || r->http->draining) {
        http_problem(r, HTTP_OVERLOADED, "%u streams are open already, no more are allowed", ev->count);
        return;
    }
    struct stream *s = calloc(1, sizeof(*s));
    if (s == NULL)
        http_no_memory(r);
    else
        begin(ev, r, s);
}

/* --- start and end --- */

enum err http_events_init(struct http *h, struct error *e)
{
    struct http_events *ev = calloc(1, sizeof(*ev));
    h->events = ev;
    if (ev == NULL || (ev->turn = evtimer_new(h->base, on_turn, ev)) == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    ev->http = h;
    LIST_INIT(&ev->streams);
    return ERR_OK;
}

void http_events_hurry(struct http *h)
{
    struct http_events *ev = h->events;
    if (ev->count == 0 || ev->hurry)
        return;
    ev->hurry = true;
    schedule(ev);
}

void http_events_drain(struct http *h)
{
    struct stream *s, *next;
    for (s = LIST_FIRST(&h->events->streams); s != NULL; s = next) {
        next = LIST_NEXT(s, link);
        if (s->r->connection == NULL)
            stream_free(h->events, s);
        else
            end_stream(h->events, s, "the coordinator is shutting down");
    }
}

void http_events_forget(struct http *h)
{
    struct stream *s, *next;
    for (s = h->events == NULL ? NULL : LIST_FIRST(&h->events->streams); s != NULL; s = next) {
        next = LIST_NEXT(s, link);
        if (s->r->connection != NULL)
            http_connection_drop(s->r->connection, "the coordinator is shutting down");
        stream_free(h->events, s);
    }
}

void http_events_fini(struct http *h)
{
    struct http_events *ev = h->events;
    if (ev == NULL)
        return;
    http_states_clear(&ev->states);
    statuses_fini(&ev->found);
    buffer_fini(&ev->traffic);
    loop_event_free(ev->turn);
    free(ev);
    h->events = NULL;
}
