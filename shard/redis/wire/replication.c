/* SPDX-License-Identifier: MIT */
#include "shard/redis/wire/replication.h"

#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "base/info.h"

void replications_fini(struct replications *s)
{
    free(s->one);
    *s = (struct replications){0};
}

const struct replication *replications_of_node(const struct replications *s, const char *node)
{
    for (unsigned i = 0; i < s->count; i++)
        if (strcmp(s->one[i].node, node) == 0)
            return &s->one[i];
    return NULL;
}

const struct replication *replications_of_id(const struct replications *s, uint64_t id)
{
    for (unsigned i = 0; i < s->count; i++)
        if (s->one[i].id == id && id != 0)
            return &s->one[i];
    return NULL;
}

enum err replications_add(struct replications *s, const struct replication *one, struct error *e)
{
    if (replications_of_id(s, one->id) != NULL)
        return ERR_OK;
    if (s->count == REPLICATIONS_MAX)
        return error_set(e, ERR_RANGE, "more than %d replication ids", REPLICATIONS_MAX);
    if (s->count == s->capacity) {
        unsigned capacity = s->capacity * 2 + 8;
        struct replication *room = realloc(s->one, capacity * sizeof(*room));
        if (room == NULL)
            return error_set(e, ERR_NOMEM, "out of memory");
        s->one = room;
        s->capacity = capacity;
    }
    s->one[s->count++] = *one;
    return ERR_OK;
}

/* --- what a view trusts --- */

/* Parse the next id of a text. False: it has another form. */
static bool next_id(const char **at, const char *end, uint64_t *id)
{
    if (end - *at < REPLICATION_ID_DIGITS || !number_hex64(*at, REPLICATION_ID_DIGITS, id) || *id == 0)
        return false;
    *at += REPLICATION_ID_DIGITS;
    if (*at == end)
        return true;
    return *(*at)++ == ' ' && *at < end;
}

bool trusted_parse(struct trusted *out, const char *text, size_t length)
{
    const char *end = text + length;
    out->count = 0;
    if (length == 1 && *text == '-')
        return true;
    while (text < end) {
        if (out->count == REPLICATIONS_MAX || !next_id(&text, end, &out->id[out->count]))
            return false;
        out->count++;
    }
    return length > 0;
}

bool trusted_contains(const struct trusted *t, uint64_t id)
{
    for (unsigned i = 0; t != NULL && i < t->count; i++)
        if (t->id[i] == id)
            return true;
    return false;
}

bool trusted_add(struct trusted *t, uint64_t id)
{
    unsigned at = t->count;
    while (at > 0 && t->id[at - 1] >= id)
        at--;
    if (at < t->count && t->id[at] == id)
        return true;
    if (t->count == REPLICATIONS_MAX)
        return false;
    memmove(&t->id[at + 1], &t->id[at], (t->count - at) * sizeof(t->id[0]));
    t->id[at] = id;
    t->count++;
    return true;
}

struct trusted *trusted_copy(const struct trusted *t)
{
    size_t size = t == NULL ? 0 : offsetof(struct trusted, id) + t->count * sizeof(t->id[0]);
    void *copy = t == NULL ? NULL : malloc(size);
    return copy == NULL ? NULL : memcpy(copy, t, size);
}

/* --- INFO --- */

/* The number of received bytes. CONFIG RESETSTAT clears it, but the statistics of commands count that command
 * itself for as long as the process runs. */
static uint64_t received(const char *text, size_t length)
{
    size_t n = 0;
    uint64_t bytes = REPLICATION_UNCOUNTED;
    const char *value = info_value(text, length, "total_net_repl_input_bytes", &n);
    if (value == NULL || strstr(text, "\ncmdstat_config|resetstat:") != NULL || !number_u64(value, n, &bytes))
        return REPLICATION_UNCOUNTED;
    return bytes;
}

enum err replication_parse_info(struct replication *out, const char *text, size_t length, struct error *e)
{
    size_t n = 0;
    const char *role = info_value(text, length, "role", &n);
    bool master = info_is(text, length, "role", "master");
    out->id = info_id(text, length, "master_replid");
    if (role == NULL || out->id == 0)
        return error_set(e, ERR_PARSE, "INFO has no replication id");
    if (!master)
        out->id = 0;
    out->promoted = info_id(text, length, "master_replid2") != 0;
    out->run = info_id(text, length, "run_id");
    out->received = received(text, length);
    return ERR_OK;
}

bool replication_goes_on(const struct replication *was, const struct replication *now)
{
    return was->run != 0 && was->run == now->run && !now->promoted &&
           was->received != REPLICATION_UNCOUNTED && was->received == now->received;
}
