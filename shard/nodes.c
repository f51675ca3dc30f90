/* SPDX-License-Identifier: MIT */
#include "shard/nodes.h"

#include <assert.h>
#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/number.h"

enum { PORT_DEFAULT = 6379 };

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    int lower = tolower((unsigned char)c);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* Undo the percent-encoding of @text into @out. False: malformed, a NUL, or no room. */
static bool decode(const char *text, size_t length, char *out, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (c == '%') {
            int high = length - i > 2 ? hex_digit(text[i + 1]) : -1;
            int low = high < 0 ? -1 : hex_digit(text[i + 2]);
            if (low < 0)
                return false;
            c = (char)(high << 4 | low);
            i += 2;
        }
        if (c == '\0' || used + 1 >= size)
            return false;
        out[used++] = c;
    }
    out[used] = '\0';
    return true;
}

static enum err parse_login(struct node *n, const char *text, size_t length, unsigned index, struct error *e)
{
    const char *colon = memchr(text, ':', length);
    if (colon == NULL)
        return error_set(e, ERR_PARSE, "node %u: a login is written user:password@", index);
    size_t user = (size_t)(colon - text);
    if (!decode(text, user, n->user, sizeof(n->user)))
        return error_set(e, ERR_PARSE, "node %u: the user is malformed or too long", index);
    if (!decode(colon + 1, length - user - 1, n->password, sizeof(n->password)) || n->password[0] == '\0')
        return error_set(e, ERR_PARSE, "node %u: the password is empty, malformed or too long", index);
    return ERR_OK;
}

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
static enum err parse_address(struct node *n, const char *text, size_t length, unsigned index,
                              struct error *e)
{
    bool bracketed = length > 0 && text[0] == '[';
    const char *host = text + bracketed;
    const char *end = memchr(host, bracketed ? ']' : ':', length - bracketed);
    if (bracketed && end == NULL)
        return error_set(e, ERR_PARSE, "node %u: the bracket of the host is not closed", index);
    size_t host_length = end == NULL ? length : (size_t)(end - host);
    if (!host_ok(host, host_length, bracketed))
        return error_set(e, ERR_PARSE, "node %u: the host is empty, malformed or too long", index);
    memcpy(n->host, host, host_length);
    n->host[host_length] = '\0';

    const char *rest = host + host_length + bracketed;
    size_t left = (size_t)(text + length - rest);
    uint64_t port = PORT_DEFAULT;
    if (left > 0 &&
        (rest[0] != ':' || !number_u64(rest + 1, left - 1, &port) || port == 0 || port > UINT16_MAX))
        return error_set(e, ERR_PARSE, "node %u: the port is not a number from 1 to 65535", index);
    n->port = (uint16_t)port;
    (void)snprintf(n->name, sizeof(n->name), bracketed ? "[%s]:%u" : "%s:%u", n->host, n->port);
    return ERR_OK;
}

static enum err parse_node(struct node *n, const char *text, size_t length, unsigned index, struct error *e)
{
    static const char scheme[] = "redis://";
    size_t skip = sizeof(scheme) - 1;
    if (length < skip || strncasecmp(text, scheme, skip) != 0)
        return error_set(e, ERR_PARSE, "node %u does not start with redis://", index);
    text += skip;
    length -= skip;
    *n = (struct node){0};

    const char *slash = memchr(text, '/', length);
    uint64_t database = 0;
    if (slash != NULL) {
        size_t digits = (size_t)(text + length - slash) - 1;
        if (digits > 0 && (!number_u64(slash + 1, digits, &database) || database > INT32_MAX))
            return error_set(e, ERR_PARSE, "node %u: the database is not a number", index);
        length = (size_t)(slash - text);
    }
    n->database = (unsigned)database;

    const char *at = memrchr(text, '@', length);
    if (at != NULL) {
        enum err err = parse_login(n, text, (size_t)(at - text), index, e);
        if (err != ERR_OK)
            return err;
        length -= (size_t)(at - text) + 1;
        text = at + 1;
    }
    return parse_address(n, text, length, index, e);
}

enum err nodes_parse(struct nodes *out, const char *text, struct error *e)
{
    static const char blanks[] = " \t\r\n";
    const char *item = text;
    for (out->count = 0;; out->count++) {
        item += strspn(item, blanks);
        size_t all = strcspn(item, ",");
        size_t length = all;
        while (length > 0 && strchr(blanks, item[length - 1]) != NULL)
            length--;
        if (out->count == GENERATION_NODES_MAX)
            return error_set(e, ERR_PARSE, "more than %d nodes", GENERATION_NODES_MAX);
        struct node *n = &out->node[out->count];
        enum err err = parse_node(n, item, length, out->count + 1, e);
        if (err != ERR_OK)
            return err;
        for (unsigned i = 0; i < out->count; i++)
            if (strcasecmp(out->node[i].name, n->name) == 0)
                return error_set(e, ERR_PARSE, "node %u: %s is listed twice", out->count + 1, n->name);
        item += all;
        if (*item == '\0')
            break;
        item++;
    }
    out->count++;
    return ERR_OK;
}

void nodes_pin(const struct nodes *nodes, struct generation *g)
{
    for (unsigned i = 0; i < nodes->count; i++)
        memcpy(g->nodes[i], nodes->node[i].name, NODE_NAME_MAX);
    g->node_count = nodes->count;
}

enum err placement_resolve(struct placement *out, const struct generation *g, const struct nodes *nodes,
                           struct error *e)
{
    if (g->node_count == 0)
        return error_set(e, ERR_CONFIG, "the generation names no node");
    for (unsigned i = 0; i < g->node_count; i++) {
        unsigned at = 0;
        while (at < nodes->count && strcasecmp(nodes->node[at].name, g->nodes[i]) != 0)
            at++;
        if (at == nodes->count)
            return error_set(e, ERR_CONFIG, "the filter has shards on node %s, which is not configured",
                             g->nodes[i]);
        out->node[i] = (uint8_t)at;
    }
    out->count = g->node_count;
    return ERR_OK;
}

unsigned placement_node(const struct placement *p, uint32_t shard)
{
    assert(p->count > 0);
    return p->node[shard % p->count];
}
