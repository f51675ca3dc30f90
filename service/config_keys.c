/* SPDX-License-Identifier: MIT */
#include "service/config_keys.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "service/config.h"
#include "shard/geometry.h"

#define TEXT(literal) TEXT_OF(literal)
#define TEXT_OF(literal) #literal
#define HOURS(n) ((n)*3600.0 * 1000)
#define OF(member) offsetof(struct config, member)
#define OF_FILTER(member) offsetof(struct config_filter, member)

/* The number in the file's default is written out; this keeps it what shard/geometry.h says. */
#define SHARD_BYTES_TEXT 1048512
_Static_assert(SHARD_BYTES_TEXT == SHARD_BYTES_DEFAULT, "the default of shard_bytes");

/* clang-format off */
#define S(name, type, member, standard, min, max, flags, help) \
    {CONFIG_SERVICE, type, name, OF(member), standard, min, max, help, flags}
#define R(name, type, member, standard, min, max, flags, help) \
    {CONFIG_REDIS, type, name, OF(member), standard, min, max, help, flags}
#define P(name, type, member, standard, min, max, flags, help) \
    {CONFIG_POSTGRES, type, name, OF(member), standard, min, max, help, flags}
#define E(name, type, member, standard, min, max, flags, help) \
    {CONFIG_EXPANSION, type, name, OF(member), standard, min, max, help, flags}
#define F(name, type, member, standard, min, max, flags, help) \
    {CONFIG_FILTER, type, name, OF_FILTER(member), standard, min, max, help, flags}
#define RELOAD CONFIG_RELOADABLE

