/* SPDX-License-Identifier: MIT */
#include "shard/redis/nodes/nodes.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/number.h"
#include "shard/redis/nodes/cluster.h"

enum { PORT_DEFAULT = 6379 };

static enum err set_user(struct node *n, const char *text, size_t length, struct error *e)
{
    if (!number_unpercent(text, length, n->user, sizeof(n->user)))
        return error_set(e, ERR_PARSE, "the user is malformed or too long");
    return ERR_OK;
}

static enum err set_password(struct node *n, const char *text, size_t length, struct error *e)
{
    if (!number_unpercent(text, length, n->password, sizeof(n->password)) || n->password[0] == '\0')
        return error_set(e, ERR_PARSE, "the password is empty, malformed or too long");
    return ERR_OK;
}

static enum err parse_login(struct node *n, const char *text, size_t length, struct error *e)
{
    const char *colon = memchr(text, ':', length);
    if (colon == NULL)
        return error_set(e, ERR_PARSE, "a login is written user:password@");
    size_t user = (size_t)(colon - text);
    enum err err = set_user(n, text, user, e);
    return err == ERR_OK ? set_password(n, colon + 1, length - user - 1, e) : err;
}

static enum err set_database(struct node *n, const char *text, size_t length, struct error *e)
{
    uint64_t database = 0;
    if (length > 0 && (!number_u64(text, length, &database) || database > INT32_MAX))
        return error_set(e, ERR_PARSE, "the database is not a number");
    n->database = (unsigned)database;
    return ERR_OK;
}

/* --- host and port --- */

static bool host_ok(const char *host, size_t length, bool bracketed)
{
    if (length == 0 || length > NODE_NAME_MAX - sizeof("[]:65535"))
        return false;
    for (size_t i = 0; i < length; i++) {
        bool usual = isalnum((unsigned char)host[i]) || host[i] == '.' || host[i] == '-';
        if (!usual && strchr(bracketed ? ":%" : "_", host[i]) == NULL)
            return false;
    }
    return true;
}

/* "host", "host:port", "[v6]" or "[v6]:port". */
static enum err parse_address(struct node *n, const char *text, size_t length, struct error *e)
{
    bool bracketed = length > 0 && text[0] == '[';
    const char *host = text + bracketed;
    const char *end = memchr(host, bracketed ? ']' : ':', length - bracketed);
    if (bracketed && end == NULL)
        return error_set(e, ERR_PARSE, "the bracket of the host is not closed");
    size_t host_length = end == NULL ? length : (size_t)(end - host);
    if (!host_ok(host, host_length, bracketed))
        return error_set(e, ERR_PARSE, "the host is empty, malformed or too long");
    memcpy(n->host, host, host_length);
    n->host[host_length] = '\0';

    const char *rest = host + host_length + bracketed;
    size_t left = (size_t)(text + length - rest);
    uint64_t port = PORT_DEFAULT;
    if (left > 0 &&
        (rest[0] != ':' || !number_u64(rest + 1, left - 1, &port) || port == 0 || port > UINT16_MAX))
        return error_set(e, ERR_PARSE, "the port is not a number from 1 to 65535");
    n->port = (uint16_t)port;
    (void)snprintf(n->name, sizeof(n->name), bracketed ? "[%s]:%u" : "%s:%u", n->host, n->port);
    return ERR_OK;
}

/* "[login@]address[/db]" */
static enum err parse_host(struct node *n, const char *text, size_t length, struct error *e)
{
    const char *slash = memchr(text, '/', length);
    enum err err = ERR_OK;
    if (slash != NULL) {
        err = set_database(n, slash + 1, (size_t)(text + length - slash) - 1, e);
        length = (size_t)(slash - text);
    }
    const char *at = memrchr(text, '@', length);
    if (err == ERR_OK && at != NULL) {
        err = parse_login(n, text, (size_t)(at - text), e);
        length -= (size_t)(at - text) + 1;
        text = at + 1;
    }
    return err == ERR_OK ? parse_address(n, text, length, e) : err;
}

/* --- Unix sockets --- */

static enum err parse_option(struct node *n, const char *text, size_t length, struct error *e)
{
    static const char db[] = "db=", password[] = "password=";
    if (length >= sizeof(db) && memcmp(text, db, sizeof(db) - 1) == 0)
        return set_database(n, text + sizeof(db) - 1, length - sizeof(db) + 1, e);
    if (length >= sizeof(password) && memcmp(text, password, sizeof(password) - 1) == 0)
        return set_password(n, text + sizeof(password) - 1, length - sizeof(password) + 1, e);
    return error_set(e, ERR_PARSE, "behind the path of a socket comes ?db=N, ?password=... or both");
}

static enum err parse_options(struct node *n, const char *text, size_t length, struct error *e)
{
    enum err err = ERR_OK;
    for (size_t i = 0; err == ERR_OK && i <= length;) {
        const char *end = memchr(text + i, '&', length - i);
        size_t one = end == NULL ? length - i : (size_t)(end - text) - i;
        err = parse_option(n, text + i, one, e);
        i += one + 1;
    }
    return err;
}

