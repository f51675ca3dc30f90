/* SPDX-License-Identifier: MIT */
/* Valid configurations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/buffer.h"
#include "service/config/users.h"
#include "shard/filter/geometry.h"
#include "tests/unit/service/ini.h"

static void test_config_read__has_defaults_for_everything_but_filters(void **state)
{
    (void)state;
    struct config *c = ini_accept("");
    assert_string_equal(c->listen, "127.0.0.1:6479");
    assert_int_equal(c->add_acks, 0);
    assert_false(c->add_fsync);
    assert_string_equal(c->sentinel, "");
    assert_string_equal(c->http, "127.0.0.1:9479");
    assert_int_equal(c->threads, 0);
    assert_string_equal(c->password, "");
    assert_int_equal(c->timeout_ms, 1000);
    assert_int_equal(c->check_interval_ms, 1000);
    assert_int_equal(c->log_level, LOG_LEVEL_INFO);
    assert_int_equal(c->max_clients, 10000);
    assert_string_equal(c->nodes, "redis://127.0.0.1:6379");
    assert_string_equal(c->prefix, "twinbloom");
    assert_int_equal(c->redis_timeout_ms, 1000);
    assert_int_equal(c->shard_bytes, SHARD_BYTES_DEFAULT);
    assert_string_equal(c->dsn, "");
    assert_int_equal(c->postgres_timeout_ms, 10000);
    assert_string_equal(c->spill_dir, "/var/tmp");
    assert_int_equal(c->spill_bytes, 64ull << 30);
    assert_int_equal(c->readers, 0);
    assert_int_equal(c->page_ms, 250);
    assert_int_equal(c->page_rows, 1000000);
    assert_int_equal(c->lease_ms, 10000);
    assert_int_equal(c->settle_timeout_ms, 600000);
    assert_int_equal(c->verify_sample, 100000);
    assert_int_equal(c->redis_p99_max_ms, 20);
    assert_int_equal(c->replication_lag_max_ms, 10000);
    assert_true(c->yield_at == 0.8);
    assert_int_equal(c->rows_per_second, 0);
    assert_int_equal(c->filter_count, 0);
    config_free(c);
}

/* In a control group of 1 GiB the parts must leave room for all else. */
static void test_config_read__bounds_memory_by_the_machine(void **state)
{
    (void)state;
    const uint64_t mib = 1 << 20, gib = 1 << 30;
    struct config *c = ini_accept("");
    assert_int_equal(config_resident_memory(c, gib), 512 * mib);
    assert_int_equal(config_build_memory(c, gib), 256 * mib);
    assert_int_equal(config_client_memory_max(c, gib), 128 * mib);
    assert_int_equal(config_resident_memory(c, 64 * gib), 32 * gib);
    assert_int_equal(config_build_memory(c, 64 * gib), 512 * mib);
    assert_int_equal(config_client_memory_max(c, 64 * gib), gib);
    config_free(c);
    c = ini_accept("[service]\nclient_memory_max = 4MiB\n[redis]\nresident_memory = 0\n[rebuild]\n"
                   "build_memory = 1TiB\n");
    assert_int_equal(config_resident_memory(c, gib), 0);
    assert_int_equal(config_build_memory(c, gib), 1024 * gib);
    assert_int_equal(config_client_memory_max(c, gib), 4 * mib);
    config_free(c);
}

