/* SPDX-License-Identifier: MIT */
/* The commands of a sync client, and their way through a cluster.
 *
 * The happy path is: the map names the slot's master; append; read the reply of the oldest waiting command on
 * that connection. Possible failure modes are: there is no map yet (nodes are asked until the deadline), the
 * slot has moved (MOVED: the map is patched, a whole map is asked for if nobody did, the command is sent on),
 * the slot is moving (ASK: the command is sent on once; TRYAGAIN, if a script has keys on both sides: it is
 * sent again until the slot has moved or the deadline passes), no master for a moment (CLUSTERDOWN: again),
 * the connection broke (its commands have failed; whoever repeats them uses the cluster's map at that
 * time). */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/random.h"
#include "shard/redis/nodes/cluster.h"
#include "shard/redis/sync_client_internal.h"

enum {
    REDIRECTIONS_MAX = 16, /* of one command; with more the nodes do not agree */
    PAUSE_MIN_US = 10 * 1000,
    PAUSE_MAX_US = 40 * 1000
};

struct sync_client_route *sync_client_route_new(void)
{
    struct sync_client_route *r = calloc(1, sizeof(*r));
    if (r == NULL)
        return NULL;
    slot_map_init(&r->map);
    r->turn = (unsigned)random_u64();
    return r;
}

static void peer_free(struct sync_client_peer *p)
{
    sync_connection_close(p->connection);
    freeReplyObject(p->role);
    free(p);
}

void sync_client_route_free(struct sync_client *l)
{
    struct sync_client_route *r = l->route;
    for (unsigned i = 0; i < r->count; i++) {
        peer_free(r->peer[i]);
    }
    slot_map_fini(&r->map);
    free(r);
    l->route = NULL;
}

struct sync_client_command *sync_client_command_new(struct sync_client *l, unsigned where, const char *bytes,
                                                    size_t length)
{
    struct sync_client_command *c = malloc(sizeof(*c) + length);
    if (c == NULL)
        return NULL;
    *c = (struct sync_client_command){.where = where, .length = length};
    if (length > 0)
        memcpy(c->bytes, bytes, length);
    TAILQ_INSERT_TAIL(&l->all, c, all);
    return c;
}

void sync_client_command_free(struct sync_client_commands *list, struct sync_client_command *c)
{
    TAILQ_REMOVE(list, c, all);
    if (c->state == COMMAND_SENT)
        TAILQ_REMOVE(&c->peer->sent, c, sent);
    freeReplyObject(c->reply);
    free(c);
}

void sync_client_forget(struct sync_client *l)
{
    struct sync_client_command *c;
    while ((c = TAILQ_FIRST(&l->all)) != NULL) {
        if (c->state == COMMAND_SENT)
            sync_client_peer_break(c->peer, ERR_UNREACHABLE);
        sync_client_command_free(&l->all, c);
    }
}

/* --- peers --- */

/* NULL: no memory, or too many peers. */
struct sync_client_peer *sync_client_route_peer(struct sync_client *l, const char *host, uint16_t port)
{
    struct sync_client_route *r = l->route;
    struct node node;
    cluster_node(l->nodes->cluster, host, port, &node);
    for (unsigned i = 0; i < r->count; i++)
        if (strcmp(r->peer[i]->node.name, node.name) == 0)
            return r->peer[i];
    struct sync_client_peer *p = r->count < SYNC_CLIENT_PEERS_MAX ? malloc(sizeof(*p)) : NULL;
    if (p == NULL)
        return NULL;
    sync_client_peer_init(p, &node);
    r->peer[r->count++] = p;
    return p;
}

static bool is_wanted(const struct sync_client *l, const struct sync_client_peer *p)
{
    const struct sync_client_route *r = l->route;
    if (l->pins > 0 || l->ahead.is_open || !TAILQ_EMPTY(&p->sent) ||
        slot_map_find(&r->map, p->node.host, p->node.port) < r->map.count)
        return true;
    for (unsigned i = 0; i < r->masters; i++)
        if (r->master[i] == p)
            return true;
    return false;
}

