/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "service/config/config_change.h"
#include "service/config/config_keys.h"
#include "service/config/live_config.h"

#define HASH "$y$j75$wxZuc9zvOwHhA1nQX8/PP0$d4Gp/uaOMD/tjgUyHthHB1RcgHeLw8WAR4BqJ.u7e57"
#define HEX "0123456789abcdef0123456789abcdef"

static const char base[] =
    "[service]\npassword = hush\ntls_ca = /ca.pem\n[redis]\nnodes = redis://u:hidden@127.0.0.1:1\n"
    "[postgres]\ndsn = postgresql://u:hidden@/db\n"
    "[filter a.b]\ncapacity = 10\n[filter links]\ncapacity = 10\ntable = t\nkey = k\n"
    "[user app]\npassword = " HASH "\ntoken = sha256:" HEX HEX "\n";

static struct config *accept(const char *text)
{
    struct config *c = NULL;
    struct error e = {{0}};
    FILE *f = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    assert_non_null(f);
    if (config_read_stream(&c, f, "t.ini", &e) != ERR_OK)
        fail_msg("refused: %s", e.text);
    (void)fclose(f);
    return c;
}

static void differ(const char *old, const char *new, const char *reloadable, const char *fixed)
{
    struct config *a = accept(old), *b = accept(new);
    struct buffer may = {0}, may_not = {0};
    config_differences(a, b, true, &may);
    config_differences(a, b, false, &may_not);
    assert_string_equal(buffer_text(&may), reloadable);
    assert_string_equal(buffer_text(&may_not), fixed);
    buffer_fini(&may);
    buffer_fini(&may_not);
    config_free(a);
    config_free(b);
}

static void test_config_differences__are_named_and_told_apart(void **state)
{
    (void)state;
    differ(base, base, "", "");
    differ("", "[service]\nthreads = 0\nlog_level = info\n", "", "");
    differ("", "[service]\nthreads = 3\nlog_level = warn\ntimeout = 2s\n[redis]\ntimeout = 3s\n",
           "'service.timeout', 'log_level'", "'threads', 'redis.timeout'");
    differ(
        "",
        "[service]\nlisten = 127.0.0.1:1\nhttp = [::1]:2\n[redis]\nnodes = redis://127.0.0.1:9\nprefix = p\n"
        "shard_bytes = 64KiB\n[postgres]\ndsn = host=/x\ntimeout = 1s\n",
        "", "'listen', 'http', 'nodes', 'prefix', 'shard_bytes', 'dsn', 'postgres.timeout'");
    differ("[filter a]\ncapacity = 1\n[filter b.c]\ncapacity = 1\n",
           "[filter b.c]\ncapacity = 1\ngrace = 1s\nexpand_at = 0.7\n[filter d]\ncapacity = 1\n",
           "[filter a] removed, 'filter.b.c.expand_at', 'filter.b.c.grace', [filter d] added", "");
    differ("[user a]\npassword = " HASH "\n[user b]\npassword = " HASH "\n",
           "[user b]\npassword = " HASH "\nroles = write\n[user c]\ntoken = sha256:" HEX HEX "\n",
           "[user a] removed, 'user.b.roles', [user c] added", "");
}

static bool same(const struct config_key *k, const struct config *a, const struct config *b)
{
    if (k->section == CONFIG_FILTER)
        return config_key_equal(k, &a->filter[1], &b->filter[1]);
    return k->section == CONFIG_USER ? config_key_equal(k, &a->user[0], &b->user[0])
                                     : config_key_equal(k, a, b);
}

/* For every key: a change of only that key is reported. */
static void test_config_differences__misses_no_key(void **state)
{
    (void)state;
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *k = &config_keys[i];
        static const char *const others[] = {"text",  "77",      "0.25",     "100KiB",  "3MiB",  "5MiB", "7s",
                                             "error", "yes",     "required", "600",     "admin", "no",   "31",
                                             "ctid",  "logical", "3",        "replica", "json",  "open"};
        struct config *a = accept(base), *b = config_copy(a);
        assert_non_null(b);
        struct error e;
        void *member = k->section == CONFIG_FILTER ? (void *)&b->filter[1]
                       : k->section == CONFIG_USER ? (void *)&b->user[0]
                                                   : (void *)b;
        struct buffer out = {0};
        bool set = false;
        for (size_t t = 0; t < sizeof(others) / sizeof(others[0]) && !set; t++)
            set = config_key_set(k, member, others[t], &e) == ERR_OK && !same(k, a, b);
        config_differences(a, b, (k->flags & CONFIG_RELOADABLE) != 0, &out);
        if (!set || strstr(buffer_text(&out), k->name) == NULL)
            fail_msg("%s: set=%d, differences: %s", k->name, set, buffer_text(&out));
        buffer_clear(&out);
        config_differences(a, b, (k->flags & CONFIG_RELOADABLE) == 0, &out);
        assert_string_equal(buffer_text(&out), "");
        buffer_fini(&out);
        config_free(a);
        config_free(b);
    }
}

