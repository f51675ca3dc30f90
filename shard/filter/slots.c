/* SPDX-License-Identifier: MIT */
#include "shard/filter/slots.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/number.h"

/* --- keys --- */

/* Polynomial 0x1021, four bits at a time: tags are short, and a table of 32 bytes stays in the cache. */
uint16_t slots_crc(uint16_t crc, const void *bytes, size_t n)
{
    static const uint16_t table[16] = {0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
                                       0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef};
    const uint8_t *p = bytes;
    for (size_t i = 0; i < n; i++) {
        crc = (uint16_t)(crc << 4 ^ table[crc >> 12 ^ p[i] >> 4]);
        crc = (uint16_t)(crc << 4 ^ table[crc >> 12 ^ (p[i] & 0xf)]);
    }
    return crc;
}

unsigned slots_of_key(const char *key, size_t length)
{
    const char *open = memchr(key, '{', length);
    if (open != NULL) {
        const char *tag = open + 1;
        const char *close = memchr(tag, '}', length - (size_t)(tag - key));
        if (close != NULL && close != tag)
            return slots_of_crc(slots_crc(0, tag, (size_t)(close - tag)));
    }
    return slots_of_crc(slots_crc(0, key, length));
}

/* --- maps --- */

void slot_map_init(struct slot_map *m)
{
    m->count = 0;
    m->node = NULL;
    for (unsigned i = 0; i < SLOTS; i++)
        m->owner[i] = SLOT_UNOWNED;
}

void slot_map_fini(struct slot_map *m)
{
    free(m->node);
    slot_map_init(m);
}

enum err slot_map_copy(struct slot_map *out, const struct slot_map *from)
{
    slot_map_init(out);
    if (from->count > 0) {
        out->node = malloc(from->count * sizeof(*out->node));
        if (out->node == NULL)
            return ERR_NOMEM;
        memcpy(out->node, from->node, from->count * sizeof(*out->node));
    }
    out->count = from->count;
    memcpy(out->owner, from->owner, sizeof(out->owner));
    return ERR_OK;
}

/* Accept the characters of a list of nodes, and the underscores of some networks: hosts are logged, and
 * passed to the resolver. */
static bool host_ok(const char *host, size_t length)
{
    if (length == 0 || length > NODE_NAME_MAX - sizeof("[]:65535"))
        return false;
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)host[i]) && strchr(".-_:%", host[i]) == NULL)
            return false;
    return memchr(host, '\0', length) == NULL;
}

unsigned slot_map_find(const struct slot_map *m, const char *host, uint16_t port)
{
    unsigned i = 0;
    while (i < m->count && (m->node[i].port != port || strcasecmp(m->node[i].host, host) != 0))
        i++;
    return i;
}

