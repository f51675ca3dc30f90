/* SPDX-License-Identifier: MIT */
/* Ack connections: each waits for replicas, or disks, of one node.
 *
 * The happy path is: a caller joins; at the end of the loop's turn, or when the WAIT before is answered, a
 * small write and WAIT leave; the reply counts for all callers that had joined by then. Possible failure
 * modes are: too few replicas in time, a node that refuses WAIT or the small write (the outcome says each of
 * these), a connection that breaks (ACK_BROKEN), a node that is stopped (the connection is dropped when WAIT
 * exceeds its own time-out and that of a command). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include "base/buffer.h"
#include "base/clock.h"
#include "base/info.h"
#include "shard/redis/acks.h"
#include "shard/redis/wire/greeting.h"
#include "shard/filter/slots.h"
#include "shard/redis/async_client_internal.h"

enum { RECONNECT_PAUSE_US = 100 * 1000 };
#define MARKER_TTL_MS "10000"

struct ack_waiter {
    TAILQ_ENTRY(ack_waiter) link;
    async_client_ack_fn *acked;
    void *arg;
    uint64_t era; /* the replication id that the node must have; 0: any */
};
TAILQ_HEAD(ack_list, ack_waiter);

struct ack_connection {
    struct ack_connection *next;
    struct async_client_peer *peer;
    struct ack_need need; /* what the next WAIT asks for; timeout_ms is the longest of those in @current */
    struct async_connection *connection;
    struct event *turn;      /* active until the end of the turn, which sends WAIT */
    struct ack_list current; /* waiters that joined since the last WAIT was sent */
    struct ack_list waiting; /* waiters of the WAIT that is under way */
    struct ack_need waits;   /* what the WAIT that is under way asks for */
    bool under_way;
    enum ack_outcome outcome; /* of the WAIT that was answered last, with its reason */
    struct error why;
    uint64_t since; /* when WAIT was sent, or connecting began */
    uint64_t next_attempt;
    struct error marker_error; /* of the last small write; "" if the node accepted it */
    char marker[KEY_NAME_MAX]; /* the key of the next small write: beside the key of the last waiter */
};

static void finish(struct ack_waiter *w, enum ack_outcome outcome, const char *why)
{
    w->acked(w->arg, outcome, why);
    free(w);
}

/* --- the end of an ack connection --- */

/* Fail the waiters that have no WAIT yet. The others are told by async_connection_close(). */
static void fail_current(struct ack_connection *l)
{
    struct ack_list failed = TAILQ_HEAD_INITIALIZER(failed);
    struct ack_waiter *w;
    TAILQ_CONCAT(&failed, &l->current, link);
    while ((w = TAILQ_FIRST(&failed)) != NULL) {
        TAILQ_REMOVE(&failed, w, link);
        finish(w, ACK_BROKEN, NULL);
    }
}

static void on_closed(void *arg, enum err code, const char *why)
{
    (void)code;
    (void)why;
    struct ack_connection *l = arg;
    l->connection = NULL;
    l->next_attempt = clock_mono_us() + RECONNECT_PAUSE_US;
    fail_current(l);
}

static void connection_drop(struct ack_connection *l)
{
    struct async_connection *connection = l->connection;
    on_closed(l, ERR_OK, NULL);
    async_connection_close(connection);
}

void async_client_acks_fini(struct async_client_peer *p)
{
    for (struct ack_connection *l = p->acks, *next; l != NULL; l = next) {
        next = l->next;
        connection_drop(l);
        event_free(l->turn);
        free(l);
    }
    p->acks = NULL;
}

void async_client_acks_tick(struct async_client_peer *p, uint64_t now)
{
    for (struct ack_connection *l = p->acks; l != NULL; l = l->next) {
        uint64_t patience = p->async->timeout_ms;
        if (l->connection == NULL)
            continue;
        if (async_connection_is_past(l->connection)) {
            connection_drop(l);
            continue;
        }
        if (l->under_way)
            patience += l->waits.timeout_ms;
        else if (async_connection_is_ready(l->connection))
            continue;
        if (now > l->since + patience * 1000)
            connection_drop(l);
    }
}

/* --- WAIT --- */

static bool is_pair(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
           reply->element[0]->type == REDIS_REPLY_INTEGER && reply->element[1]->type == REDIS_REPLY_INTEGER;
}