static void test_config_read__reads_every_key(void **state)
{
    (void)state;
    struct config *c = ini_accept(ini_full);
    assert_string_equal(c->listen, "[::1]:7000");
    assert_string_equal(c->http, "");
    assert_int_equal(c->threads, 4);
    assert_int_equal(c->timeout_ms, 250);
    assert_int_equal(c->check_interval_ms, 5000);
    assert_int_equal(c->log_level, LOG_LEVEL_DEBUG);
    assert_int_equal(c->max_clients, 5);
    assert_int_equal(c->batch_max, 9);
    assert_string_equal(c->nodes, "redis://127.0.0.1:1, redis://127.0.0.1:2/3");
    assert_string_equal(c->prefix, "p");
    assert_int_equal(c->redis_timeout_ms, 2000);
    assert_int_equal(c->shard_bytes, 65536);
    assert_string_equal(c->dsn, "host=/tmp user=app");
    assert_int_equal(c->postgres_timeout_ms, 60000);
    assert_int_equal(c->build_memory, 2ull << 30);
    assert_int_equal(c->page_rows, 7);
    assert_int_equal(c->lease_ms, 3000);
    assert_int_equal(c->settle_timeout_ms, 7200000);
    assert_int_equal(c->verify_sample, 9);
    assert_int_equal(c->redis_p99_max_ms, 0);
    assert_int_equal(c->replication_lag_max_ms, 60000);
    assert_true(c->yield_at == 0.7);
    assert_int_equal(c->rows_per_second, 5000);
    assert_int_equal(c->filter_count, 2);
    const struct config_filter *f = config_find(c, "short-link", 10);
    assert_non_null(f);
    assert_int_equal(f->capacity, 1000000);
    assert_true(f->error_rate == 1e-4);
    assert_string_equal(f->table, "public.short_link");
    assert_string_equal(f->id_column, "nr");
    assert_string_equal(f->key, "code");
    assert_string_equal(f->where, "deleted_at IS NULL AND kind = 'a;b' AND x#>3 = 1");
    assert_true(f->expand_at == 1 && f->growth == 2.25 && f->headroom == 1);
    assert_int_equal(f->expand_at_bytes, 3u << 20);
    assert_true(f->expand_at_dead == 0.25);
    assert_string_equal(f->schedule, "30 3 * * *");
    assert_string_equal(f->window, "01:00-05:00, 22:00-02:00");
    assert_int_equal(f->expansion, 0);
    assert_int_equal(f->grace_ms, 0);
    assert_int_equal(f->on_lost, ON_LOST_ERROR);
    f = config_find(c, "empty one", 9);
    assert_non_null(f);
    assert_true(f->expand_at_dead == 0);
    assert_true(f->error_rate == 0.001 && f->expand_at == 0.8 && f->growth == 1.5 && f->headroom == 1.3);
    assert_string_equal(f->id_column, "");
    assert_int_equal(f->expansion, 2);
    assert_int_equal(f->grace_ms, 600000);
    assert_int_equal(f->on_lost, ON_LOST_MAYBE);
    assert_null(config_find(c, "empty", 5));
    config_free(c);
}

static void test_config_read__takes_windows_line_ends_and_a_byte_order_mark(void **state)
{
    (void)state;
    struct config *c = ini_accept("\xEF\xBB\xBF[service]\r\nthreads = 3\r\n");
    assert_int_equal(c->threads, 3);
    config_free(c);
}

static void test_config_read__takes_acknowledgements_of_adds(void **state)
{
    (void)state;
    struct config *c =
        ini_accept("[redis]\nadd_acks = 1\n[filter a]\ncapacity = 5\nadd_acks = 5\nadd_fsync = yes\n");
    assert_int_equal(c->add_acks, 1);
    assert_false(c->add_fsync);
    assert_int_equal(c->filter[0].add_acks, 5);
    assert_true(c->filter[0].add_fsync);
    config_free(c);
    ini_refuse("[redis]\nadd_acks = 6\n", "2: 'add_acks' is 6, out of bounds; allowed is 0 .. 5");
}

static void test_config_read__takes_sentinels(void **state)
{
    (void)state;
    static const char both[] = "2: 'sentinel' and 'master' belong together; give both or none";
    struct config *c = ini_accept("[redis]\nsentinel = redis://a:26379, redis://b:26379\n"
                                  "master = one, redis://u:p@two/3\n[filter a]\ncapacity = 5\n"
                                  "nodes = sentinel:two\n");
    config_free(c);
    ini_refuse("[redis]\nsentinel = redis://a\n", both);
    ini_refuse("[redis]\nmaster = one\n", both);
    ini_refuse("[redis]\nsentinel = redis://a\nmaster = one\nnodes = redis://b\n",
               "2: 'nodes' and 'sentinel' exclude each other; remove one of them");
    ini_refuse("[redis]\nsentinel = redis://a\nmaster = one\ncluster = redis://b\n",
               "2: 'cluster' and 'sentinel' exclude each other; remove one of them");
    ini_refuse("[redis]\nsentinel = redis://a\nmaster = one, one\n",
               "2: 'sentinel': master: node 2: one:6379 is listed twice; write redis://host:port, "
               "rediss://host:port, comma separated");
    ini_refuse("[redis]\nsentinel = redis://a\nmaster = one\n[filter a]\ncapacity = 5\nnodes = one\n",
               "6: 'nodes': node 'one' is not configured: name some of [redis] nodes as host:port");
}