/* The path is the node's name too, so it must be valid in the text of a generation. */
static bool path_ok(const char *path)
{
    for (; *path != '\0'; path++)
        if (*path <= ' ' || *path > '~' || *path == ',' || *path == ';')
            return false;
    return true;
}

/* "[login@]/path[?options]" */
static enum err parse_socket(struct node *n, const char *text, size_t length, struct error *e)
{
    const char *path = memchr(text, '/', length);
    if (path == NULL || (path > text && path[-1] != '@'))
        return error_set(e, ERR_PARSE, "a socket is written unix:///path, its path from the root on");
    const char *end = text + length, *query = memchr(path, '?', (size_t)(end - path));
    if (!number_unpercent(path, (size_t)((query != NULL ? query : end) - path), n->path, sizeof(n->path)))
        return error_set(e, ERR_PARSE, "the path of the socket is malformed, or longer than %d bytes",
                         NODE_NAME_MAX - 1);
    if (!path_ok(n->path))
        return error_set(e, ERR_PARSE,
                         "the path of the socket has blanks, commas, semicolons or letters that are "
                         "not ASCII");
    (void)snprintf(n->name, sizeof(n->name), "%s", n->path);
    enum err err = ERR_OK;
    size_t login = path > text ? (size_t)(path - text) - 1 : 0;
    if (login > 0 && memchr(text, ':', login) == NULL) /* without a colon: the password is an option */
        err = set_user(n, text, login, e);
    else if (path > text)
        err = parse_login(n, text, login, e);
    if (err == ERR_OK && query != NULL)
        err = parse_options(n, query + 1, (size_t)(end - query) - 1, e);
    if (err == ERR_OK && n->user[0] != '\0' && n->password[0] == '\0')
        return error_set(e, ERR_PARSE, "a user needs a password");
    return err;
}

/* --- one of a list --- */

static enum err parse_node(struct node *n, const char *text, size_t length, struct error *e)
{
    static const struct {
        const char *text;
        bool tls;
        enum err (*parse)(struct node *n, const char *text, size_t length, struct error *e);
    } schemes[] = {
        {"redis://", false, parse_host}, {"rediss://", true, parse_host}, {"unix://", false, parse_socket}};
    *n = (struct node){0};
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        size_t skip = strlen(schemes[i].text);
        if (length < skip || strncasecmp(text, schemes[i].text, skip) != 0)
            continue;
        n->tls = schemes[i].tls;
        return schemes[i].parse(n, text + skip, length - skip, e);
    }
    return error_set(e, ERR_PARSE, "it does not start with redis://, rediss:// or unix://");
}

bool node_is_named(const struct node *n, const char *name)
{
    return n->path[0] != '\0' ? strcmp(n->name, name) == 0 : strcasecmp(n->name, name) == 0;
}

bool nodes_use_tls(const struct nodes *nodes)
{
    for (unsigned i = 0; i < nodes->count; i++)
        if (nodes->node[i].tls)
            return true;
    return false;
}

enum err nodes_parse(struct nodes *out, const char *text, struct error *e)
{
    static const char blanks[] = " \t\r\n";
    const char *item = text;
    out->tls = NULL;
    out->health = NULL;
    out->cluster = NULL;
    out->sentinels = NULL;
    for (out->count = 0;; out->count++) {
        item += strspn(item, blanks);
        size_t all = strcspn(item, ",");
        size_t length = all;
        while (length > 0 && strchr(blanks, item[length - 1]) != NULL)
            length--;
        if (out->count == GENERATION_NODES_MAX)
            return error_set(e, ERR_PARSE, "more than %d nodes", GENERATION_NODES_MAX);
        struct node *n = &out->node[out->count];
        enum err err = parse_node(n, item, length, e);
        if (err != ERR_OK)
            return error_prefix(e, err, "node %u", out->count + 1);
        for (unsigned i = 0; i < out->count; i++)
            if (node_is_named(&out->node[i], n->name))
                return error_set(e, ERR_PARSE, "node %u: %s is listed twice", out->count + 1, n->name);
        item += all;
        if (*item == '\0')
            break;
        item++;
    }
    out->count++;
    return ERR_OK;
}

/* --- addresses --- */

unsigned nodes_count(const struct nodes *nodes)
{
    return nodes->cluster == NULL ? nodes->count : cluster_masters(nodes->cluster);
}

unsigned nodes_home(const struct nodes *nodes, const struct names *names)
{
    return nodes->cluster == NULL ? NODE_HOME : WHERE_SLOT | slots_of_crc(names->crc);
}

unsigned nodes_key(const struct nodes *nodes, const char *key, size_t length)
{
    return nodes->cluster == NULL ? NODE_HOME : WHERE_SLOT | slots_of_key(key, length);
}

unsigned nodes_filters(const struct nodes *nodes, const char *prefix)
{
    char key[PREFIX_MAX + sizeof(":filters")];
    int length = snprintf(key, sizeof(key), "%s:filters", prefix);
    return nodes_key(nodes, key, (size_t)length);
}

/* --- placement --- */

/* Not the name of a node: those have a port. */
static const char pinned_cluster[] = "cluster";