const struct config_key config_keys[] = {
    S("listen", CONFIG_STRING, listen, "127.0.0.1:6479", 0, 0, 0,
      "Where Redis clients connect: host:port, :port for all addresses, [v6]:port."),
    S("http", CONFIG_STRING, http, "127.0.0.1:9479", 0, 0, 0,
      "Where HTTP/JSON and probes are served, in the form of listen; empty: nowhere."),
    S("http_body_max", CONFIG_BYTES, http_body_max, "16MiB", 1024, 1024.0 * 1024 * 1024, 0,
      "Largest body of an HTTP request."),
    S("http_timeout", CONFIG_DURATION, http_timeout_ms, "30s", 100, HOURS(1), 0,
      "How long an HTTP connection may wait for a request, send it, wait for its answer, and read that."),
    S("http_max_clients", CONFIG_COUNT, http_max_clients, "1000", 1, 1e6, 0,
      "HTTP connections at one time; beyond, the one that has been idle longest is closed."),
    S("threads", CONFIG_UNSIGNED, threads, "2", 1, 256, 0,
      "Threads that serve clients."),
    S("password", CONFIG_STRING, password, "", 0, 0, CONFIG_SECRET | RELOAD,
      "What clients must give to AUTH; empty: no login."),
    S("timeout", CONFIG_DURATION, timeout_ms, "1s", 1, HOURS(1), RELOAD,
      "Deadline of a request: an error is answered when it passes."),
    S("check_interval", CONFIG_DURATION, check_interval_ms, "1s", 10, HOURS(1), RELOAD,
      "How often thresholds and schedules are looked at."),
    S("log_level", CONFIG_LOG_LEVEL, log_level, "info", 0, 0, RELOAD,
      "debug, info, warn or error."),
    S("max_clients", CONFIG_COUNT, max_clients, "10000", 1, 1e6, RELOAD,
      "Connections of clients at one time."),
    S("request_max", CONFIG_BYTES, request_max, "512MiB", 65536, 1ull << 40, RELOAD,
      "Longest request; a longer one ends the connection."),
    S("batch_max", CONFIG_COUNT, batch_max, "1048576", 1, 1048576, RELOAD,
      "Keys in one command."),
    S("in_flight_max", CONFIG_COUNT, in_flight_max, "65536", 1, 1e9, RELOAD,
      "Keys that one thread has under way; while there are as many no more requests are begun."),
    S("output_max", CONFIG_BYTES, output_max, "64MiB", 1 << 20, 1ull << 40, RELOAD,
      "Unread replies of one client, at which it is cut."),
    S("output_timeout", CONFIG_DURATION, output_timeout_ms, "60s", 1000, HOURS(24), RELOAD,
      "How long a client may leave more than 1 MiB of replies unread before it is cut."),
    S("idle_timeout", CONFIG_DURATION, idle_timeout_ms, "0s", 0, HOURS(24 * 365), RELOAD,
      "A client that has sent nothing for so long is closed; 0: never."),

    R("nodes", CONFIG_STRING, nodes, "redis://127.0.0.1:6379", 0, 0, CONFIG_SECRET_PART,
      "Redis servers, comma separated: redis://[user:password@]host:port[/db]. The first holds the views."),
    R("prefix", CONFIG_STRING, prefix, "twinbloom", 0, 0, 0,
      "What the name of every Redis key starts with."),
    R("timeout", CONFIG_DURATION, redis_timeout_ms, "1s", 1, HOURS(1), 0,
      "Deadline of a command sent to Redis."),
    R("shard_bytes", CONFIG_BYTES, shard_bytes, TEXT(SHARD_BYTES_TEXT), SHARD_BYTES_MIN, SHARD_BYTES_MAX, 0,
      "Longest shard: the size of one Redis string."),

    P("dsn", CONFIG_STRING, dsn, "", 0, 0, CONFIG_SECRET_PART,
      "Connection string of the database that holds the tables; ~/.pgpass and PGPASSFILE work. Empty: no source."),
    P("timeout", CONFIG_DURATION, postgres_timeout_ms, "10s", 1, HOURS(24), 0,
      "Deadline of connecting and of one statement."),

    E("build_memory", CONFIG_BYTES, build_memory, "512MiB", 1024.0 * 1024, 1024.0 * 1024 * 1024 * 1024, RELOAD,
      "Memory of the coordinator for the bitmaps of a build."),
    E("page_rows", CONFIG_COUNT, page_rows, "10000", 1, 1e6, RELOAD,
      "Rows read by one SELECT."),
    E("lease", CONFIG_DURATION, lease_ms, "10s", 100, HOURS(1), RELOAD,
      "Time to live of the mutex; another coordinator takes over when it is not renewed."),
    E("settle_timeout", CONFIG_DURATION, settle_timeout_ms, "10m", 1, HOURS(168), RELOAD,
      "How long a build waits for older transactions to end."),
    E("verify_sample", CONFIG_COUNT, verify_sample, "100000", 1, 1e12, RELOAD,
      "Keys of the source that are looked up in the new generation before the cutover."),
    E("verify_stale", CONFIG_DURATION, verify_stale_ms, "1h", 1000, HOURS(24 * 365), RELOAD,
      "How long status calls a generation verified; after that it says stale."),
    E("checkpoint", CONFIG_DURATION, checkpoint_ms, "30s", 10, HOURS(1), RELOAD,
      "How often a scan uploads what it has and notes where it is, for the driver that goes on if this one dies."),
    E("tombstone_ttl", CONFIG_DURATION, tombstone_ms, "1h", 1000, HOURS(720), RELOAD,
      "How long the old name of a shard stays taken, to stop coordinators that slept."),
    E("redis_p99_max", CONFIG_DURATION, redis_p99_max_ms, "20ms", 0, HOURS(1), RELOAD,
      "A build reads more slowly while more than 1 % of the requests wait longer than this for Redis; 0: never."),
    E("replication_lag_max", CONFIG_DURATION, replication_lag_max_ms, "10s", 0, HOURS(24), RELOAD,
      "A build reads more slowly while a standby of the database is further behind than this; 0: never."),
    E("rows_per_second", CONFIG_COUNT, rows_per_second, "0", 0, 1e12, RELOAD,
      "Rows that a build reads in a second at the most; 0: no limit."),

    F("capacity", CONFIG_COUNT, capacity, NULL, 1, 1e12, RELOAD,
      "Keys that the first generation is made for."),
    F("error_rate", CONFIG_DOUBLE, error_rate, "0.001", 0, 1, RELOAD | CONFIG_ABOVE_MIN | CONFIG_BELOW_MAX,
      "Highest share of absent keys that may be reported present."),
    F("table", CONFIG_STRING, table, "", 0, 0, RELOAD,
      "Table that holds the keys; empty: the filter has no source and grows by overflow layers alone."),
    F("id_column", CONFIG_STRING, id_column, "id", 0, 0, RELOAD,
      "Unique, indexed column by which the table is read page by page."),
    F("key", CONFIG_STRING, key, "", 0, 0, RELOAD,
      "Column that holds a row's key (text, bytea, uuid or integer); needed with a table."),
    F("where", CONFIG_STRING, where, "", 0, 0, RELOAD,
      "Condition in SQL that a row must meet; empty: every row. Long ones go on in lines that start with blanks."),
    F("expand_at", CONFIG_DOUBLE, expand_at, "0.8", 0, 1, RELOAD | CONFIG_ABOVE_MIN,
      "Share of the capacity in use that starts an expansion."),
    F("growth", CONFIG_DOUBLE, growth, "1.5", 1, 100, RELOAD,
      "Capacity of a new generation as a multiple of one that is full."),
    F("headroom", CONFIG_DOUBLE, headroom, "1.3", 1, 100, RELOAD,
      "Capacity planned for each row of the source."),
    F("expand_at_bytes", CONFIG_BYTES, expand_at_bytes, "0", 0, 1024.0 * 1024 * 1024 * 1024 * 1024, RELOAD,
      "Size in memory that starts an expansion; 0: never."),
    F("schedule", CONFIG_STRING, schedule, "", 0, 0, RELOAD,
      "When to rebuild in any case, in cron form, such as 30 3 * * *; empty: never."),
    F("window", CONFIG_STRING, window, "", 0, 0, RELOAD,
      "Local hours in which thresholds and the schedule may start a rebuild, such as 01:00-05:00, 22:00-02:00; empty: any. "
      "What is lost, or would outgrow its capacity before, does not wait."),
    F("expansion", CONFIG_UINT32, expansion, "2", 0, 32768, RELOAD,
      "Without a source: how many times larger each overflow layer is; 0: the filter does not grow."),
    F("grace", CONFIG_DURATION, grace_ms, "10s", 0, HOURS(168), RELOAD,
      "Between the cutover and the end of the old generation; adds go to both until then."),
    F("on_lost", CONFIG_ON_LOST, on_lost, "maybe", 0, 0, RELOAD,
      "The answer while data are lost and not yet rebuilt: maybe (1) or error. Never no."),
};
/* clang-format on */