static void test_config_read__bounds_the_number_of_filters(void **state)
{
    (void)state;
    struct buffer text = {0};
    for (int i = 0; i < CONFIG_FILTERS_MAX; i++)
        buffer_printf(&text, "[filter f%d]\ncapacity = 1\n", i);
    struct config *c = ini_accept(buffer_text(&text));
    assert_int_equal(c->filter_count, CONFIG_FILTERS_MAX);
    config_free(c);
    buffer_puts(&text, "[filter one-more]\ncapacity = 1\n");
    ini_refuse(buffer_text(&text), "513: more than 256 filters; remove some or run a second service");
    buffer_fini(&text);
}

static void test_config_read__tells_of_files_it_cannot_read(void **state)
{
    (void)state;
    struct config *c = NULL;
    struct error e;
    assert_int_equal(config_read(&c, "/nonexistent/x.ini", &e), ERR_IO);
    assert_non_null(strstr(e.text, "configuration /nonexistent/x.ini cannot be opened: No such file"));
    assert_int_equal(config_read(&c, "/", &e), ERR_IO);
    assert_null(c);
}

static void test_config_read__says_who_must_be_let_read_the_file(void **state)
{
    (void)state;
    struct config *c = NULL;
    struct error e;
    char path[] = "/tmp/twinbloom-config-XXXXXX";
    uid_t user = geteuid();
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)close(fd);
    assert_int_equal(chmod(path, 0), 0);
    assert_int_equal(user == 0 ? seteuid(65534) : 0, 0); /* root could read the file */
    enum err err = config_read(&c, path, &e);
    assert_int_equal(user == 0 ? seteuid(0) : 0, 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(err, ERR_IO);
    assert_non_null(strstr(e.text, "Permission denied; let the user that runs this read the file"));
}

static void test_config_read__reads_a_path(void **state)
{
    (void)state;
    char path[] = "/tmp/test_config.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, ini_full, strlen(ini_full)), strlen(ini_full));
    (void)close(fd);
    struct config *c = NULL;
    struct error e;
    enum err err = config_read(&c, path, &e);
    (void)unlink(path);
    assert_int_equal(err, ERR_OK);
    assert_int_equal(c->filter_count, 2);
    config_free(c);
}

static void test_config_read__reads_users(void **state)
{
    (void)state;
    struct config *c = ini_accept("[user app]\npassword = " HASH "\ntoken = sha256:" HEX HEX
                                  ", sha256:" HEX HEX "\nroles = write\nfilters = a*, b\\,c\nenabled = no\n"
                                  "[user ops]\npassword = " HASH "\nroles = read, admin\n");
    assert_int_equal(c->user_count, 2);
    assert_string_equal(c->user[0].name, "app");
    assert_string_equal(c->user[0].password, HASH);
    assert_int_equal(c->user[0].roles, ROLE_READ | ROLE_WRITE);
    assert_string_equal(c->user[0].filters, "a*, b\\,c");
    assert_false(c->user[0].enabled);
    assert_int_equal(c->user[1].roles, ROLE_ALL);
    assert_string_equal(c->user[1].filters, "*");
    assert_true(c->user[1].enabled);
    char *text = ini_print(c);
    assert_null(strstr(text, HASH));
    assert_null(strstr(text, HEX));
    free(text);
    config_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config_read__has_defaults_for_everything_but_filters),
        cmocka_unit_test(test_config_read__bounds_memory_by_the_machine),
        cmocka_unit_test(test_config_read__reads_every_key),
        cmocka_unit_test(test_config_read__takes_windows_line_ends_and_a_byte_order_mark),
        cmocka_unit_test(test_config_read__takes_acknowledgements_of_adds),
        cmocka_unit_test(test_config_read__takes_sentinels),
        cmocka_unit_test(test_config_read__bounds_the_number_of_filters),
        cmocka_unit_test(test_config_read__tells_of_files_it_cannot_read),
        cmocka_unit_test(test_config_read__says_who_must_be_let_read_the_file),
        cmocka_unit_test(test_config_read__reads_a_path),
        cmocka_unit_test(test_config_read__reads_users),
    };
    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
