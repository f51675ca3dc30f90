/* SPDX-License-Identifier: MIT */
/* The happy path is: once a second one script writes the record, and another keeps the id in the list.
 * Possible failure modes are: the coordinator dies (its record expires, and whoever reads then drops the id
 * from the list), it stops and wakes (its next heartbeat makes record and entry again), Redis starts empty
 * (likewise), two processes read at once (both drop the same id). */
#include "shard/members/members.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/number.h"

extern const char embedded_heartbeat[], embedded_enrol[];

#define EPOCH_FIELD "epoch:"

static const char *members_field_name(enum members_field field)
{
    static const char *const names[] = {
#define X(field, name) [field] = (name),
        MEMBERS_FIELDS(X)
#undef X
    };
    return names[field];
}

static void list_key(const char *prefix, struct key_name *out)
{
    out->length = (size_t)snprintf(out->text, sizeof(out->text), "%s:coordinators", prefix);
}

/* The address of the list and of the records: in a cluster they lie in one slot, so that they can be read
 * while masters of other slots are down. */
static unsigned members_home(const struct sync_client *l, const char *prefix)
{
    struct key_name list;
    list_key(prefix, &list);
    return nodes_key(sync_client_nodes(l), list.text, list.length);
}

static void record_key(const char *prefix, const char *id, struct key_name *out)
{
    out->length = (size_t)snprintf(out->text, sizeof(out->text), "%s:{%s:coordinators}:%.*s", prefix, prefix,
                                   MEMBERS_ID_MAX - 1, id);
}

/* --- the own record --- */

/* The number of pairs is known only at the end: write zeros of full width first, and fill it in
 * afterwards. */
enum { COUNT_ARGUMENT = 2, COUNT_WIDTH = 6 };

void members_begin(struct members_heartbeat *b, const char *prefix, const char *id)
{
    struct key_name name;
    (void)snprintf(b->prefix, sizeof(b->prefix), "%s", prefix);
    (void)snprintf(b->id, sizeof(b->id), "%s", id);
    record_key(b->prefix, b->id, &name);
    script_begin(&b->call, embedded_heartbeat);
    script_key(&b->call, &name);
    script_number(&b->call, MEMBERS_KEEP_MS);
    script_text(&b->call, "000000");
    b->pairs = 0;
    b->gone = 0;
    members_number(b, MEMBERS_KEEP, MEMBERS_KEEP_MS);
}

void members_text(struct members_heartbeat *b, enum members_field field, const char *value)
{
    script_field(&b->call, members_field_name(field), value);
    b->pairs += 2;
}

void members_number(struct members_heartbeat *b, enum members_field field, uint64_t value)
{
    script_number_field(&b->call, members_field_name(field), value);
    b->pairs += 2;
}

static void epoch_field(const char *filter, char out[FILTER_NAME_MAX + 8])
{
    (void)snprintf(out, FILTER_NAME_MAX + 8, EPOCH_FIELD "%s", filter);
}

void members_epoch(struct members_heartbeat *b, const char *filter, uint64_t incarnation, uint64_t epoch)
{
    char field[FILTER_NAME_MAX + 8], value[48];
    if (epoch == 0) {
        epoch_field(filter, b->forgotten[b->gone++]);
        return;
    }
    epoch_field(filter, field);
    (void)snprintf(value, sizeof(value), "%016" PRIx64 ":%" PRIu64, incarnation, epoch);
    script_field(&b->call, field, value);
    b->pairs += 2;
}

static enum err write_record(struct members_heartbeat *b, struct sync_client *l, bool *whole, struct error *e)
{
    char count[COUNT_WIDTH + 1];
    for (size_t i = 0; i < b->gone; i++)
        script_text(&b->call, b->forgotten[i]);
    (void)snprintf(count, sizeof(count), "%0*zu", COUNT_WIDTH, b->pairs);
    if (!buffer_failed(&b->call.bytes))
        memcpy(b->call.bytes.data + b->call.offset[COUNT_ARGUMENT], count, COUNT_WIDTH);
    long long answer;
    enum err code = script_run(&b->call, l, members_home(l, b->prefix), &answer, e);
    *whole = code == ERR_OK && answer == 1;
    return code;
}

enum err members_write(struct members_heartbeat *b, struct sync_client *l, bool *whole, struct error *e)
{
    struct key_name list;
    long long answer;
    enum err code = write_record(b, l, whole, e);
    if (code != ERR_OK)
        return code;
    list_key(b->prefix, &list);
    script_begin(&b->call, embedded_enrol);
    script_key(&b->call, &list);
    script_text(&b->call, b->id);
    script_number(&b->call, MEMBERS_KEEP_MS);
    script_number(&b->call, MEMBERS_MAX);
    return script_run(&b->call, l, members_home(l, b->prefix), &answer, e);
}

