/* SPDX-License-Identifier: MIT */
/* Values of keys: read, checked, compared, printed. */
#include "service/config/config_keys.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "service/config/config.h"
#include "service/users.h"

const char *config_type_expected(enum config_type type)
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
    case CONFIG_SCAN:
        return "keyset or ctid";
    case CONFIG_FOLLOW_BY:
        return "ids, outbox or logical";
    case CONFIG_BOOL:
        return "yes or no";
    case CONFIG_MODE:
        return "permission bits in octal, such as 770";
    case CONFIG_ROLES:
        return "read, write or admin, several with commas";
    case CONFIG_CLIENT_AUTH:
        return "no, optional or required";
    case CONFIG_HTTP_METRICS:
        return "login, loopback or open";
    case CONFIG_LOG_FORMAT:
        return "logfmt or json";
    case CONFIG_STRING:
        break;
    }
    return "text";
}

/* The words of a type, in the order of their values; NULL: it has none. */
static const char *const *words_of(enum config_type type)
{
    static const char *const levels[] = {"debug", "info", "warn", "error", NULL};
    static const char *const on_lost[] = {"maybe", "error", NULL};
    static const char *const scan[] = {"keyset", "ctid", NULL};
    static const char *const follow_by[] = {"ids", "logical", "outbox", NULL};
    static const char *const yes_no[] = {"no", "yes", NULL};
    static const char *const client_auth[] = {"no", "optional", "required", NULL};
    static const char *const http_metrics[] = {"login", "loopback", "open", NULL};
    static const char *const log_format[] = {"logfmt", "json", NULL};
    switch (type) {
    case CONFIG_LOG_LEVEL:
        return levels;
    case CONFIG_ON_LOST:
        return on_lost;
    case CONFIG_SCAN:
        return scan;
    case CONFIG_FOLLOW_BY:
        return follow_by;
    case CONFIG_BOOL:
        return yes_no;
    case CONFIG_CLIENT_AUTH:
        return client_auth;
    case CONFIG_HTTP_METRICS:
        return http_metrics;
    case CONFIG_LOG_FORMAT:
        return log_format;
    case CONFIG_STRING:
    case CONFIG_COUNT:
    case CONFIG_UINT32:
    case CONFIG_UNSIGNED:
    case CONFIG_DOUBLE:
    case CONFIG_BYTES:
    case CONFIG_DURATION:
    case CONFIG_MODE:
    case CONFIG_ROLES:
        break;
    }
    return NULL;
}

static bool parse_word(const char *const *words, const char *text, uint64_t *out)
{
    for (uint64_t i = 0; words[i] != NULL; i++)
        if (strcmp(words[i], text) == 0) {
            *out = i;
            return true;
        }
    return false;
}

static bool parse_mode(const char *text, uint64_t *out)
{
    size_t n = strspn(text, "01234567");
    if (n == 0 || n > 4 || text[n] != '\0')
        return false;
    *out = strtoul(text, NULL, 8);
    return true;
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
    unsigned roles = 0;
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
    case CONFIG_MODE:
        ok = parse_mode(text, &v->integer);
        break;
    case CONFIG_ROLES:
        ok = roles_parse(text, &roles);
        v->integer = roles;
        break;
    case CONFIG_LOG_LEVEL:
    case CONFIG_ON_LOST:
    case CONFIG_SCAN:
    case CONFIG_FOLLOW_BY:
    case CONFIG_BOOL:
    case CONFIG_CLIENT_AUTH:
    case CONFIG_HTTP_METRICS:
    case CONFIG_LOG_FORMAT:
        ok = parse_word(words_of(type), text, &v->integer);
        break;
    }
    v->number = (double)v->integer;
    return ok;
}

static bool is_number(enum config_type type)
{
    return type != CONFIG_STRING && type != CONFIG_ROLES && words_of(type) == NULL;
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

/* An enumeration is copied as the unsigned that it is stored as. */
#define AS_UNSIGNED(type) _Static_assert(sizeof(type) == sizeof(unsigned), #type " is as large as unsigned")
AS_UNSIGNED(enum log_level);
AS_UNSIGNED(enum on_lost);
AS_UNSIGNED(enum scan_order);
AS_UNSIGNED(enum follow_by);
AS_UNSIGNED(enum client_auth);
AS_UNSIGNED(enum http_metrics);
AS_UNSIGNED(enum log_format);

static void store(const struct config_key *k, void *to, const struct value *v)
{
    unsigned whole;
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
    case CONFIG_MODE:
    case CONFIG_ROLES:
    case CONFIG_LOG_LEVEL:
    case CONFIG_ON_LOST:
    case CONFIG_SCAN:
    case CONFIG_FOLLOW_BY:
    case CONFIG_CLIENT_AUTH:
    case CONFIG_HTTP_METRICS:
    case CONFIG_LOG_FORMAT:
        whole = (unsigned)v->integer;
        memcpy(to, &whole, sizeof(whole));
        break;
    case CONFIG_DOUBLE:
        *(double *)to = v->number;
        break;
    case CONFIG_BOOL:
        *(bool *)to = v->integer != 0;
        break;
    }
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
                         config_type_expected(k->type));
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
    case CONFIG_ON_LOST:
    case CONFIG_SCAN:
    case CONFIG_FOLLOW_BY:
    case CONFIG_BOOL:
    case CONFIG_CLIENT_AUTH:
    case CONFIG_HTTP_METRICS:
    case CONFIG_LOG_FORMAT:
        buffer_puts(out, words_of(type)[v->integer]);
        break;
    case CONFIG_MODE:
        buffer_printf(out, "%o", (unsigned)v->integer);
        break;
    case CONFIG_ROLES:
        roles_format((unsigned)v->integer, out);
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
    unsigned whole;
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
    case CONFIG_MODE:
    case CONFIG_ROLES:
    case CONFIG_LOG_LEVEL:
    case CONFIG_ON_LOST:
    case CONFIG_SCAN:
    case CONFIG_FOLLOW_BY:
    case CONFIG_CLIENT_AUTH:
    case CONFIG_HTTP_METRICS:
    case CONFIG_LOG_FORMAT:
        memcpy(&whole, from, sizeof(whole));
        v.integer = whole;
        break;
    case CONFIG_DOUBLE:
        v.number = *(const double *)from;
        break;
    case CONFIG_BOOL:
        v.integer = *(const bool *)from;
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