const size_t config_key_count = sizeof(config_keys) / sizeof(config_keys[0]);

const char *config_section_name(enum config_section section)
{
    static const char *const names[CONFIG_SECTIONS] = {
        [CONFIG_SERVICE] = "service",     [CONFIG_REDIS] = "redis",   [CONFIG_POSTGRES] = "postgres",
        [CONFIG_EXPANSION] = "expansion", [CONFIG_FILTER] = "filter",
    };
    return names[section];
}

const struct config_key *config_key_find(enum config_section section, const char *name)
{
    for (size_t i = 0; i < config_key_count; i++)
        if (config_keys[i].section == section && strcmp(config_keys[i].name, name) == 0)
            return &config_keys[i];
    return NULL;
}

enum { NAME_LENGTH_MAX = 32 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Levenshtein's, with one row of the matrix. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t row[NAME_LENGTH_MAX + 1];
    size_t n = strlen(b);
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 0; a[i] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < n; j++) {
            size_t above = row[j + 1];
            row[j + 1] = least(diagonal + (a[i] != b[j]), least(above, row[j]) + 1);
            diagonal = above;
        }
    }
    return row[n];
}

const struct config_key *config_key_nearest(enum config_section section, const char *name)
{
    size_t length = strlen(name);
    if (length > NAME_LENGTH_MAX)
        return NULL;
    const struct config_key *nearest = NULL;
    size_t best = length / 3 + 2; /* a typo or two; more letters allow more of them */
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *k = &config_keys[i];
        size_t distance = edit_distance(name, k->name);
        if (k->section != section && distance > 0)
            continue;
        if (distance < best) {
            best = distance;
            nearest = k;
        }
    }
    return nearest;
}

static const char *expected(enum config_type type)
{
    switch (type) {
    case CONFIG_COUNT:
    case CONFIG_UINT32:
    case CONFIG_UNSIGNED:
        return "a whole number such as 1000";
    case CONFIG_DOUBLE:
        return "a number such as 0.001 or 1e-3";
    case CONFIG_BYTES:
        return "a size such as 512MiB";
    case CONFIG_DURATION:
        return "a time such as 250ms, 10s, 5m or 2h";
    case CONFIG_LOG_LEVEL:
        return "debug, info, warn or error";
    case CONFIG_ON_LOST:
        return "maybe or error";
    case CONFIG_STRING:
        break;
    }
    return "text";
}

