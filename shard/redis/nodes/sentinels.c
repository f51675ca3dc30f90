/* SPDX-License-Identifier: MIT */
#include "shard/redis/nodes/sentinels_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char prefix[] = "sentinel:";

/* --- configuration --- */

/* Write each name as a URL, for nodes_parse(). False: no room. */
static bool as_urls(char *out, size_t size, const char *names)
{
    static const char blanks[] = " \t\r\n";
    size_t used = 0;
    for (const char *at = names;;) {
        at += strspn(at, blanks);
        size_t n = strcspn(at, ",");
        bool url = memmem(at, n, "://", 3) != NULL;
        int written = snprintf(out + used, size - used, "%s%s%.*s", used == 0 ? "" : ",",
                               url ? "" : "redis://", (int)n, at);
        if (written < 0 || (used += (size_t)written) >= size)
            return false;
        at += n;
        if (*at == '\0')
            return true;
        at++;
    }
}

enum err sentinels_parse(struct nodes *masters, struct nodes *asked, const char *urls, const char *names,
                         struct error *e)
{
    char text[8192];
    enum err code = nodes_parse(asked, urls, e);
    if (code != ERR_OK)
        return error_prefix(e, code, "sentinel");
    for (unsigned i = 0; i < asked->count; i++) {
        asked->node[i].watches = true;
        if (asked->node[i].path[0] != '\0' || asked->node[i].database != 0)
            return error_set(e, ERR_PARSE, "sentinel %u: neither a socket nor a database", i + 1);
    }
    if (names[strspn(names, " \t")] == '\0')
        return error_set(e, ERR_PARSE, "master: the sentinels' name of a master is missing");
    if (!as_urls(text, sizeof(text), names))
        return error_set(e, ERR_PARSE, "master: the list is too long");
    code = nodes_parse(masters, text, e);
    if (code != ERR_OK)
        return error_prefix(e, code, "master");
    for (unsigned i = 0; i < masters->count; i++) {
        struct node *n = &masters->node[i];
        if (n->path[0] != '\0' || strlen(n->host) + sizeof(prefix) > sizeof(n->name))
            return error_set(e, ERR_PARSE, "master: node %u is a path, or its name is too long", i + 1);
        for (unsigned j = 0; j < i; j++)
            if (strcmp(n->host, masters->node[j].host) == 0)
                return error_set(e, ERR_PARSE, "master: %s is listed twice", n->host);
        memcpy(n->name, prefix, sizeof(prefix) - 1);
        memcpy(n->name + sizeof(prefix) - 1, n->host, strlen(n->host) + 1);
        n->sentinel = true;
    }
    return ERR_OK;
}

/* --- what is known --- */

enum err sentinels_new(struct sentinels **out, const struct nodes *masters, struct error *e)
{
    struct sentinels *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    s->count = masters->count;
    for (unsigned i = 0; i < masters->count; i++)
        memcpy(s->master[i].name, masters->node[i].host, NODE_NAME_MAX);
    (void)pthread_mutex_init(&s->lock, NULL);
    *out = s;
    return ERR_OK;
}

void sentinels_free(struct sentinels *s)
{
    if (s == NULL)
        return;
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}

static struct sentinel_master *find(struct sentinels *s, const struct node *n)
{
    for (unsigned i = 0; i < s->count; i++)
        if (strcmp(s->master[i].name, n->host) == 0)
            return &s->master[i];
    return NULL;
}

bool sentinels_address(struct sentinels *s, const struct node *n, char host[NODE_NAME_MAX], uint16_t *port,
                       unsigned *version)
{
    struct sentinel_master *m = find(s, n);
    if (m == NULL)
        return false;
    (void)pthread_mutex_lock(&s->lock);
    memcpy(host, m->host, NODE_NAME_MAX);
    *port = m->port;
    *version = m->version;
    (void)pthread_mutex_unlock(&s->lock);
    atomic_store(&s->wanted, true);
    return host[0] != '\0';
}

bool sentinels_moved(struct sentinels *s, const struct node *n, unsigned version)
{
    struct sentinel_master *m = find(s, n);
    if (m == NULL)
        return false;
    HOLD(&s->lock);
    return m->version != version;
}