void placement_pin(const struct placement *p, const struct nodes *nodes, struct generation *g)
{
    const char *name;
    for (g->node_count = 0; (name = placement_name(p, nodes, g->node_count)) != NULL; g->node_count++)
        (void)snprintf(g->nodes[g->node_count], sizeof(g->nodes[0]), "%s", name);
}

const char *placement_name(const struct placement *p, const struct nodes *nodes, unsigned i)
{
    if (p->count == 0)
        return i == 0 ? pinned_cluster : NULL;
    return i < p->count ? nodes->node[p->node[i]].name : NULL;
}

unsigned placement_nodes(const struct placement *p, const struct nodes *nodes)
{
    return p->count > 0 ? p->count : nodes_count(nodes);
}

/* The index of the configured node with that name; their number if there is none. */
static unsigned find_node(const struct nodes *nodes, const char *text, size_t length)
{
    char name[NODE_NAME_MAX], with_port[NODE_NAME_MAX + 8];
    (void)snprintf(name, sizeof(name), "%.*s", (int)length, text);
    (void)snprintf(with_port, sizeof(with_port), "%s:%d", name, PORT_DEFAULT);
    unsigned i = 0;
    while (i < nodes->count && !node_is_named(&nodes->node[i], name) &&
           !node_is_named(&nodes->node[i], with_port))
        i++;
    return i;
}

static enum err choose_one(struct placement *out, const struct nodes *nodes, const char *name, size_t length,
                           struct error *e)
{
    int shown = (int)(length < NODE_NAME_MAX ? length : NODE_NAME_MAX);
    unsigned found = length < NODE_NAME_MAX ? find_node(nodes, name, length) : nodes->count;
    if (found == nodes->count)
        return error_set(e, ERR_CONFIG,
                         "node '%.*s' is not configured: name some of [redis] nodes as host:port", shown,
                         name);
    for (unsigned i = 0; i < out->count; i++)
        if (out->node[i] == found)
            return error_set(e, ERR_CONFIG, "node %s is listed twice", nodes->node[found].name);
    out->node[out->count++] = (uint8_t)found;
    return ERR_OK;
}

enum err placement_choose(struct placement *out, const struct nodes *nodes, const char *list, struct error *e)
{
    static const char blanks[] = " \t\r\n";
    *out = (struct placement){.count = 0};
    if (list[strspn(list, blanks)] == '\0') {
        for (; nodes->cluster == NULL && out->count < nodes->count; out->count++)
            out->node[out->count] = (uint8_t)out->count;
        return ERR_OK;
    }
    if (nodes->cluster != NULL)
        return error_set(e, ERR_CONFIG,
                         "nodes cannot be chosen in a Redis Cluster: the slots of the shards decide");
    for (const char *at = list;; at++) {
        at += strspn(at, blanks);
        size_t all = strcspn(at, ","), length = all;
        while (length > 0 && strchr(blanks, at[length - 1]) != NULL)
            length--;
        enum err code = choose_one(out, nodes, at, length, e);
        at += all;
        if (code != ERR_OK || *at == '\0')
            return code;
    }
}

void nodes_pin(const struct nodes *nodes, struct generation *g)
{
    struct placement all;
    if (placement_choose(&all, nodes, "", NULL) == ERR_OK)
        placement_pin(&all, nodes, g);
}

static enum err resolve_cluster(struct placement *out, const struct names *names, const struct generation *g,
                                const struct nodes *nodes, struct error *e)
{
    char text[24] = ".";
    if (nodes->cluster == NULL)
        return error_set(e, ERR_CONFIG, "the filter's shards are in a Redis Cluster, but none is configured");
    char *end = number_write(text + 1, g->number);
    *end++ = '.';
    out->count = 0;
    out->crc = slots_crc(names->crc, text, (size_t)(end - text));
    return ERR_OK;
}

enum err placement_resolve(struct placement *out, const struct names *names, const struct generation *g,
                           const struct nodes *nodes, struct error *e)
{
    if (g->node_count == 0)
        return error_set(e, ERR_CONFIG, "the generation names no node");
    if (g->node_count == 1 && strcmp(g->nodes[0], pinned_cluster) == 0)
        return resolve_cluster(out, names, g, nodes, e);
    for (unsigned i = 0; i < g->node_count; i++) {
        unsigned at = 0;
        while (at < nodes->count && !node_is_named(&nodes->node[at], g->nodes[i]))
            at++;
        if (at == nodes->count)
            return error_set(e, ERR_CONFIG, "the filter has shards on node %s, which is not configured%s",
                             g->nodes[i], nodes->cluster == NULL ? "" : ": it was not made in this cluster");
        out->node[i] = (uint8_t)at;
    }
    out->count = g->node_count;
    return ERR_OK;
}

unsigned placement_where(const struct placement *p, unsigned layer, uint32_t shard)
{
    if (p->count > 0)
        return p->node[shard % p->count];
    char text[32];
    char *end = number_write(text, layer);
    *end++ = '.';
    end = number_write(end, shard);
    return WHERE_SLOT | slots_of_crc(slots_crc(p->crc, text, (size_t)(end - text)));
}
