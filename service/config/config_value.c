/* SPDX-License-Identifier: MIT */
/* Values of keys: read, checked, compared, printed. */
#include "service/config/config_keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "service/config/config.h"
#include "service/config/users.h"

/* --- numbers, which most types are --- */

static void format_whole(uint64_t value, struct buffer *out)
{
    buffer_printf(out, "%" PRIu64, value);
}

struct unit {
    const char *name;
    uint64_t size;
};

/* In the largest unit that divides it; the last one has size 1. */
static void format_unit(uint64_t value, const struct unit *unit, struct buffer *out)
{
    while (unit->size > 1 && (value == 0 || value % unit->size != 0))
        unit++;
    buffer_printf(out, "%" PRIu64 "%s", value / unit->size, unit->name);
}

static void format_bytes(uint64_t value, struct buffer *out)
{
    static const struct unit units[] = {
        {"TiB", 1ull << 40}, {"GiB", 1u << 30}, {"MiB", 1u << 20}, {"KiB", 1u << 10}, {"", 1}};
    format_unit(value, units, out);
}

static bool parse_memory(const char *text, size_t length, uint64_t *out)
{
    *out = MEMORY_AUTO;
    return strcmp(text, "auto") == 0 || number_bytes(text, length, out);
}

static void format_memory(uint64_t value, struct buffer *out)
{
    if (value == MEMORY_AUTO)
        buffer_puts(out, "auto");
    else
        format_bytes(value, out);
}