static enum ack_outcome refused(const struct ack_need *need, const char *text, struct error *e)
{
    if (need->fsync && strncmp(text, "ERR unknown command", strlen("ERR unknown command")) == 0)
        (void)error_set(e, ERR_REFUSED,
                        "the node lacks WAITAOF, which add_fsync = yes needs; upgrade it to Redis 7.2, or "
                        "set add_fsync = no");
    else
        (void)error_set(e, ERR_REFUSED, "the node refuses %s: %.200s", need->fsync ? "WAITAOF" : "WAIT",
                        text);
    return ACK_REFUSED;
}

enum ack_outcome ack_judge(const struct ack_need *need, const redisReply *reply, struct error *e)
{
    long long replicas;
    if (reply->type == REDIS_REPLY_ERROR)
        return refused(need, reply->str, e);
    if (need->fsync ? !is_pair(reply) : reply->type != REDIS_REPLY_INTEGER)
        return refused(need, "its answer has not the form that is expected", e);
    if (need->fsync && reply->element[0]->integer < 1) {
        (void)error_set(e, ERR_TIMEOUT, "the node's own disk has not acknowledged within %u ms",
                        need->timeout_ms);
        return ACK_SHORT;
    }
    replicas = need->fsync ? reply->element[1]->integer : reply->integer;
    if (replicas >= (long long)need->replicas)
        return ACK_GIVEN;
    (void)error_set(e, ERR_TIMEOUT, "%lld of %u replicas acknowledged within %u ms", replicas, need->replicas,
                    need->timeout_ms);
    return ACK_SHORT;
}

static void send_wait(struct ack_connection *l);

static void on_marker(void *arg, const redisReply *reply)
{
    struct ack_connection *l = arg;
    struct async_client *s = l->peer->async;
    l->marker_error.text[0] = '\0';
    if (reply == NULL || reply->type != REDIS_REPLY_ERROR)
        return;
    if (s->route != NULL && slots_error_wants_map(reply->str))
        async_client_route_lost(s);
    (void)error_set(&l->marker_error, ERR_REFUSED, "the node refuses a write ahead of WAIT: %.200s",
                    reply->str);
}

static enum ack_outcome judge(const struct ack_connection *l, const redisReply *reply, struct error *e)
{
    if (reply == NULL)
        return ACK_BROKEN;
    if (l->marker_error.text[0] == '\0')
        return ack_judge(&l->waits, reply, e);
    *e = l->marker_error;
    return ACK_REFUSED;
}

static void on_wait(void *arg, const redisReply *reply)
{
    struct ack_connection *l = arg;
    l->why.text[0] = '\0';
    l->outcome = judge(l, reply, &l->why);
}

/* The era that WAIT was answered under. INFO is sent behind WAIT, as a connection outlives a demotion. */
static uint64_t era_of(const redisReply *reply)
{
    bool told = reply != NULL && reply->type == REDIS_REPLY_STRING;
    return told ? info_master_id(reply->str, reply->len) : 0;
}

static void on_info(void *arg, const redisReply *reply)
{
    struct ack_connection *l = arg;
    struct ack_list over = TAILQ_HEAD_INITIALIZER(over);
    struct ack_waiter *w;
    struct error why = l->why;
    enum ack_outcome outcome = l->outcome;
    uint64_t era = era_of(reply);
    l->under_way = false;
    TAILQ_CONCAT(&over, &l->waiting, link);
    if (!TAILQ_EMPTY(&l->current) && l->connection != NULL && reply != NULL)
        send_wait(l);
    while ((w = TAILQ_FIRST(&over)) != NULL) {
        TAILQ_REMOVE(&over, w, link);
        bool is_other = outcome == ACK_GIVEN && w->era != 0 && w->era != era;
        finish(w, is_other ? ACK_BROKEN : outcome, why.text[0] != '\0' ? why.text : NULL);
    }
}

static bool send_words(struct ack_connection *l, size_t count, const char *const *words,
                       async_connection_reply_fn *fn)
{
    struct buffer b = {0};
    buffer_command(&b, count, words, NULL);
    bool sent = !buffer_failed(&b) && async_connection_send(l->connection, b.data, b.length, fn, l);
    buffer_fini(&b);
    return sent;
}

static bool send_marker(struct ack_connection *l)
{
    const char *const words[] = {"SET", l->marker, "1", "PX", MARKER_TTL_MS};
    return send_words(l, 5, words, on_marker);
}

