/* SPDX-License-Identifier: MIT */
#include "shard/replication.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include "base/number.h"
#include "base/info.h"

/* --- INFO --- */

/* The value of "@name=value" within "a=b,c=d". */
static const char *part(const char *line, size_t length, const char *name, size_t *value_length)
{
    size_t name_length = strlen(name);
    const char *end = line + length;
    while (line < end) {
        const char *comma = memchr(line, ',', (size_t)(end - line));
        size_t n = (size_t)((comma != NULL ? comma : end) - line);
        if (n > name_length && memcmp(line, name, name_length) == 0 && line[name_length] == '=') {
            *value_length = n - name_length - 1;
            return line + name_length + 1;
        }
        line += n + 1;
    }
    return NULL;
}

static bool host_ok(const char *host, size_t length)
{
    if (length == 0 || length > NODE_NAME_MAX - sizeof("[]:65535"))
        return false;
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)host[i]) && (host[i] == '\0' || strchr(".-_:%", host[i]) == NULL))
            return false;
    return true;
}

/* "ip=127.0.0.1,port=6380,state=online,offset=14,lag=0". False: it is not in step, or no address. */
static bool parse_replica(struct replica_address *out, const char *line, size_t length)
{
    size_t host_length = 0, port_length = 0, state_length = 0;
    uint64_t port = 0;
    const char *host = part(line, length, "ip", &host_length);
    const char *number = part(line, length, "port", &port_length);
    const char *state = part(line, length, "state", &state_length);
    if (host == NULL || number == NULL || state == NULL || state_length != 6 ||
        memcmp(state, "online", 6) != 0 || !host_ok(host, host_length) ||
        !number_u64(number, port_length, &port) || port == 0 || port > UINT16_MAX)
        return false;
    memcpy(out->host, host, host_length);
    out->host[host_length] = '\0';
    out->port = (uint16_t)port;
    return true;
}

/* They are numbered without gaps. */
static void parse_replicas(struct replication *out, const char *text, size_t length)
{
    for (unsigned i = 0; out->count < REPLICAS_MAX; i++) {
        char name[24];
        size_t n = 0;
        (void)snprintf(name, sizeof(name), "slave%u", i);
        const char *line = info_value(text, length, name, &n);
        if (line == NULL)
            return;
        out->count += parse_replica(&out->replica[out->count], line, n);
    }
}

enum err replication_parse(struct replication *out, const char *text, size_t length, struct error *e)
{
    size_t n = 0;
    *out = (struct replication){.master = info_is(text, length, "role", "master")};
    const char *offset =
        info_value(text, length, out->master ? "master_repl_offset" : "slave_repl_offset", &n);
    out->id = info_id(text, length, "master_replid");
    if ((!out->master && !info_is(text, length, "role", "slave")) || out->id == 0 || offset == NULL)
        return error_set(e, ERR_PARSE, "INFO lacks the role, the replication id or the offset");
    /* One that has executed nothing says -1, or 0. */
    if (!number_u64(offset, n, &out->offset))
        out->offset = 0;
    out->linked = !out->master && info_is(text, length, "master_link_status", "up") &&
                  info_is(text, length, "master_sync_in_progress", "0");
    if (out->master)
        parse_replicas(out, text, length);
    return ERR_OK;
}

/* --- lag --- */

void replication_log_add(struct replication_log *l, const struct replication *r, uint64_t asked_at)
{
    if (!r->master || l->id != r->id) {
        l->first = l->count = 0;
        l->id = r->master ? r->id : 0;
    }
    if (!r->master)
        return;
    if (l->count == REPLICATION_LOG) {
        l->first = (l->first + 1) % REPLICATION_LOG;
        l->count--;
    }
    unsigned at = (l->first + l->count++) % REPLICATION_LOG;
    l->entry[at].asked_at = asked_at;
    l->entry[at].offset = r->offset;
}

uint64_t replication_log_fresh(const struct replication_log *l, const struct replication *r)
{
    if (r->master || !r->linked || r->id != l->id)
        return 0;
    for (unsigned i = l->count; i > 0; i--) {
        unsigned at = (l->first + i - 1) % REPLICATION_LOG;
        if (l->entry[at].offset <= r->offset)
            return l->entry[at].asked_at;
    }
    return 0;
}