void sync_client_route_drop_unwanted(struct sync_client *l)
{
    struct sync_client_route *r = l->route;
    for (unsigned i = 0; i < r->count;) {
        if (is_wanted(l, r->peer[i])) {
            i++;
            continue;
        }
        peer_free(r->peer[i]);
        r->peer[i] = r->peer[--r->count];
    }
}

unsigned sync_client_asked(struct sync_client *l)
{
    struct sync_client_route *r = l->route;
    if (r == NULL)
        return 0;
    l->ahead.fails = true; /* what was asked ahead was for the former addresses */
    l->ahead.uses = 0;
    r->masters = 0;
    for (unsigned i = 0; i < r->count && l->pins > 0 && r->masters < SLOT_NODES_MAX; i++)
        if (r->peer[i]->is_asked)
            r->master[r->masters++] = r->peer[i];
    return r->masters;
}

/* --- sending --- */

/* The peer at the address @where, of a slot by the map; connected or not. */
static enum err find_peer(struct sync_client *l, unsigned where, struct sync_client_peer **out,
                          struct error *e)
{
    struct sync_client_route *r = l->route;
    if (where < WHERE_SLOT) {
        assert(where < l->nodes->count);
        *out = &l->peer[where];
        return ERR_OK;
    }
    *out = NULL;
    if (!where_is_slot(where)) {
        unsigned i = where & ~(unsigned)WHERE_MASTER;
        *out = i < r->masters ? r->master[i] : NULL;
        return *out != NULL ? ERR_OK : error_set(e, ERR_CONFLICT, "the master does not exist");
    }
    enum err code = sync_client_map_need(l, e);
    if (code != ERR_OK)
        return code;
    unsigned at = r->map.owner[where_slot(where)];
    if (at == SLOT_UNOWNED)
        return error_set(e, ERR_UNREACHABLE, "slot %u of the cluster has no master", where_slot(where));
    if (r->by_node[at] == NULL)
        r->by_node[at] = sync_client_route_peer(l, r->map.node[at].host, r->map.node[at].port);
    *out = r->by_node[at];
    return *out != NULL ? ERR_OK : error_set(e, ERR_NOMEM, "out of memory");
}

/* As find_peer(), and connected. A master that cannot be reached may have been replaced: ask for a newer
 * map. */
static enum err reach_peer(struct sync_client *l, unsigned where, struct sync_client_peer **out,
                           struct error *e)
{
    struct error first;
    enum err code = find_peer(l, where, out, &first);
    assert(code != ERR_OK || *out != NULL);
    if (code == ERR_OK)
        code = sync_client_peer_connect(l, *out, &first);
    if (code == ERR_OK)
        return ERR_OK;
    if (where_is_slot(where) && l->route->version != 0) {
        (void)sync_client_map_refresh(l, NULL);
        if (find_peer(l, where, out, NULL) == ERR_OK && sync_client_peer_connect(l, *out, NULL) == ERR_OK)
            return ERR_OK;
    }
    return error_set(e, code, "%s", first.text);
}

static void fail(struct sync_client_command *c, enum err code)
{
    c->state = COMMAND_FAILED;
    c->code = code;
}

void sync_client_peer_break(struct sync_client_peer *p, enum err code)
{
    struct sync_client_command *c;
    p->broke |= p->connection != NULL;
    sync_connection_close(p->connection);
    p->connection = NULL;
    p->is_replica = false;
    while ((c = TAILQ_FIRST(&p->sent)) != NULL) {
        TAILQ_REMOVE(&p->sent, c, sent);
        fail(c, code);
    }
}

static void send_to(struct sync_client_command *c, const char *bytes, size_t length,
                    struct sync_client_peer *p, bool asking)
{
    enum err code =
        asking ? sync_connection_append(p->connection, slots_asking, strlen(slots_asking), NULL) : ERR_OK;
    if (code == ERR_OK)
        code = sync_connection_append(p->connection, bytes, length, NULL);
    if (code != ERR_OK) {
        sync_client_peer_break(p, code);
        fail(c, code);
        return;
    }
    p->is_asked = true;
    c->peer = p;
    c->asking = asking;
    c->state = COMMAND_SENT;
    TAILQ_INSERT_TAIL(&p->sent, c, sent);
}