static enum err forget(struct sync_client *l, const char *prefix, const char *id, struct error *e)
{
    struct key_name list;
    list_key(prefix, &list);
    return sync_client_command(l, members_home(l, prefix), NULL, e, "SREM %b %s", list.text, list.length, id);
}

enum err members_leave(struct sync_client *l, const char *prefix, const char *id, struct error *e)
{
    struct key_name record;
    record_key(prefix, id, &record);
    enum err code =
        sync_client_command(l, members_home(l, prefix), NULL, e, "DEL %b", record.text, record.length);
    return code == ERR_OK ? forget(l, prefix, id, e) : code;
}

void members_fini(struct members_heartbeat *b)
{
    script_fini(&b->call);
}

/* --- all records --- */

const char *members_value(const struct members_entry *entry, enum members_field field)
{
    const redisReply *v = entry->values->element[field];
    return v->type == REDIS_REPLY_STRING ? v->str : "";
}

uint64_t members_figure(const struct members_entry *entry, enum members_field field)
{
    uint64_t n = 0;
    const char *text = members_value(entry, field);
    return number_u64(text, strlen(text), &n) && n <= INT64_MAX ? n : 0;
}

void members_list_nodes(const struct nodes *nodes, struct buffer *out)
{
    struct placement all;
    const char *name;
    if (placement_choose(&all, nodes, "", NULL) == ERR_OK)
        for (unsigned i = 0; (name = placement_name(&all, nodes, i)) != NULL; i++)
            buffer_printf(out, "%s%s", i > 0 ? "\n" : "", name);
}

