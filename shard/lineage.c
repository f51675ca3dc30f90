/* SPDX-License-Identifier: MIT */
#include "shard/lineage.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "base/info.h"

/* --- sets --- */

void lineages_init(struct lineages *s)
{
    *s = (struct lineages){0};
}

void lineages_fini(struct lineages *s)
{
    free(s->one);
    lineages_init(s);
}

static const struct lineage *find(const struct lineages *s, uint64_t id)
{
    for (unsigned i = 0; i < s->count; i++)
        if (s->one[i].id == id)
            return &s->one[i];
    return NULL;
}

const struct lineage *lineages_of_node(const struct lineages *s, const char *node)
{
    for (unsigned i = 0; i < s->count; i++)
        if (strcmp(s->one[i].node, node) == 0)
            return &s->one[i];
    return NULL;
}

bool lineages_contains(const struct lineages *s, uint64_t id)
{
    return find(s, id) != NULL;
}

enum err lineages_add(struct lineages *s, const struct lineage *one, struct error *e)
{
    if (one->id != 0 && lineages_contains(s, one->id))
        return ERR_OK;
    if (s->count == LINEAGES_MAX)
        return error_set(e, ERR_RANGE, "more than %d replication ids", LINEAGES_MAX);
    if (s->count == s->capacity) {
        unsigned capacity = s->capacity * 2 + 8;
        struct lineage *room = realloc(s->one, capacity * sizeof(*room));
        if (room == NULL)
            return error_set(e, ERR_NOMEM, "out of memory");
        s->one = room;
        s->capacity = capacity;
    }
    s->one[s->count++] = *one;
    return ERR_OK;
}

static bool has_all(const struct lineages *s, const struct lineages *of)
{
    for (unsigned i = 0; i < of->count; i++)
        if (!of->one[i].idle && !lineages_contains(s, of->one[i].id))
            return false;
    return true;
}

bool lineages_equal(const struct lineages *a, const struct lineages *b)
{
    return has_all(a, b) && has_all(b, a);
}

/* --- text --- */

void lineages_format(const struct lineages *s, struct buffer *out)
{
    if (s->count == 0)
        buffer_puts(out, "-");
    for (unsigned i = 0; i < s->count; i++)
        buffer_printf(out, "%s%016" PRIx64, i == 0 ? "" : " ", s->one[i].id);
}

/* The next id of a text. False: its form is another one. */
static bool next_id(const char **at, const char *end, uint64_t *id)
{
    if (end - *at < LINEAGE_DIGITS || !number_hex64(*at, LINEAGE_DIGITS, id) || *id == 0)
        return false;
    *at += LINEAGE_DIGITS;
    if (*at == end)
        return true;
    return *(*at)++ == ' ' && *at < end;
}

static bool is_none(const char *text, size_t length)
{
    return length == 1 && *text == '-';
}

enum err lineages_parse(struct lineages *s, const char *text, size_t length, struct error *e)
{
    const char *end = text + length;
    enum err code = ERR_OK;
    if (is_none(text, length))
        return ERR_OK;
    if (length == 0)
        return error_set(e, ERR_PARSE, "no replication ids");
    while (text < end && code == ERR_OK) {
        struct lineage one = {0};
        if (!next_id(&text, end, &one.id))
            return error_set(e, ERR_PARSE, "not a list of replication ids");
        code = lineages_add(s, &one, e);
    }
    return code;
}

bool trusted_parse(struct trusted *out, const char *text, size_t length)
{
    const char *end = text + length;
    out->known = true;
    out->count = 0;
    if (is_none(text, length))
        return true;
    while (text < end) {
        if (out->count == LINEAGES_MAX || !next_id(&text, end, &out->id[out->count]))
            return false;
        out->count++;
    }
    return length > 0;
}

bool trusted_contains(const struct trusted *t, uint64_t id)
{
    for (unsigned i = 0; i < t->count; i++)
        if (t->id[i] == id)
            return true;
    return !t->known;
}

/* --- INFO --- */

/* A reset shows in the statistics of commands for as long as the process runs: it is counted itself. */
static uint64_t received(const char *text, size_t length)
{
    size_t n = 0;
    uint64_t bytes = LINEAGE_UNCOUNTED;
    const char *value = info_value(text, length, "total_net_repl_input_bytes", &n);
    if (value == NULL || strstr(text, "\ncmdstat_config|resetstat:") != NULL || !number_u64(value, n, &bytes))
        return LINEAGE_UNCOUNTED;
    return bytes;
}

enum err lineage_parse_info(struct lineage *out, const char *text, size_t length, struct error *e)
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
    out->idle = false;
    out->empty = out->run != 0 && strstr(text, "\ndb") == NULL;
    out->slots = 0;
    return ERR_OK;
}

bool lineage_goes_on(const struct lineage *was, const struct lineage *now)
{
    return was->run != 0 && was->run == now->run && !now->promoted && was->received != LINEAGE_UNCOUNTED &&
           was->received == now->received;
}