/* Only a command to a slot may have to be sent again; one that is asked ahead is compared. */
enum err sync_client_queue(struct sync_client *l, unsigned where, const char *bytes, size_t length,
                           struct error *e)
{
    struct sync_client_peer *p;
    size_t kept = where_is_slot(where) || l->ahead.asks != 0 ? length : 0;
    if (l->ahead.uses != 0 && sync_client_take_ahead(l, where, bytes, length))
        return ERR_OK;
    enum err code = reach_peer(l, where, &p, e);
    if (code != ERR_OK)
        return code;
    struct sync_client_command *c = sync_client_command_new(l, where, bytes, kept);
    if (c == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    c->user = l->ahead.asks;
    send_to(c, bytes, length, p, false);
    if (c->state == COMMAND_SENT)
        return ERR_OK;
    code = c->code;
    sync_client_command_free(&l->all, c);
    return error_set(e, code, "Redis node %s: the connection broke", p->node.name);
}

/* Reach the node that a redirection names. */
static enum err reach_named(struct sync_client *l, const struct slot_redirect *to,
                            struct sync_client_peer **out, struct error *e)
{
    if (!to->ask) {
        cluster_note_moved(l->nodes->cluster, to->slot);
        (void)sync_client_map_refresh(l, NULL);
        (void)slot_map_patch(&l->route->map, to->slot, to->host, to->port); /* if that fails, the next command
                                                                             * gets MOVED again */
    }
    *out = sync_client_route_peer(l, to->host, to->port);
    return *out == NULL ? error_set(e, ERR_NOMEM, "out of memory") : sync_client_peer_connect(l, *out, e);
}

enum err sync_client_append_together(struct sync_client *l, unsigned where, struct slot_redirect *redirect,
                                     unsigned count, const char *commands, const size_t *ends,
                                     uint64_t *connection, struct error *e)
{
    struct sync_client_peer *p = NULL;
    const struct slot_redirect to = *redirect;
    *redirect = (struct slot_redirect){0};
    l->ahead.uses = 0;
    enum err code = to.port != 0 ? reach_named(l, &to, &p, e) : reach_peer(l, where, &p, e);
    if (code != ERR_OK)
        return code;
    assert(p != NULL);
    struct sync_client_command *first = NULL, *next;
    size_t begin = 0;
    for (unsigned i = 0; code == ERR_OK && i < count; begin = ends[i++]) {
        struct sync_client_command *c = sync_client_command_new(l, where, NULL, 0);
        if (c == NULL) {
            code = ERR_NOMEM;
            break;
        }
        c->redirect = redirect;
        first = first == NULL ? c : first;
        send_to(c, commands + begin, ends[i] - begin, p, to.port != 0 && to.ask);
        code = c->state == COMMAND_SENT ? ERR_OK : c->code;
    }
    if (code == ERR_OK) {
        if (connection != NULL)
            *connection = p->number;
        return ERR_OK;
    }
    sync_client_peer_break(p, ERR_UNREACHABLE); /* some of the commands may be queued in it */
    for (; first != NULL; first = next) {
        next = TAILQ_NEXT(first, all);
        sync_client_command_free(&l->all, first);
    }
    return error_set(e, code, "out of memory");
}

/* --- replies --- */

/* Note a redirection. Nothing is sent again: the caller sends all of its commands elsewhere. */
static void note_redirect(struct sync_client *l, struct sync_client_command *c, const redisReply *reply,
                          const char *host)
{
    struct slot_redirect to;
    if (reply->type != REDIS_REPLY_ERROR)
        return;
    if (slots_parse_redirect(&to, reply->str, (size_t)reply->len, host))
        *c->redirect = to;
    else if (slots_error_wants_map(reply->str))
        (void)sync_client_map_refresh(l, NULL);
}

/* @to: where a node has sent it; NULL: by the map. */
static void send_again(struct sync_client *l, struct sync_client_command *c, const struct slot_redirect *to)
{
    struct sync_client_peer *p;
    enum err code = to != NULL ? reach_named(l, to, &p, NULL) : reach_peer(l, c->where, &p, NULL);
    if (code == ERR_OK)
        send_to(c, c->bytes, c->length, p, to != NULL && to->ask);
    else
        fail(c, code);
}

/* True: the command was sent again, and this reply is not for the caller. */
static bool takes_another_way(struct sync_client *l, struct sync_client_command *c, const redisReply *reply,
                              const char *host)
{
    struct slot_redirect to;
    if (reply->type != REDIS_REPLY_ERROR || !where_is_slot(c->where))
        return false;
    if (slots_parse_redirect(&to, reply->str, (size_t)reply->len, host)) {
        if (c->redirections++ == REDIRECTIONS_MAX)
            return false;
        send_again(l, c, &to);
        return true;
    }
    if (!slots_error_passes(reply->str))
        return false;
    uint64_t now = clock_mono_us();
    if (c->deadline == 0)
        c->deadline = now + (uint64_t)l->timeout_ms * 1000;
    if (now >= c->deadline)
        return false;
    clock_sleep_us(PAUSE_MIN_US + random_u64() % (PAUSE_MAX_US - PAUSE_MIN_US));
    if (slots_error_wants_map(reply->str))
        (void)sync_client_map_refresh(l, NULL);
    c->redirections = 0;
    send_again(l, c, NULL);
    return true;
}

/* True if a reply says that its server is a replica. Redis 6 has other text before the error of a script. */
static bool is_of_replica(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ERROR && strstr(reply->str, "READONLY ") != NULL;
}

enum err sync_client_read_one(struct sync_client *l, struct sync_client_peer *p, struct error *e)
{
    char host[NODE_NAME_MAX];
    redisReply *got = NULL;
    struct sync_client_command *c = TAILQ_FIRST(&p->sent);
    enum err code = sync_connection_reply(p->connection, &got, e);
    if (code != ERR_OK) {
        sync_client_peer_break(p, code);
        if (l->route != NULL)
            (void)sync_client_map_refresh(l, NULL);
        return code;
    }
    if (c->asking) {
        c->asking = false;
        freeReplyObject(got);
        return ERR_OK;
    }
    TAILQ_REMOVE(&p->sent, c, sent);
    c->state = COMMAND_ANSWERED;
    p->is_replica |= l->route == NULL && is_of_replica(got);
    memcpy(host, p->node.host, sizeof(host)); /* a new map may drop the peer */
    if (c->redirect != NULL && l->route != NULL)
        note_redirect(l, c, got, host);
    if (c->redirect == NULL && takes_another_way(l, c, got, host))
        freeReplyObject(got);
    else
        c->reply = got;
    return ERR_OK;
}

enum err sync_client_reply(struct sync_client *l, unsigned where, redisReply **out, struct error *e)
{
    struct sync_client_command *c;
    struct error why = {""};
    *out = NULL;
    TAILQ_FOREACH(c, &l->all, all)
    if (c->where == where)
        break;
    if (c == NULL)
        return error_set(e, ERR_CONFLICT, "Redis node %s: no reply is pending", sync_client_name(l, where));
    while (c->state == COMMAND_SENT)
        (void)sync_client_read_one(l, c->peer, &why);
    enum err code = ERR_OK;
    if (c->state == COMMAND_FAILED && why.text[0] != '\0')
        code = error_set(e, c->code, "%s", why.text);
    else if (c->state == COMMAND_FAILED)
        code = error_set(e, c->code, "Redis node %s: the connection broke", sync_client_name(l, where));
    *out = c->reply;
    c->reply = NULL;
    sync_client_command_free(&l->all, c);
    return code;
}

const char *sync_client_route_name(const struct sync_client *l, unsigned where)
{
    const struct sync_client_route *r = l->route;
    unsigned i = where & (WHERE_SLOT - 1);
    if (!where_is_slot(where))
        return i < r->masters ? r->master[i]->node.name : "(none)";
    unsigned at = r->map.owner[where_slot(where)];
    return at < r->map.count ? r->map.node[at].name : "of the cluster";
}