static int by_text(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

/* Ask for the record of @id, and for its TTL. */
static enum err ask(struct sync_client *l, const char *prefix, const char *id, const char *filter,
                    struct error *e)
{
    struct key_name record;
    char field[FILTER_NAME_MAX + 8];
    const char *argv[2 + MEMBERS_FIELD_COUNT + 1] = {"HMGET", record.text};
    size_t lengths[2 + MEMBERS_FIELD_COUNT + 1] = {5};
    size_t n = 2;
    record_key(prefix, id, &record);
    lengths[1] = record.length;
    for (unsigned f = 0; f < MEMBERS_FIELD_COUNT; f++, n++) {
        argv[n] = members_field_name((enum members_field)f);
        lengths[n] = strlen(argv[n]);
    }
    if (filter != NULL) {
        epoch_field(filter, field);
        argv[n] = field;
        lengths[n++] = strlen(field);
    }
    unsigned where = members_home(l, prefix);
    enum err code = sync_client_append(l, where, n, argv, lengths, e);
    const char *ttl[] = {"PTTL", record.text};
    const size_t ttl_lengths[] = {4, record.length};
    return code == ERR_OK ? sync_client_append(l, where, 2, ttl, ttl_lengths, e) : code;
}

static void take_epoch(struct members_entry *entry)
{
    const redisReply *v =
        entry->values->elements > MEMBERS_FIELD_COUNT ? entry->values->element[MEMBERS_FIELD_COUNT] : NULL;
    enum { DIGITS = 16 };
    uint64_t incarnation, epoch;
    if (v == NULL || v->type != REDIS_REPLY_STRING || v->len <= DIGITS + 1 || v->str[DIGITS] != ':' ||
        !number_hex64(v->str, DIGITS, &incarnation) ||
        !number_u64(v->str + DIGITS + 1, (size_t)v->len - DIGITS - 1, &epoch))
        return;
    entry->incarnation = incarnation;
    entry->epoch = epoch;
}

/* True if there is a record. */
static bool take(struct members_entry *entry, const redisReply *values, const redisReply *ttl)
{
    uint64_t keep = MEMBERS_KEEP_MS;
    if (values->type != REDIS_REPLY_ARRAY || values->elements < MEMBERS_FIELD_COUNT ||
        values->element[MEMBERS_HOST]->type != REDIS_REPLY_STRING || ttl->type != REDIS_REPLY_INTEGER ||
        ttl->integer < 0)
        return false;
    entry->values = values;
    const char *said = members_value(entry, MEMBERS_KEEP);
    (void)number_u64(said, strlen(said), &keep);
    uint64_t left = (uint64_t)ttl->integer;
    entry->age_ms = left < keep ? keep - left : 0;
    entry->gone = entry->age_ms >= MEMBERS_GONE_MS;
    take_epoch(entry);
    return true;
}

static enum err read_one(struct sync_client *l, const char *prefix, const char *id, members_fn *fn, void *arg,
                         bool *there, struct error *e)
{
    unsigned where = members_home(l, prefix);
    SCOPED(scope_reply) redisReply *values = NULL, *ttl = NULL;
    struct members_entry entry = {.id = id};
    enum err code = sync_client_reply(l, where, &values, e);
    if (code == ERR_OK)
        code = sync_client_reply(l, where, &ttl, e);
    if (code == ERR_OK && values->type == REDIS_REPLY_ERROR)
        code = sync_client_refusal(l, where, values, e);
    *there = code == ERR_OK && take(&entry, values, ttl);
    if (*there)
        fn(arg, &entry);
    return code;
}

static enum err read_all(struct sync_client *l, const char *prefix, const char *filter,
                         const char *const *ids, size_t count, members_fn *fn, void *arg, struct error *e)
{
    enum { AT_ONCE = 64 };
    enum err code = ERR_OK;
    for (size_t first = 0; first < count && code == ERR_OK; first += AT_ONCE) {
        size_t end = count - first < AT_ONCE ? count : first + AT_ONCE;
        bool there[AT_ONCE] = {false};
        for (size_t i = first; i < end && code == ERR_OK; i++)
            code = ask(l, prefix, ids[i], filter, e);
        for (size_t i = first; i < end && code == ERR_OK; i++)
            code = read_one(l, prefix, ids[i], fn, arg, &there[i - first], e);
        for (size_t i = first; i < end && code == ERR_OK; i++)
            if (!there[i - first])
                code = forget(l, prefix, ids[i], e);
    }
    if (code != ERR_OK)
        sync_client_forget(l);
    return code;
}

enum err members_clock(struct sync_client *l, const char *prefix, uint64_t *ms, struct error *e)
{
    SCOPED(scope_reply) redisReply *r = NULL;
    uint64_t seconds = 0, us = 0;
    enum err code = sync_client_command(l, members_home(l, prefix), &r, e, "TIME");
    if (code != ERR_OK)
        return code;
    if (r->type == REDIS_REPLY_ARRAY && r->elements == 2) {
        (void)number_u64(r->element[0]->str, (size_t)r->element[0]->len, &seconds);
        (void)number_u64(r->element[1]->str, (size_t)r->element[1]->len, &us);
    }
    *ms = seconds * 1000 + us / 1000;
    return ERR_OK;
}

enum err members_read(struct sync_client *l, const char *prefix, const char *filter, members_fn *fn,
                      void *arg, struct error *e)
{
    struct key_name list;
    SCOPED(scope_reply) redisReply *members = NULL;
    list_key(prefix, &list);
    enum err code =
        sync_client_command(l, members_home(l, prefix), &members, e, "SMEMBERS %b", list.text, list.length);
    if (code != ERR_OK)
        return code;
    size_t count = members->type == REDIS_REPLY_ARRAY ? members->elements : 0;
    const char **ids = calloc(count + 1, sizeof(*ids));
    for (size_t i = 0; ids != NULL && i < count; i++)
        ids[i] = members->element[i]->str;
    if (ids == NULL) {
        code = error_set(e, ERR_NOMEM, "out of memory");
    } else {
        qsort(ids, count, sizeof(*ids), by_text);
        code = read_all(l, prefix, filter, ids, count, fn, arg, e);
    }
    free(ids);
    return code;
}

/* --- which nodes members know --- */

/* Compare host names without regard to case, and paths of sockets with it. */
static bool has_item(const char *list, const char *item)
{
    size_t length = strlen(item);
    for (const char *at = list; at != NULL; at = strchr(at, '\n')) {
        at += *at == '\n';
        size_t n = strcspn(at, "\n");
        if (n == length && (item[0] == '/' ? strncmp(at, item, n) : strncasecmp(at, item, n)) == 0)
            return true;
    }
    return false;
}

struct ignorance {
    const struct generation *g;
    char who[MEMBERS_ID_MAX];
    char node[NODE_NAME_MAX];
};

static void look_for_ignorance(void *arg, const struct members_entry *entry)
{
    struct ignorance *i = arg;
    const char *nodes = members_value(entry, MEMBERS_NODES);
    for (unsigned n = 0; n < i->g->node_count && !entry->gone && i->who[0] == '\0'; n++)
        if (!has_item(nodes, i->g->nodes[n])) {
            (void)snprintf(i->who, sizeof(i->who), "%s", entry->id);
            (void)snprintf(i->node, sizeof(i->node), "%s", i->g->nodes[n]);
        }
}

enum err members_knows(struct sync_client *l, const char *prefix, const struct generation *g, struct error *e)
{
    struct ignorance i = {.g = g};
    enum err code = members_read(l, prefix, NULL, look_for_ignorance, &i, e);
    if (code != ERR_OK || i.who[0] == '\0')
        return code;
    return error_set(
        e, ERR_REFUSED,
        "coordinator %s does not have node %s in its configuration: add it to [redis] nodes of all "
        "coordinators first",
        i.who, i.node);
}
