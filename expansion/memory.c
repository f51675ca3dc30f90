/* SPDX-License-Identifier: MIT */
#include "expansion/memory.h"

#include <stdio.h>
#include <string.h>
#include "base/number.h"

uint64_t memory_of_generation(const struct generation *g)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; g != NULL && i < g->layer_count; i++)
        bytes += geometry_memory(&g->layers[i].geometry);
    return bytes;
}

uint64_t memory_of_view(const struct view *v)
{
    return memory_of_generation(view_current(v)) + memory_of_generation(view_alternate(v));
}

/* The text behind "field:" up to the end of its line; "" where the field is missing. */
static size_t info_field(const char *info, const char *field, const char **value)
{
    size_t length = strlen(field);
    for (const char *line = info; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, field, length) == 0 && line[length] == ':') {
            *value = line + length + 1;
            return strcspn(*value, "\r\n");
        }
    }
    *value = "";
    return 0;
}

enum err memory_of_nodes(struct link *l, struct plan_node *out, struct error *e)
{
    const struct nodes *nodes = link_nodes(l);
    for (unsigned i = 0; i < nodes->count; i++) {
        redisReply *reply;
        enum err code = link_command(l, i, &reply, e, "INFO memory");
        if (code != ERR_OK)
            return code;
        const char *value;
        out[i] = (struct plan_node){0};
        (void)snprintf(out[i].name, sizeof(out[i].name), "%s", nodes->node[i].name);
        size_t n = info_field(reply->str, "used_memory", &value);
        bool known = number_u64(value, n, &out[i].used);
        n = info_field(reply->str, "maxmemory", &value);
        (void)number_u64(value, n, &out[i].maxmemory);
        n = info_field(reply->str, "total_system_memory", &value);
        (void)number_u64(value, n, &out[i].machine);
        n = info_field(reply->str, "maxmemory_policy", &value);
        (void)snprintf(out[i].policy, sizeof(out[i].policy), "%.*s", (int)n, value);
        freeReplyObject(reply);
        if (!known)
            return error_set(e, ERR_REFUSED, "Redis node %s: INFO memory has no used_memory", out[i].name);
    }
    return ERR_OK;
}
