/* SPDX-License-Identifier: MIT */
/* GET /v1/events: the state of all filters that whoever asks may see, as server-sent events.
 *
 * The happy path is: while anybody listens the admin thread looks at all filters every second or two
 * (admin_watching), what changed becomes the newest entry of a list, and each stream is sent the entries that
 * are newer than what it was sent last. Possible failure modes are: a listener reads slowly (it is sent no
 * more than PENDING_MAX at a time and misses what was changed again meanwhile; who takes nothing for
 * PATIENCE_MS is cut off), it goes (seen at the next turn), its user may not read any more or the daemon ends
 * (the stream ends), Redis is away (entries stay, the event "tick" says why). While nobody listens there are
 * no entries, and only a sample of each filter is taken every FILLS_FINE_S. */
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include "base/clock.h"
#include "base/log.h"
#include "service/admin/admin_watching.h"
#include "service/http/http_internal.h"
#include "service/meter/fills.h"
#include "service/http/http_states.h"
#include "service/meter/traffic.h"

enum {
    STREAMS_MAX = 64,         /* and no more than half of http_max_clients */
    PENDING_MAX = 128 * 1024, /* bytes that a stream has not taken yet */
    SOCKET_BYTES = 64 * 1024, /* of them in the kernel, about */
    INPUT_MAX = 4096,         /* nobody has anything to say on a stream */
    PATIENCE_MS = 15000,
    LOST_PEER_MS = 30000,
    BUSY_MS = 1000,    /* between two looks while a job runs, */
    QUIET_MS = 2000,   /* and while none does */
    HURRY_MS = 100,    /* after a view changed */
    COST_FACTOR = 4,   /* a look is followed by so many times its length without one */
    SILENCE_MS = 5000, /* then a stream hears of the time; the page gives up after three times that */
    TURN_MS = 500
};

struct stream {
    LIST_ENTRY(stream) link;
    struct http_request *r; /* held */
    uint64_t sent;          /* version of the newest entry that it was sent */
    uint64_t ticked;        /* look after which it was told the time */
    uint64_t said_us;       /* when it was last sent something */
    uint64_t stuck_us;      /* since when something waits to be taken; 0: nothing does */
};
LIST_HEAD(stream_list, stream);

struct http_events {
    struct http *http;
    struct http_states states;
    struct stream_list streams;
    unsigned count;
    struct event
        *turn;  /* every TURN_MS while there are streams, every 10 s otherwise; comes again by itself */
    bool query; /* the admin thread looks */
    bool hurry;
    bool before;                         /* the look that is under way began before the states were cleared */
    uint64_t cursor, looked_us, cost_us; /* when the last look ended, and how long it took */
    struct buffer traffic;               /* the event of that name, as of the last look */
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

/* Send what is new and fits. */
static void pump(struct http_events *ev, struct stream *s)
{
    const struct config_user *u =
        s->r->connection == NULL ? NULL : users_find(ev->http->config, s->r->user, strlen(s->r->user));
    struct buffer out = {0};
    struct http_state *e;
    if (u == NULL || pending_of(s) > PENDING_MAX / 2)
        return;
    TAILQ_FOREACH(e, &ev->states.list, link)
    {
        if (e->version <= s->sent)
            continue;
        if (out.length > PENDING_MAX / 2)
            break;
        if (http_state_may_be_seen(e, u))
            buffer_append(&out, e->frame.data, e->frame.length);
        s->sent = e->version;
    }
    if (e == NULL && (s->ticked != ev->looked_us || is_silent(s))) { /* it is up to date */
        if (s->ticked != ev->looked_us && !buffer_failed(&ev->traffic))
            buffer_append(&out, ev->traffic.data, ev->traffic.length);
        s->ticked = ev->looked_us;
        http_states_tick(&ev->states, &out);
    }
    if (out.length > 0 || buffer_failed(&out))
        send_chunk(s, &out);
    buffer_fini(&out);
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

static void cut_off(struct http_events *ev, struct stream *s, const char *why)
{
    log_info("http_stream_closed", "reason=\"%s\"", why);
    http_connection_drop(s->r->connection, why);
    stream_free(ev, s);
}

/* The stream as a whole is the answer. */
static void end_stream(struct http_events *ev, struct stream *s, const char *why)
{
    struct buffer out = {0};
    buffer_printf(&out, "event: end\ndata: {\"reason\":\"%s\"}\n\n", why);
    send_chunk(s, &out);
    buffer_fini(&out);
    if (s->r->connection != NULL)
        http_stream_end(s->r);
    stream_free(ev, s);
}

/* --- looks --- */

static uint64_t interval_ms(const struct http_events *ev)
{
    if (ev->count == 0)
        return FILLS_FINE_S * 1000;
    return http_states_busy(&ev->states) ? BUSY_MS : QUIET_MS;
}

static bool is_due(const struct http_events *ev)
{
    uint64_t since_us = clock_mono_us() - ev->looked_us, wanted_us = interval_ms(ev) * 1000;
    if (ev->hurry && wanted_us > HURRY_MS * 1000)
        wanted_us = HURRY_MS * 1000;
    if (wanted_us < COST_FACTOR * ev->cost_us)
        wanted_us = COST_FACTOR * ev->cost_us;
    return !ev->query && (ev->looked_us == 0 || since_us >= wanted_us);
}

/* Counters since this coordinator started: a page takes the difference of two events. */
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
    ev->cursor = ev->before ? 0 : call->cursor;
    http_states_answered(&ev->states, call);
    if (ev->count > 0)
        note_traffic(ev);
    if (ev->count > 0 && (call->flags & WATCHING_STATUS) != 0)
        http_states_take(&ev->states, call, !ev->before);
}

/* What has gone is kept until all streams were told. */
static void forget_told(struct http_events *ev)
{
    const struct stream *s;
    uint64_t told = ev->states.version;
    LIST_FOREACH(s, &ev->streams, link)
    told = s->sent < told ? s->sent : told;
    http_states_told(&ev->states, told);
}

static void schedule(struct http_events *ev);

static void on_answer(void *arg)
{
    struct admin_call *call = arg;
    struct http_events *ev = call->asker;
    struct stream *s;
    ev->query = false;
    if (!ev->http->stopped) {
        take_answer(ev, call);
        LIST_FOREACH(s, &ev->streams, link)
        pump(ev, s);
        forget_told(ev);
    }
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
    struct admin_call *call = admin_call_new(admin_watching, "", 0);
    if (call == NULL)
        return;
    call->asker = ev;
    call->protocol = REPLY_TYPED;
    call->cursor = ev->cursor;
    if (ev->count > 0)
        call->flags = WATCHING_STATUS | (is_anybody_restricted(ev) ? WATCHING_RESTRICTED : 0u);
    ev->query = true;
    ev->hurry = false;
    ev->before = false;
    ev->looked_us = clock_mono_us(); /* it begins; its end takes this place */
    admin_post(ev->http->o.admin, call, ev->http->mailbox, on_answer);
}

/* --- turns --- */

static bool is_still_welcome(const struct http_events *ev, const struct stream *s)
{
    const struct config_user *u = users_find(ev->http->config, s->r->user, strlen(s->r->user));
    return u != NULL && user_may(u, ROLE_READ);
}

/* It may be gone afterwards. */
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
    if (s->stuck_us != 0 && now - s->stuck_us > patience_ms * 1000)
        cut_off(ev, s, "the client does not read");
    else if (!is_still_welcome(ev, s))
        end_stream(ev, s, "the user has lost the right to read");
    else if (is_silent(s)) /* a look takes long, or it cost so much that there is none for long */
        pump(ev, s);
}