/* Assign @count pairs of @texts to a copy of base. Returns the copy; NULL: the assignment failed, see @code,
 * @blamed and @e. */
static struct config *assign(const char *const texts[], size_t count, enum err *code, size_t *blamed,
                             struct error *e)
{
    struct config_assignment list[4];
    struct config *from = accept(base), *to = NULL;
    for (size_t i = 0; i < count; i++)
        list[i] = (struct config_assignment){texts[2 * i], texts[2 * i + 1], strlen(texts[2 * i]),
                                             strlen(texts[2 * i + 1])};
    *e = (struct error){{0}};
    *code = config_assign(&to, from, list, count, blamed, e);
    config_free(from); /* the copy shares no memory with it */
    return to;
}

static void test_config_assign__sets_all_that_are_named(void **state)
{
    (void)state;
    enum err code;
    size_t blamed;
    struct error e;
    static const char *const texts[] = {"log_level",
                                        "error",
                                        "Rebuild.Build_Memory",
                                        "1GiB",
                                        "filter.a.b.expand_at",
                                        "0.5",
                                        "filter.links.schedule",
                                        "0 3 * * 1"};
    struct config *c = assign(texts, 4, &code, &blamed, &e);
    if (c == NULL) {
        fail_msg("%s", e.text);
        return;
    }
    assert_int_equal(c->log_level, LOG_LEVEL_ERROR);
    assert_true(c->build_memory == 1u << 30);
    assert_true(c->filter[0].expand_at == 0.5);
    assert_true(c->filter[1].expand_at == 0.8);
    assert_string_equal(c->filter[1].schedule, "0 3 * * 1");
    assert_string_equal(c->filter[0].name, "a.b");
    assert_string_equal(c->password, "hush");
    config_free(c);
}

static void test_config_assign__refuses_all_where_one_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *texts[8];
        size_t count, blamed;
        enum err code;
        const char *why;
    } rows[] = {
        {{"log_level", "warn", "threads", "3"}, 2, 1, ERR_CONFLICT, "can't set immutable config"},
        {{"log_level", "warn", "nonsense", "3"}, 2, 1, ERR_NOT_FOUND, "no such key"},
        {{"timeout", "1s"},
         1,
         0,
         ERR_CONFIG,
         "several sections have this key; for that of [service] write service."},
        {{"service.nodes", "x"}, 1, 0, ERR_NOT_FOUND, ""},
        {{"capacity", "5"}, 1, 0, ERR_NOT_FOUND, ""},
        {{"filter.none.capacity", "5"}, 1, 0, ERR_NOT_FOUND, ""},
        {{"filter.A.B.capacity", "5"}, 1, 0, ERR_NOT_FOUND, ""}, /* names of filters are case-sensitive */
        {{"filter.links.nonsense", "5"}, 1, 0, ERR_NOT_FOUND, ""},
        {{"filter.capacity", "5"}, 1, 0, ERR_NOT_FOUND, ""},
        {{"", ""}, 1, 0, ERR_NOT_FOUND, ""},
        {{".", "1"}, 1, 0, ERR_NOT_FOUND, ""},
        {{"max_clients", "9", "log_level", "loud"}, 2, 1, ERR_CONFIG, "debug, info, warn or error"},
        {{"max_clients", "0"}, 1, 0, ERR_CONFIG, "out of bounds"},
        {{"max_clients", "9", "service.max_clients", "8"}, 2, 1, ERR_CONFIG, "duplicate parameter"},
        {{"password", "***"}, 1, 0, ERR_CONFIG, "put the secret in its place"},
        {{"password", "a\nb"}, 1, 0, ERR_CONFIG, "control character"},
        {{"filter.links.schedule", "never"}, 1, 0, ERR_CONFIG, "five fields"},
        {{"tls_client_user", "yes"}, 1, 0, ERR_CONFIG, "needs certificates"}, /* other keys are missing */
        {{"filter.a.b.schedule", "0 3 * * *"}, 1, 0, ERR_CONFIG, "no effect without a table"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        enum err code;
        size_t blamed;
        struct error e;
        struct config *c = assign(rows[i].texts, rows[i].count, &code, &blamed, &e);
        if (c != NULL || code != rows[i].code || blamed != rows[i].blamed ||
            strstr(e.text, rows[i].why) == NULL)
            fail_msg("row %zu (%s): %s, blamed %zu: %s", i, rows[i].texts[0], error_name(code), blamed,
                     e.text);
    }
    /* Keys that are valid only together are accepted together. */
    static const char *const together[] = {"tls_client_user", "yes", "tls_client_auth", "optional"};
    enum err code;
    size_t blamed;
    struct error e;
    struct config *c = assign(together, 2, &code, &blamed, &e);
    assert_non_null(c);
    assert_true(c->tls_client_user);
    config_free(c);
}