/* Give the node's index; add the node if it is new. */
static enum err add_node(struct slot_map *m, const char *host, uint16_t port, bool replica, unsigned *at,
                         struct error *e)
{
    *at = slot_map_find(m, host, port);
    if (*at < m->count)
        return ERR_OK;
    if (m->count == SLOT_NODES_MAX)
        return error_set(e, ERR_RANGE, "the cluster has more than %d nodes", SLOT_NODES_MAX);
    struct slot_node *room = realloc(m->node, (m->count + 1) * sizeof(*room));
    if (room == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    m->node = room;
    struct slot_node *n = &room[m->count++];
    *n = (struct slot_node){.port = port, .replica = replica};
    (void)snprintf(n->host, sizeof(n->host), "%s", host);
    (void)snprintf(n->name, sizeof(n->name), strchr(n->host, ':') != NULL ? "[%.86s]:%u" : "%.88s:%u",
                   n->host, port);
    return ERR_OK;
}

static void set_owner(struct slot_map *m, unsigned slot, unsigned node)
{
    if (m->owner[slot] != SLOT_UNOWNED)
        m->node[m->owner[slot]].slots--;
    m->owner[slot] = (uint16_t)node;
    m->node[node].slots++;
    m->node[node].replica = false;
}

enum err slot_map_patch(struct slot_map *m, unsigned slot, const char *host, uint16_t port)
{
    unsigned at;
    enum err code = add_node(m, host, port, false, &at, NULL);
    if (code == ERR_OK)
        set_owner(m, slot, at);
    return code;
}

bool slot_map_has_moved(const struct slot_map *a, const struct slot_map *b, unsigned slot)
{
    unsigned x = a->owner[slot], y = b->owner[slot];
    if (x == SLOT_UNOWNED || y == SLOT_UNOWNED)
        return x != y;
    return strcmp(a->node[x].name, b->node[y].name) != 0;
}

unsigned slot_map_masters(const struct slot_map *m)
{
    unsigned masters = 0;
    for (unsigned i = 0; i < m->count; i++)
        masters += !m->node[i].replica;
    return masters;
}

unsigned slot_map_covered(const struct slot_map *m)
{
    unsigned covered = 0;
    for (unsigned i = 0; i < m->count; i++)
        covered += m->node[i].slots;
    return covered;
}

/* --- replies --- */

static bool is_text(const redisReply *r)
{
    return r->type == REDIS_REPLY_STRING || r->type == REDIS_REPLY_STATUS;
}

/* Write the host that a reply means to @out; "" if the node does not know it. False: the reply is no host. */
static bool take_host(const redisReply *r, const char *asked_host, char out[NODE_NAME_MAX])
{
    out[0] = '\0';
    if (r->type == REDIS_REPLY_NIL || (is_text(r) && r->len == 0)) {
        (void)snprintf(out, NODE_NAME_MAX, "%s", asked_host);
        return true;
    }
    if (!is_text(r))
        return false;
    if (r->len == 1 && r->str[0] == '?')
        return true;
    if (!host_ok(r->str, (size_t)r->len))
        return false;
    memcpy(out, r->str, (size_t)r->len);
    out[r->len] = '\0';
    return true;
}

static bool take_port(const redisReply *r, uint16_t *out)
{
    if (r->type != REDIS_REPLY_INTEGER || r->integer <= 0 || r->integer > UINT16_MAX)
        return false;
    *out = (uint16_t)r->integer;
    return true;
}

static bool take_range(const redisReply *first, const redisReply *last, unsigned *from, unsigned *to)
{
    if (first->type != REDIS_REPLY_INTEGER || last->type != REDIS_REPLY_INTEGER || first->integer < 0 ||
        last->integer < first->integer || last->integer >= SLOTS)
        return false;
    *from = (unsigned)first->integer;
    *to = (unsigned)last->integer;
    return true;
}

static enum err no_list(const redisReply *reply, struct error *e)
{
    if (reply->type != REDIS_REPLY_ERROR)
        return error_set(e, ERR_PARSE, "the slots of the cluster: not a list");
    return error_set(e, slots_error_passes(reply->str) ? ERR_UNREACHABLE : ERR_REFUSED, "%s", reply->str);
}

/* {first, last, {host, port, id, ...} of the master, {...} of a replica, ...} */
static enum err parse_range(struct slot_map *m, const redisReply *r, const char *asked_host, struct error *e)
{
    unsigned from, to;
    if (r->type != REDIS_REPLY_ARRAY || r->elements < 3 ||
        !take_range(r->element[0], r->element[1], &from, &to))
        return error_set(e, ERR_PARSE, "not a range of slots");
    for (size_t i = 2; i < r->elements; i++) {
        const redisReply *node = r->element[i];
        char host[NODE_NAME_MAX];
        uint16_t port;
        unsigned at;
        if (node->type != REDIS_REPLY_ARRAY || node->elements < 2 ||
            !take_host(node->element[0], asked_host, host) || !take_port(node->element[1], &port))
            return error_set(e, ERR_PARSE, "not a node's host and port");
        if (host[0] == '\0')
            continue;
        enum err code = add_node(m, host, port, i > 2, &at, e);
        if (code != ERR_OK)
            return code;
        for (unsigned slot = from; i == 2 && slot <= to; slot++)
            set_owner(m, slot, at);
    }
    return ERR_OK;
}

/* The value of a field in a flat list of names and values; NULL if the list does not have it. */
static const redisReply *field(const redisReply *list, const char *name)
{
    if (list->type != REDIS_REPLY_ARRAY)
        return NULL;
    for (size_t i = 0; i + 1 < list->elements; i += 2)
        if (is_text(list->element[i]) && strcmp(list->element[i]->str, name) == 0)
            return list->element[i + 1];
    return NULL;
}

static bool field_is(const redisReply *list, const char *name, const char *value)
{
    const redisReply *r = field(list, name);
    return r != NULL && is_text(r) && strcmp(r->str, value) == 0;
}

/* Servers say "fail", their manual says "failed". */
static bool has_failed(const redisReply *node)
{
    return field_is(node, "health", "fail") || field_is(node, "health", "failed");
}

/* A shard with slots may list two masters: the failed one, which holds no slots any more, is still there. */
static bool has_master_online(const redisReply *nodes)
{
    for (size_t i = 0; i < nodes->elements; i++)
        if (field_is(nodes->element[i], "role", "master") && !has_failed(nodes->element[i]))
            return true;
    return false;
}

/* Add one node of a shard. @holds: the shard has slots and no other master, so a failed node counts as its
 * master. *@at: the node's index, or SLOT_UNOWNED if the reply does not say how to reach it. */
static enum err parse_shard_node(struct slot_map *m, const redisReply *r, const char *asked_host, bool tls,
                                 bool holds, unsigned *at, struct error *e)
{
    char host[NODE_NAME_MAX];
    uint16_t port;
    const redisReply *endpoint = field(r, "endpoint");
    const redisReply *number = field(r, tls ? "tls-port" : "port");
    *at = SLOT_UNOWNED;
    if (endpoint == NULL || !take_host(endpoint, asked_host, host) || field(r, "role") == NULL)
        return error_set(e, ERR_PARSE, "not a node of a shard");
    /* The node has no port of this kind, or no known host, or is a former master that failed and was
     * replaced. */
    if (number == NULL || host[0] == '\0' || (!holds && has_failed(r)))
        return ERR_OK;
    if (!take_port(number, &port))
        return error_set(e, ERR_PARSE, "not the port of a node");
    return add_node(m, host, port, !field_is(r, "role", "master"), at, e);
}

static enum err parse_shard(struct slot_map *m, const redisReply *r, const char *asked_host, bool tls,
                            struct error *e)
{
    const redisReply *slots = field(r, "slots"), *nodes = field(r, "nodes");
    unsigned master = SLOT_UNOWNED;
    if (slots == NULL || slots->type != REDIS_REPLY_ARRAY || slots->elements % 2 != 0 || nodes == NULL ||
        nodes->type != REDIS_REPLY_ARRAY)
        return error_set(e, ERR_PARSE, "not a shard");
    bool online = false, holds = slots->elements > 0 && !has_master_online(nodes);
    for (size_t i = 0; i < nodes->elements; i++) {
        unsigned at;
        enum err code = parse_shard_node(m, nodes->element[i], asked_host, tls, holds, &at, e);
        if (code != ERR_OK)
            return code;
        /* In a failover two nodes may both say that they are the master. */
        if (at == SLOT_UNOWNED || !field_is(nodes->element[i], "role", "master") || online)
            continue;
        master = at;
        online = field_is(nodes->element[i], "health", "online");
    }
    for (size_t i = 0; i < slots->elements; i += 2) {
        unsigned from, to;
        if (!take_range(slots->element[i], slots->element[i + 1], &from, &to))
            return error_set(e, ERR_PARSE, "not a range of slots");
        for (unsigned slot = from; master != SLOT_UNOWNED && slot <= to; slot++)
            set_owner(m, slot, master);
    }
    return ERR_OK;
}

/* True if @r is a list that begins with a text, as the elements of CLUSTER SHARDS do. */
static bool is_shard(const redisReply *r)
{
    return r->type == REDIS_REPLY_ARRAY && r->elements > 0 && is_text(r->element[0]);
}

enum err slot_map_parse(struct slot_map *out, const redisReply *reply, const char *asked_host, bool tls,
                        struct error *e)
{
    slot_map_init(out);
    if (reply->type != REDIS_REPLY_ARRAY)
        return no_list(reply, e);
    for (size_t i = 0; i < reply->elements; i++) {
        const redisReply *r = reply->element[i];
        bool shard = is_shard(r);
        enum err code = shard ? parse_shard(out, r, asked_host, tls, e) : parse_range(out, r, asked_host, e);
        if (code != ERR_OK) {
            slot_map_fini(out);
            return error_prefix(e, code, "the %s of the cluster", shard ? "shards" : "slots");
        }
    }
    return ERR_OK;
}

/* --- errors of a node --- */

const char slots_asking[] = "*1\r\n$6\r\nASKING\r\n";

bool slots_parse_redirect(struct slot_redirect *out, const char *text, size_t length, const char *asked_host)
{
    static const char moved[] = "MOVED ", ask[] = "ASK ";
    size_t skip;
    *out = (struct slot_redirect){0};
    if (length > sizeof(moved) - 1 && memcmp(text, moved, sizeof(moved) - 1) == 0)
        skip = sizeof(moved) - 1;
    else if (length > sizeof(ask) - 1 && memcmp(text, ask, sizeof(ask) - 1) == 0)
        skip = sizeof(ask) - 1;
    else
        return false;
    out->ask = text[0] == 'A';
    const char *number = text + skip, *end = text + length;
    const char *blank = memchr(number, ' ', (size_t)(end - number));
    const char *colon = memrchr(text, ':', length);
    uint64_t slot, port;
    if (blank == NULL || colon == NULL || colon < blank ||
        !number_u64(number, (size_t)(blank - number), &slot) || slot >= SLOTS ||
        !number_u64(colon + 1, (size_t)(end - colon) - 1, &port) || port == 0 || port > UINT16_MAX)
        return false;
    out->slot = (unsigned)slot;
    out->port = (uint16_t)port;
    const char *host = blank + 1;
    size_t host_length = (size_t)(colon - host);
    if (host_length == 0) {
        (void)snprintf(out->host, sizeof(out->host), "%s", asked_host);
        return true;
    }
    if (!host_ok(host, host_length))
        return false;
    memcpy(out->host, host, host_length);
    out->host[host_length] = '\0';
    return true;
}

static bool begins(const char *text, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strncmp(text, words[i], strlen(words[i])) == 0)
            return true;
    return false;
}

bool slots_error_passes(const char *text)
{
    static const char *const words[] = {"LOADING", "BUSY ", "MASTERDOWN", "TRYAGAIN", "CLUSTERDOWN"};
    /* A script that deletes one of its keys while the slot is being moved may not touch that key again. */
    bool gone = strstr(text, "attempted to access a non local key") != NULL ||
                strstr(text, "keys were accessed during rehashing of the slot") != NULL;
    return gone || begins(text, words, sizeof(words) / sizeof(words[0]));
}

bool slots_error_wants_map(const char *text)
{
    static const char *const words[] = {"MASTERDOWN", "CLUSTERDOWN", "MOVED "};
    return begins(text, words, sizeof(words) / sizeof(words[0]));
}