static bool send_query(struct ack_connection *l)
{
    char replicas[16], ms[16];
    (void)snprintf(replicas, sizeof(replicas), "%u", l->need.replicas);
    (void)snprintf(ms, sizeof(ms), "%u", l->need.timeout_ms);
    const char *const wait[] = {"WAIT", replicas, ms};
    const char *const aof[] = {"WAITAOF", "1", replicas, ms};
    return (l->need.fsync ? send_words(l, 4, aof, on_wait) : send_words(l, 3, wait, on_wait)) &&
           async_connection_send(l->connection, greeting_ask_replication, strlen(greeting_ask_replication),
                                 on_info, l);
}

static void send_wait(struct ack_connection *l)
{
    if (!send_marker(l) || !send_query(l)) {
        connection_drop(l);
        return;
    }
    TAILQ_CONCAT(&l->waiting, &l->current, link);
    l->under_way = true;
    l->since = clock_mono_us();
    l->waits = l->need;
    l->need.timeout_ms = 0;
}

static void on_turn(evutil_socket_t fd, short events, void *arg)
{
    (void)fd;
    (void)events;
    struct ack_connection *l = arg;
    if (l->connection != NULL && !l->under_way && !TAILQ_EMPTY(&l->current))
        send_wait(l);
}

/* --- who waits --- */

static bool connection_ready(struct ack_connection *l)
{
    struct async_client *s = l->peer->async;
    const struct async_connection_events events = {
        .closed = on_closed, .arg = l, .replying_since = &s->replying_since};
    uint64_t now = clock_mono_us();
    if (!async_client_peer_ready(l->peer))
        return false;
    if (l->connection != NULL || s->closing || now < l->next_attempt)
        return l->connection != NULL;
    l->since = now;
    l->connection = async_connection_open(s->base, s->nodes, &l->peer->node, "twinbloom-acks", &events);
    return l->connection != NULL;
}

/* The ack connection for @need at @p. NULL: no memory. */
static struct ack_connection *connection_for(struct async_client_peer *p, const struct ack_need *need)
{
    struct ack_connection *l;
    for (l = p->acks; l != NULL; l = l->next)
        if (l->need.replicas == need->replicas && l->need.fsync == need->fsync)
            return l;
    l = calloc(1, sizeof(*l));
    if (l == NULL)
        return NULL;
    l->peer = p;
    l->need = (struct ack_need){.replicas = need->replicas, .fsync = need->fsync};
    TAILQ_INIT(&l->current);
    TAILQ_INIT(&l->waiting);
    l->turn = event_new(p->async->base, -1, 0, on_turn, l);
    if (l->turn == NULL) {
        free(l);
        return NULL;
    }
    l->next = p->acks;
    p->acks = l;
    return l;
}

/* The small write goes to a name with the hash tag of @key: in a cluster it must be in a slot of that
 * node. */
static void note_marker(struct ack_connection *l, const char *key, size_t length)
{
    static const char suffix[] = ":acks";
    const char *open = memchr(key, '{', length);
    const char *close = open == NULL ? NULL : memchr(open, '}', length - (size_t)(open - key));
    size_t n = close == NULL ? 0 : (size_t)(close + 1 - key);
    if (n == 0 || n + sizeof(suffix) > sizeof(l->marker))
        return;
    memcpy(l->marker, key, n);
    memcpy(l->marker + n, suffix, sizeof(suffix));
}

bool async_client_await_acks(struct async_client *s, unsigned where, const char *key, size_t length,
                             uint64_t era, const struct ack_need *need, async_client_ack_fn *acked, void *arg)
{
    struct async_client_peer *p = where >= WHERE_SLOT ? async_client_route_master(s, where) : &s->peer[where];
    struct ack_connection *l = p != NULL ? connection_for(p, need) : NULL;
    if (l == NULL || !connection_ready(l))
        return false;
    struct ack_waiter *w = malloc(sizeof(*w));
    if (w == NULL)
        return false;
    *w = (struct ack_waiter){.acked = acked, .arg = arg, .era = era};
    p->used_at = clock_mono_us();
    event_active(l->turn, EV_TIMEOUT, 0);
    TAILQ_INSERT_TAIL(&l->current, w, link);
    note_marker(l, key, length);
    if (l->need.timeout_ms < need->timeout_ms)
        l->need.timeout_ms = need->timeout_ms;
    return true;
}