/* Keys that become part of SQL, paths that the daemon opens, and keys that decide what the daemon trusts.
 * They are refused even with their current value. */
static void test_config_assign__leaves_to_the_file_what_is_its_alone(void **state)
{
    (void)state;
    static const char *const names[] = {
        "redis.tls_verify",  "redis.tls_server_name", "redis.tls_ca_file",
        "redis.tls_ca_dir",  "redis.tls_cert_file",   "redis.tls_key_file",
        "service.tls_cert",  "service.tls_key",       "service.tls_ca",
        "rebuild.spill_dir", "filter.links.table",    "filter.links.id_column",
        "filter.links.key",  "filter.links.where",    "filter.links.publication",
        "filter.links.slot", "filter.links.outbox",   "tls_verify",
        "spill_dir",         "filter.links.WHERE"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        enum err code;
        size_t blamed;
        struct error e;
        const char *const texts[] = {"log_level", "warn", names[i], "yes"};
        struct config *c = assign(texts, 2, &code, &blamed, &e);
        if (c != NULL || code != ERR_REFUSED || blamed != 1 ||
            strcmp(e.text,
                   "it can be changed in the configuration file only; change it there and send SIGHUP") != 0)
            fail_msg("%s: %s, blamed %zu: %s", names[i], error_name(code), blamed, e.text);
    }
    /* Count the other reloadable texts. A new key for a path, SQL or trust must be file-only. */
    size_t paths = 0;
    for (size_t i = 0; i < config_key_count; i++)
        if (config_keys[i].type == CONFIG_STRING && (config_keys[i].flags & CONFIG_RELOADABLE) != 0)
            paths += (config_keys[i].flags & CONFIG_FILE_ONLY) == 0;
    /* http_hosts, password, schedule, window, nodes of a filter; password, token, filters of a user. */
    assert_int_equal(paths, 8);
}

struct seen {
    size_t count, bare;
    bool masked;
};

static void see(void *arg, const char *name, const char *bare, const char *value)
{
    struct seen *s = arg;
    s->count++;
    s->bare += *bare != '\0';
    if (strstr(value, "hush") != NULL || strstr(value, "hidden") != NULL || strstr(value, HASH) != NULL ||
        strstr(value, HEX) != NULL)
        fail_msg("%s shows a secret: %s", name, value);
    if (strcmp(name, "service.password") == 0) {
        s->masked = strcmp(value, CONFIG_MASK) == 0;
        assert_string_equal(bare, "password");
    }
    if (strstr(name, ".timeout") != NULL)
        assert_string_equal(bare, "");
    if (strcmp(name, "user.app.password") == 0 || strcmp(name, "user.app.token") == 0)
        assert_string_equal(value, CONFIG_MASK);
    if (strcmp(name, "filter.links.table") == 0)
        assert_string_equal(value, "t");
}

static void test_config_each__tells_every_key_and_no_secret(void **state)
{
    (void)state;
    struct config *c = accept(base);
    struct seen s = {0};
    size_t wanted = 0;
    for (size_t i = 0; i < config_key_count; i++)
        wanted += config_keys[i].section == CONFIG_FILTER ? 2 : 1;
    config_each(c, see, &s);
    assert_int_equal(s.count, wanted);
    assert_true(s.masked);
    assert_true(s.bare > 10);
    config_free(c);
}

/* A snapshot that is held outlives its replacement. Only the current snapshot can be replaced. */
static void test_live_config_replace__needs_the_one_in_force(void **state)
{
    (void)state;
    struct config *first = accept(base), *second = accept("[service]\nmax_clients = 7\n"),
                  *third = accept("");
    struct live_config *l = live_config_new(first);
    assert_non_null(l);
    config_release(first);
    const struct config *held = live_config_acquire(l);
    assert_ptr_equal(held, first);
    assert_true(live_config_replace(l, held, second));
    config_release(second);
    assert_false(live_config_replace(l, held, third));
    config_release(third);
    const struct config *now = live_config_acquire(l);
    assert_int_equal(now->max_clients, 7);
    assert_string_equal(held->password, "hush");
    config_release(now);
    config_release(held);
    live_config_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config_differences__are_named_and_told_apart),
        cmocka_unit_test(test_config_differences__misses_no_key),
        cmocka_unit_test(test_config_assign__sets_all_that_are_named),
        cmocka_unit_test(test_config_assign__refuses_all_where_one_is_wrong),
        cmocka_unit_test(test_config_assign__leaves_to_the_file_what_is_its_alone),
        cmocka_unit_test(test_config_each__tells_every_key_and_no_secret),
        cmocka_unit_test(test_live_config_replace__needs_the_one_in_force),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