static void format_duration(uint64_t value, struct buffer *out)
{
    static const struct unit units[] = {{"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
    format_unit(value, units, out);
}

static bool parse_mode(const char *text, size_t length, uint64_t *out)
{
    if (length == 0 || length > 4 || strspn(text, "01234567") != length)
        return false;
    *out = strtoul(text, NULL, 8);
    return true;
}

static void format_mode(uint64_t value, struct buffer *out)
{
    buffer_printf(out, "%o", (unsigned)value);
}

static bool parse_roles(const char *text, size_t length UNUSED, uint64_t *out)
{
    unsigned roles = 0;
    bool ok = roles_parse(text, &roles);
    *out = roles;
    return ok;
}

static void format_roles(uint64_t value, struct buffer *out)
{
    roles_format((unsigned)value, out);
}

/* --- the types --- */

/* An enumeration is copied as the unsigned that it is stored as. */
#define AS_UNSIGNED(type) _Static_assert(sizeof(type) == sizeof(unsigned), #type " is as large as unsigned")
AS_UNSIGNED(enum log_level);
AS_UNSIGNED(enum on_lost);
AS_UNSIGNED(enum scan_order);
AS_UNSIGNED(enum follow_by);
AS_UNSIGNED(enum client_auth);
AS_UNSIGNED(enum http_metrics);
AS_UNSIGNED(enum log_format);

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static const struct type {
    const char *expected;
    size_t size; /* of a number, as it is stored */
    bool (*parse)(const char *text, size_t length, uint64_t *out);
    void (*format)(uint64_t value, struct buffer *out);
    const char *const *words; /* in the order of their values, in place of the functions; NULL: none */
} types[] = {
    [CONFIG_STRING] = {.expected = "text"},
    [CONFIG_DOUBLE] = {.expected = "a number such as 0.001 or 1e-3"},
    [CONFIG_COUNT] = {"a whole number such as 1000", sizeof(uint64_t), number_u64, format_whole, NULL},
    [CONFIG_UNSIGNED] = {"a whole number such as 1000", sizeof(unsigned), number_u64, format_whole, NULL},
    [CONFIG_BYTES] = {"a size such as 512MiB", sizeof(uint64_t), number_bytes, format_bytes, NULL},
    [CONFIG_MEMORY] = {"a size such as 512MiB, or auto", sizeof(uint64_t), parse_memory, format_memory, NULL},
    [CONFIG_DURATION] = {"a time such as 250ms, 10s, 5m or 2h", sizeof(uint64_t), number_duration_ms,
                         format_duration, NULL},
    [CONFIG_MODE] = {"permission bits in octal, such as 770", sizeof(unsigned), parse_mode, format_mode,
                     NULL},
    [CONFIG_ROLES] = {"read, write or admin, several with commas", sizeof(unsigned), parse_roles,
                      format_roles, NULL},
    [CONFIG_BOOL] = {"yes or no", sizeof(bool), NULL, NULL, WORDS("no", "yes")},
    [CONFIG_LOG_LEVEL] = {"debug, info, warn or error", sizeof(unsigned), NULL, NULL,
                          WORDS("debug", "info", "warn", "error")},
    [CONFIG_ON_LOST] = {"maybe or error", sizeof(unsigned), NULL, NULL, WORDS("maybe", "error")},
    [CONFIG_SCAN] = {"keyset or ctid", sizeof(unsigned), NULL, NULL, WORDS("keyset", "ctid")},
    [CONFIG_FOLLOW_BY] = {"ids, outbox or logical", sizeof(unsigned), NULL, NULL,
                          WORDS("ids", "logical", "outbox")},
    [CONFIG_CLIENT_AUTH] = {"no, optional or required", sizeof(unsigned), NULL, NULL,
                            WORDS("no", "optional", "required")},
    [CONFIG_HTTP_METRICS] = {"login, loopback or open", sizeof(unsigned), NULL, NULL,
                             WORDS("login", "loopback", "open")},
    [CONFIG_LOG_FORMAT] = {"logfmt or json", sizeof(unsigned), NULL, NULL, WORDS("logfmt", "json")},
};

const char *config_type_expected(enum config_type type)
{
    return types[type].expected;
}

/* A parsed value before it is stored; `number` is for comparing with the bounds. */
struct value {
    uint64_t integer;
    double number;
};

static bool parse_value(enum config_type type, const char *text, struct value *v)
{
    const struct type *t = &types[type];
    if (type == CONFIG_DOUBLE)
        return number_double(text, strlen(text), &v->number);
    bool ok = false;
    if (t->words == NULL)
        ok = t->parse(text, strlen(text), &v->integer);
    for (uint64_t i = 0; t->words != NULL && t->words[i] != NULL && !ok; i++) {
        ok = strcmp(t->words[i], text) == 0;
        v->integer = i;
    }
    v->number = (double)v->integer;
    return ok;
}

static bool is_number(enum config_type type)
{
    return type != CONFIG_STRING && type != CONFIG_ROLES && types[type].words == NULL;
}

static bool in_bounds(const struct config_key *k, const struct value *v)
{
    double number = v->number;
    if (k->type == CONFIG_MEMORY && v->integer == MEMORY_AUTO)
        return true;
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
    uint32_t half = (uint32_t)v->integer;
    if (k->type == CONFIG_DOUBLE)
        memcpy(to, &v->number, sizeof(v->number));
    else if (k->type == CONFIG_BOOL)
        *(bool *)to = v->integer != 0;
    else if (types[k->type].size == sizeof(half))
        memcpy(to, &half, sizeof(half));
    else
        memcpy(to, &v->integer, sizeof(v->integer));
}

/* People write what the status shows: 80%. The share is put into `out`. */
static bool is_percent(const char *text, double *out)
{
    size_t length = strlen(text);
    if (length == 0 || text[length - 1] != '%' || !number_double(text, length - 1, out))
        return false;
    *out /= 100;
    return true;
}

enum err config_key_set(const struct config_key *k, void *base, const char *text, struct error *e)
{
    void *to = (char *)base + k->offset;
    if (k->type == CONFIG_STRING)
        return set_string(k, to, text, e);
    struct value v = {0};
    uint64_t bare;
    if (k->type == CONFIG_DURATION && number_u64(text, strlen(text), &bare) && bare > 0)
        return error_set(e, ERR_CONFIG, "'%s' is %.60s, without a unit; write %.60sms or %.60ss", k->name,
                         text, text, text);
    if (k->type == CONFIG_DOUBLE && is_percent(text, &v.number))
        return error_set(e, ERR_CONFIG, "'%s' is '%.60s', which is not valid; write %.6g for %.60s", k->name,
                         text, v.number, text);
    if (!parse_value(k->type, text, &v))
        return error_set(e, ERR_CONFIG, "'%s' is '%.60s', which is not valid; give %s", k->name, text,
                         types[k->type].expected);
    if (is_number(k->type) && !in_bounds(k, &v)) {
        SCOPED(buffer_fini) struct buffer bounds = {0};
        config_key_bounds(k, &bounds);
        return error_set(e, ERR_CONFIG, "'%s' is %.60s, out of bounds; allowed is %s", k->name, text,
                         buffer_text(&bounds));
    }
    store(k, to, &v);
    return ERR_OK;
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
    if (type == CONFIG_DOUBLE)
        format_double(v->number, out);
    else if (types[type].words != NULL)
        buffer_puts(out, types[type].words[v->integer]);
    else
        types[type].format(v->integer, out);
}

static const char *load_string(const struct config_key *k, const void *base)
{
    return *(char *const *)((const char *)base + k->offset);
}

static struct value load(const struct config_key *k, const void *base)
{
    const void *from = (const char *)base + k->offset;
    struct value v = {0};
    uint32_t half;
    if (k->type == CONFIG_DOUBLE) {
        memcpy(&v.number, from, sizeof(v.number));
    } else if (k->type == CONFIG_BOOL) {
        v.integer = *(const bool *)from;
    } else if (types[k->type].size == sizeof(half)) {
        memcpy(&half, from, sizeof(half));
        v.integer = half;
    } else {
        memcpy(&v.integer, from, sizeof(v.integer));
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