/* A parsed value before it is stored; `number` is for comparing with the bounds. */
struct value {
    uint64_t integer;
    double number;
};

static bool parse_value(enum config_type type, const char *text, struct value *v)
{
    size_t n = strlen(text);
    bool ok = false;
    enum log_level level = LOG_LEVEL_INFO;
    switch (type) {
    case CONFIG_STRING:
        return true;
    case CONFIG_DOUBLE:
        return number_double(text, n, &v->number);
    case CONFIG_COUNT:
    case CONFIG_UINT32:
    case CONFIG_UNSIGNED:
        ok = number_u64(text, n, &v->integer);
        break;
    case CONFIG_BYTES:
        ok = number_bytes(text, n, &v->integer);
        break;
    case CONFIG_DURATION:
        ok = number_duration_ms(text, n, &v->integer);
        break;
    case CONFIG_LOG_LEVEL:
        ok = log_level_parse(text, &level);
        v->integer = (uint64_t)level;
        break;
    case CONFIG_ON_LOST:
        ok = strcmp(text, "maybe") == 0 || strcmp(text, "error") == 0;
        v->integer = strcmp(text, "error") == 0 ? ON_LOST_ERROR : ON_LOST_MAYBE;
        break;
    }
    v->number = (double)v->integer;
    return ok;
}

static bool is_number(enum config_type type)
{
    return type != CONFIG_STRING && type != CONFIG_LOG_LEVEL && type != CONFIG_ON_LOST;
}

static bool in_bounds(const struct config_key *k, double number)
{
    bool low = k->flags & CONFIG_ABOVE_MIN ? number > k->min : number >= k->min;
    bool high = k->flags & CONFIG_BELOW_MAX ? number < k->max : number <= k->max;
    return low && high;
}

static enum err set_string(const struct config_key *k, char **to, const char *text, struct error *e)
{
    if (k->flags & (CONFIG_SECRET | CONFIG_SECRET_PART) && strstr(text, CONFIG_MASK) != NULL)
        return error_set(e, ERR_CONFIG,
                         "'%s' holds " CONFIG_MASK ", the mask of a printed configuration; "
                         "put the secret in its place",
                         k->name);
    char *copy = strdup(text);
    if (copy == NULL)
        return error_set(e, ERR_NOMEM, "no memory for '%s'", k->name);
    free(*to);
    *to = copy;
    return ERR_OK;
}

static void store(const struct config_key *k, void *to, const struct value *v)
{
    switch (k->type) {
    case CONFIG_STRING:
        break;
    case CONFIG_COUNT:
    case CONFIG_BYTES:
    case CONFIG_DURATION:
        *(uint64_t *)to = v->integer;
        break;
    case CONFIG_UINT32:
        *(uint32_t *)to = (uint32_t)v->integer;
        break;
    case CONFIG_UNSIGNED:
        *(unsigned *)to = (unsigned)v->integer;
        break;
    case CONFIG_DOUBLE:
        *(double *)to = v->number;
        break;
    case CONFIG_LOG_LEVEL:
        *(enum log_level *)to = (enum log_level)v->integer;
        break;
    case CONFIG_ON_LOST:
        *(enum on_lost *)to = (enum on_lost)v->integer;
        break;
    }
}

enum err config_key_set(const struct config_key *k, void *base, const char *text, struct error *e)
{
    void *to = (char *)base + k->offset;
    if (k->type == CONFIG_STRING)
        return set_string(k, to, text, e);
    struct value v = {0};
    if (!parse_value(k->type, text, &v))
        return error_set(e, ERR_CONFIG, "'%s' is '%.60s', which cannot be read; give %s", k->name, text,
                         expected(k->type));
    if (is_number(k->type) && !in_bounds(k, v.number)) {
        struct buffer bounds = {0};
        config_key_bounds(k, &bounds);
        enum err err = error_set(e, ERR_CONFIG, "'%s' is %.60s, out of bounds; give a value in %s", k->name,
                                 text, buffer_text(&bounds));
        buffer_fini(&bounds);
        return err;
    }
    store(k, to, &v);
    return ERR_OK;
}

struct unit {
    const char *name;
    uint64_t size;
};