static void on_turn(evutil_socket_t fd, short events, void *arg)
{
    (void)fd;
    (void)events;
    struct http_events *ev = arg;
    struct stream *s, *next;
    for (s = LIST_FIRST(&ev->streams); s != NULL; s = next) {
        next = LIST_NEXT(s, link);
        look_after(ev, s, clock_mono_us());
    }
    if (ev->count == 0)
        http_states_clear(&ev->states);
    if (is_due(ev) && !ev->http->draining)
        look(ev);
    schedule(ev);
}

static void schedule(struct http_events *ev)
{
    unsigned ms = ev->count == 0 ? FILLS_FINE_S * 1000 : ev->hurry ? HURRY_MS : TURN_MS;
    const struct timeval next = {ms / 1000, ms % 1000 * 1000};
    (void)evtimer_add(ev->turn, &next);
}

/* --- a new stream --- */

static void prepare_connection(struct http *h, struct http_request *r)
{
    static const int bytes = SOCKET_BYTES, lost_ms = LOST_PEER_MS;
    struct bufferevent *io = http_connection_io(r->connection);
    const struct timeval patience = {(time_t)(h->config->http_timeout_ms / 1000) + 1, 0};
    int fd = bufferevent_getfd(io);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &lost_ms, sizeof(lost_ms));
    bufferevent_setwatermark(io, EV_READ, 0, INPUT_MAX);
    (void)bufferevent_set_timeouts(io, NULL, &patience); /* it may be silent for ever, and may not be deaf */
}

static void begin(struct http_events *ev, struct http_request *r, struct stream *s)
{
    *s = (struct stream){.r = http_request_hold(r)};
    (void)event_del(r->deadline);
    if (ev->count == 0) { /* the first one is told of all filters, from the first on */
        http_states_clear(&ev->states);
        ev->cursor = 0;
        ev->before = ev->query;
    }
    LIST_INSERT_HEAD(&ev->streams, s, link);
    ev->count++;
    prepare_connection(ev->http, r);
    http_header(r, "Content-Type", "text/event-stream");
    http_header(r, "Cache-Control", "no-store");
    http_header(r, "X-Accel-Buffering", "no"); /* of a proxy that would collect it */
    http_connection_streams(r->connection, on_taken, s);
    struct buffer hello = {0};
    buffer_puts(&hello, "retry: 2000\n\n");
    if (http_stream_begin(r))
        send_chunk(s, &hello);
    else
        http_connection_drop(r->connection, "out of memory");
    buffer_fini(&hello);
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
    uint64_t half = r->http->config->http_max_clients / 2;
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
    if (ev != NULL)
        http_states_init(&ev->states);
    if (ev == NULL || (ev->turn = event_new(h->base, -1, EV_PERSIST, on_turn, ev)) == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    ev->http = h;
    LIST_INIT(&ev->streams);
    schedule(ev);
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
    buffer_fini(&ev->traffic);
    if (ev->turn != NULL)
        event_free(ev->turn);
    free(ev);
    h->events = NULL;
}