/* In the largest unit that divides it. */
static void format_unit(uint64_t value, const struct unit *units, size_t count, struct buffer *out)
{
    size_t i = 0;
    while (i + 1 < count && (value == 0 || value % units[i].size != 0))
        i++;
    buffer_printf(out, "%llu%s", (unsigned long long)(value / units[i].size), units[i].name);
}

static void format_double(double value, struct buffer *out)
{
    char text[40];
    (void)snprintf(text, sizeof(text), "%.15g", value);
    if (strtod(text, NULL) != value) /* the printed form must read back as the same number */
        (void)snprintf(text, sizeof(text), "%.17g", value);
    buffer_puts(out, text);
}

static void format_value(enum config_type type, const struct value *v, struct buffer *out)
{
    static const struct unit bytes[] = {{"GiB", 1u << 30}, {"MiB", 1u << 20}, {"KiB", 1u << 10}, {"", 1}};
    static const struct unit times[] = {{"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
    static const char *const levels[] = {"debug", "info", "warn", "error"};
    switch (type) {
    case CONFIG_STRING:
        break;
    case CONFIG_DOUBLE:
        format_double(v->number, out);
        break;
    case CONFIG_BYTES:
        format_unit(v->integer, bytes, sizeof(bytes) / sizeof(bytes[0]), out);
        break;
    case CONFIG_DURATION:
        format_unit(v->integer, times, sizeof(times) / sizeof(times[0]), out);
        break;
    case CONFIG_LOG_LEVEL:
        buffer_puts(out, levels[v->integer]);
        break;
    case CONFIG_ON_LOST:
        buffer_puts(out, v->integer == ON_LOST_ERROR ? "error" : "maybe");
        break;
    case CONFIG_COUNT:
    case CONFIG_UINT32:
    case CONFIG_UNSIGNED:
        buffer_printf(out, "%llu", (unsigned long long)v->integer);
        break;
    }
}

static const char *load_string(const struct config_key *k, const void *base)
{
    return *(char *const *)((const char *)base + k->offset);
}

static struct value load(const struct config_key *k, const void *base)
{
    const void *from = (const char *)base + k->offset;
    struct value v = {0};
    switch (k->type) {
    case CONFIG_STRING:
        break;
    case CONFIG_COUNT:
    case CONFIG_BYTES:
    case CONFIG_DURATION:
        v.integer = *(const uint64_t *)from;
        break;
    case CONFIG_UINT32:
        v.integer = *(const uint32_t *)from;
        break;
    case CONFIG_UNSIGNED:
        v.integer = *(const unsigned *)from;
        break;
    case CONFIG_DOUBLE:
        v.number = *(const double *)from;
        break;
    case CONFIG_LOG_LEVEL:
        v.integer = (uint64_t) * (const enum log_level *)from;
        break;
    case CONFIG_ON_LOST:
        v.integer = (uint64_t) * (const enum on_lost *)from;
        break;
    }
    return v;
}

void config_key_format(const struct config_key *k, const void *base, struct buffer *out)
{
    if (k->type != CONFIG_STRING) {
        struct value v = load(k, base);
        format_value(k->type, &v, out);
        return;
    }
    const char *text = load_string(k, base);
    if (k->flags & CONFIG_SECRET)
        buffer_puts(out, *text != '\0' ? CONFIG_MASK : "");
    else if (k->flags & CONFIG_SECRET_PART)
        config_mask(out, text);
    else
        buffer_puts(out, text);
}

bool config_key_equal(const struct config_key *k, const void *a, const void *b)
{
    if (k->type == CONFIG_STRING)
        return strcmp(load_string(k, a), load_string(k, b)) == 0;
    struct value x = load(k, a), y = load(k, b);
    return x.integer == y.integer && x.number == y.number;
}

void config_key_bounds(const struct config_key *k, struct buffer *out)
{
    if (!is_number(k->type))
        return;
    struct value min = {.integer = (uint64_t)k->min, .number = k->min};
    struct value max = {.integer = (uint64_t)k->max, .number = k->max};
    buffer_puts(out, k->flags & CONFIG_ABOVE_MIN ? "above " : "");
    format_value(k->type, &min, out);
    buffer_puts(out, k->flags & CONFIG_BELOW_MAX ? " .. below " : " .. ");
    format_value(k->type, &max, out);
}
