/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "service/config/config.h"
#include "service/config/config_keys.h"
#include "service/users.h"
#include "shard/geometry.h"

#define HASH "$y$j75$wxZuc9zvOwHhA1nQX8/PP0$d4Gp/uaOMD/tjgUyHthHB1RcgHeLw8WAR4BqJ.u7e57"
#define HEX "0123456789abcdef0123456789abcdef"

static enum err read_text(struct config **out, const char *text, struct error *e)
{
    FILE *f = tmpfile();
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    rewind(f);
    enum err err = config_read_stream(out, f, "t.ini", e);
    (void)fclose(f);
    return err;
}

static struct config *accept(const char *text)
{
    struct config *c = NULL;
    struct error e = {{0}};
    if (read_text(&c, text, &e) != ERR_OK)
        fail_msg("refused: %s", e.text);
    assert_non_null(c);
    return c;
}

/* @text is refused with exactly the message "t.ini:" + @message. */
static void refuse(const char *text, const char *message)
{
    struct config *c = NULL;
    struct error e = {{0}};
    assert_int_equal(read_text(&c, text, &e), ERR_CONFIG);
    assert_null(c);
    assert_int_equal(strncmp(e.text, "t.ini:", 6), 0);
    assert_string_equal(e.text + 6, message);
}

static char *print(const struct config *c)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    config_print(c, f);
    (void)fclose(f);
    return text;
}

static void test_config_read__has_defaults_for_everything_but_filters(void **state)
{
    (void)state;
    struct config *c = accept("");
    assert_string_equal(c->listen, "127.0.0.1:6479");
    assert_int_equal(c->add_acks, 0);
    assert_false(c->add_fsync);
    assert_string_equal(c->sentinel, "");
    assert_string_equal(c->http, "127.0.0.1:9479");
    assert_int_equal(c->threads, 2);
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
    assert_int_equal(c->build_memory, 512u << 20);
    assert_string_equal(c->spill_dir, "/var/tmp");
    assert_int_equal(c->spill_bytes, 64ull << 30);
    assert_int_equal(c->readers, 0);
    assert_int_equal(c->page_ms, 250);
    assert_int_equal(c->page_rows, 1000000);
    assert_int_equal(c->lease_ms, 10000);
    assert_int_equal(c->settle_timeout_ms, 600000);
    assert_int_equal(c->verify_sample, 100000);
    assert_int_equal(c->tombstone_ms, 3600000);
    assert_int_equal(c->redis_p99_max_ms, 20);
    assert_int_equal(c->replication_lag_max_ms, 10000);
    assert_true(c->redis_p99_factor == 1.5);
    assert_int_equal(c->yield_at, 100);
    assert_int_equal(c->rows_per_second, 0);
    assert_int_equal(c->filter_count, 0);
    config_free(c);
}

static const char full[] =
    "# all of it\n"
    "[service]\nlisten = [::1]:7000\nhttp=\nthreads = 4\ntimeout = 250ms\ncheck_interval = 5s\n"
    "log_level = debug\nmax_clients = 5 ; few\n"
    "[redis]\nnodes = redis://127.0.0.1:1,\n   redis://127.0.0.1:2/3\nprefix = p\ntimeout = 2s\n"
    "shard_bytes = 64KiB\n"
    "[postgres]\ndsn = host=/tmp user=app\ntimeout = 1m\n"
    "[expansion]\nbuild_memory = 2GiB\npage_rows = 7\nlease = 3s\nsettle_timeout = 2h\n"
    "verify_sample = 9\ntombstone_ttl = 90m\nredis_p99_max = 0\nreplication_lag_max = 1m\n"
    "redis_p99_factor = 3\nyield_at = 7000\n"
    "rows_per_second = 5000\n"
    "[filter short-link]\ncapacity = 1000000\nerror_rate = 1e-4\ntable = public.short_link\n"
    "id_column = nr\nkey = code\nwhere = deleted_at IS NULL ; live rows\n  AND kind = 'a;b'\n"
    "\n  AND x > 3 ; more\nexpand_at = 1\ngrowth = 2.25\nheadroom = 1\nexpand_at_bytes = 3MiB\n"
    "expand_at_dead = 0.25\n"
    "schedule = 30 3 * * *\nwindow = 01:00-05:00, 22:00-02:00\nexpansion = 0\ngrace = 0\non_lost = error\n"
    "[filter empty one]\ncapacity = 5\n";

static void test_config_read__reads_every_key(void **state)
{
    (void)state;
    struct config *c = accept(full);
    assert_string_equal(c->listen, "[::1]:7000");
    assert_string_equal(c->http, "");
    assert_int_equal(c->threads, 4);
    assert_int_equal(c->timeout_ms, 250);
    assert_int_equal(c->check_interval_ms, 5000);
    assert_int_equal(c->log_level, LOG_LEVEL_DEBUG);
    assert_int_equal(c->max_clients, 5);
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
    assert_int_equal(c->tombstone_ms, 5400000);
    assert_int_equal(c->redis_p99_max_ms, 0);
    assert_int_equal(c->replication_lag_max_ms, 60000);
    assert_true(c->redis_p99_factor == 3);
    assert_int_equal(c->yield_at, 7000);
    assert_int_equal(c->rows_per_second, 5000);
    assert_int_equal(c->filter_count, 2);
    const struct config_filter *f = config_find(c, "short-link", 10);
    assert_non_null(f);
    assert_int_equal(f->capacity, 1000000);
    assert_true(f->error_rate == 1e-4);
    assert_string_equal(f->table, "public.short_link");
    assert_string_equal(f->id_column, "nr");
    assert_string_equal(f->key, "code");
    assert_string_equal(f->where, "deleted_at IS NULL AND kind = 'a;b' AND x > 3");
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
    assert_string_equal(f->id_column, "id");
    assert_int_equal(f->expansion, 2);
    assert_int_equal(f->grace_ms, 10000);
    assert_int_equal(f->on_lost, ON_LOST_MAYBE);
    assert_null(config_find(c, "empty", 5));
    config_free(c);
}

static void test_config_read__takes_windows_line_ends_and_a_byte_order_mark(void **state)
{
    (void)state;
    struct config *c = accept("\xEF\xBB\xBF[service]\r\nthreads = 3\r\n");
    assert_int_equal(c->threads, 3);
    config_free(c);
}

static void test_config_read__refuses_what_it_does_not_know(void **state)
{
    (void)state;
    refuse("x = 1\n", "1: key 'x' stands before any section; put it below [service] or the like");
    refuse("[servce]\n", "1: unknown section [servce]; sections are [service], [redis], [postgres], "
                         "[expansion], [filter NAME] "
                         "and [user NAME]");
    refuse("[service x]\n",
           "1: unknown section [service x]; sections are [service], [redis], [postgres], [expansion], "
           "[filter NAME] and [user NAME]");
    refuse("[filter]\n", "1: this section does not name its filter; write [filter NAME]");
    refuse("[service]\n\nthreds = 3\n", "3: unknown key 'threds' in [service]; did you mean 'threads'?");
    refuse("[filter a]\ncapacty = 3\n", "2: unknown key 'capacty' in [filter]; did you mean 'capacity'?");
    refuse("[service]\nnodes = 3\n", "2: unknown key 'nodes' in [service]; it belongs to [redis]");
    refuse("[service]\ncolour = 3\n", "2: unknown key 'colour' in [service]; --print-config lists the keys");
}

static void test_config_read__takes_acknowledgements_of_adds(void **state)
{
    (void)state;
    struct config *c =
        accept("[redis]\nadd_acks = 1\n[filter a]\ncapacity = 5\nadd_acks = 5\nadd_fsync = yes\n");
    assert_int_equal(c->add_acks, 1);
    assert_false(c->add_fsync);
    assert_int_equal(c->filter[0].add_acks, 5);
    assert_true(c->filter[0].add_fsync);
    config_free(c);
    refuse("[redis]\nadd_acks = 6\n", "2: 'add_acks' is 6, out of bounds; give a value in 0 .. 5");
}

static void test_config_read__takes_whom_checks_ask(void **state)
{
    (void)state;
    struct config *c = accept("[redis]\nread_from = replica\nmax_staleness = 3s\n[filter a]\ncapacity = 5\n"
                              "read_from = master\n[filter b]\ncapacity = 5\nmax_staleness = 1m\n");
    assert_int_equal(c->read_from, READ_FROM_REPLICA);
    assert_int_equal(c->max_staleness_ms, 3000);
    assert_int_equal(c->filter[0].read_from, READ_FROM_MASTER);
    assert_int_equal(c->filter[0].max_staleness_ms, 0);
    assert_int_equal(c->filter[1].read_from, READ_FROM_DEFAULT);
    assert_int_equal(c->filter[1].max_staleness_ms, 60000);
    config_free(c);
    c = accept("");
    assert_int_equal(c->read_from, READ_FROM_MASTER);
    assert_int_equal(c->max_staleness_ms, 10000);
    config_free(c);
    refuse("[redis]\nread_from = slave\n",
           "2: 'read_from' is 'slave', which cannot be read; give default, master or replica");
}

static void test_config_read__takes_sentinels(void **state)
{
    (void)state;
    static const char both[] = "2: 'sentinel' and 'master' belong together; give both or none";
    struct config *c = accept("[redis]\nsentinel = redis://a:26379, redis://b:26379\n"
                              "master = one, redis://u:p@two/3\n[filter a]\ncapacity = 5\n"
                              "nodes = sentinel:two\n");
    config_free(c);
    refuse("[redis]\nsentinel = redis://a\n", both);
    refuse("[redis]\nmaster = one\n", both);
    refuse("[redis]\nsentinel = redis://a\nmaster = one\nnodes = redis://b\n",
           "2: 'nodes' and 'sentinel' exclude each other; remove one of them");
    refuse("[redis]\nsentinel = redis://a\nmaster = one\ncluster = redis://b\n",
           "2: 'cluster' and 'sentinel' exclude each other; remove one of them");
    refuse("[redis]\nsentinel = redis://a\nmaster = one, one\n",
           "2: 'sentinel': master: node 2: one:6379 is listed twice; write redis://host:port, "
           "rediss://host:port, comma separated");
    refuse("[redis]\nsentinel = redis://a\nmaster = one\n[filter a]\ncapacity = 5\nnodes = one\n",
           "6: 'nodes': node 'one' is not configured: name some of [redis] nodes as host:port");
}

static void test_config_read__refuses_doubles(void **state)
{
    (void)state;
    refuse("[service]\nthreads=4\nthreads=4\n",
           "3: key 'threads' is here a second time, first in line 2; remove one");
    refuse("[redis]\n[service]\n[redis]\n",
           "3: section [redis] is here a second time, it began in line 1; put its keys together");
    refuse("[filter a]\ncapacity=1\n[filter  a ]\n",
           "3: section [filter  a] is here a second time, it began in line 1; put its keys together");
}

static void test_config_read__refuses_lines_that_are_no_ini(void **state)
{
    (void)state;
    static const char neither[] = "2: this is neither a section nor a key with a value; write key = value";
    refuse("[service]\nthreads\n", neither);
    refuse("[service]\nthreads\nthreads = 0\n", neither); /* the first error is the one that is told */
    refuse("[service\nthreads = 1\n", "1: this section's name has no closing bracket; write [NAME]");
    refuse("[service] x\n", "1: there is more behind the section's name; start a new line after ]");
    refuse(
        "[service]\nthreads = 1\n  timeout = 3s\n",
        "3: a line that starts with a blank would go on with the value of 'threads'; start it without one");
    refuse(
        "[service]\nthreads = 1\n  [redis]\n",
        "3: a line that starts with a blank would go on with the value of 'threads'; start it without one");
    refuse(
        "[service]\npassword=;x\n",
        "2: the value of 'password' starts with ';', which starts a comment; put a blank before a comment");
    refuse("[service]\npassword=a\x01z\n", "2: this line holds a control character; remove it");
}

static void test_config_read__refuses_what_the_library_would_cut(void **state)
{
    (void)state;
    char text[400];
    (void)snprintf(text, sizeof(text), "[service]\npassword = %0*d\n", 187, 0);
    struct config *c = accept(text); /* a line of 198 bytes */
    assert_int_equal(strlen(c->password), 187);
    config_free(c);
    (void)snprintf(text, sizeof(text), "[service]\npassword = %0*d\n", 188, 0);
    refuse(text, "2: this line is longer than 198 bytes; go on in a new line that starts with a blank");
    (void)snprintf(text, sizeof(text), "[filter %0*d]\ncapacity = 5\n", 42, 0);
    c = accept(text);
    assert_int_equal(strlen(c->filter[0].name), 42);
    config_free(c);
    (void)snprintf(text, sizeof(text), "[filter %0*d]\ncapacity = 5\n", 43, 0);
    refuse(text, "1: the name of this section is longer than 49 bytes; choose a shorter one");
}

static void test_config_read__refuses_values_out_of_form_or_bounds(void **state)
{
    (void)state;
    refuse("[service]\nthreads = 0\n", "2: 'threads' is 0, out of bounds; give a value in 1 .. 256");
    refuse("[service]\nthreads = 257\n", "2: 'threads' is 257, out of bounds; give a value in 1 .. 256");
    refuse("[service]\nthreads = -1\n",
           "2: 'threads' is '-1', which cannot be read; give a whole number such as 1000");
    refuse("[service]\ntimeout = 5 parsecs\n",
           "2: 'timeout' is '5 parsecs', which cannot be read; give a time such as 250ms, 10s, 5m or 2h");
    refuse("[expansion]\nbuild_memory = 1023KiB\n",
           "2: 'build_memory' is 1023KiB, out of bounds; give a value in 1MiB .. 1024GiB");
    refuse("[service]\nlog_level = loud\n",
           "2: 'log_level' is 'loud', which cannot be read; give debug, info, warn or error");
    static const char *const rates[] = {"0", "1", "1.5", "-0.1"};
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        char text[64], message[128];
        (void)snprintf(text, sizeof(text), "[filter a]\ncapacity = 5\nerror_rate = %s\n", rates[i]);
        (void)snprintf(message, sizeof(message),
                       "3: 'error_rate' is %s, out of bounds; give a value in above 0 .. below 1", rates[i]);
        refuse(text, message);
    }
    refuse("[filter a]\ncapacity = 5\ngrowth = 0.9\n",
           "3: 'growth' is 0.9, out of bounds; give a value in 1 .. 100");
    refuse("[filter a]\ncapacity = 5\nexpand_at = 0\n",
           "3: 'expand_at' is 0, out of bounds; give a value in above 0 .. 1");
    refuse("[filter a]\ncapacity = 5\nexpand_at = 1.01\n",
           "3: 'expand_at' is 1.01, out of bounds; give a value in above 0 .. 1");
    refuse("[filter a]\ncapacity = 5\non_lost = no\n",
           "3: 'on_lost' is 'no', which cannot be read; give maybe or error");
}

static void test_config_read__checks_keys_against_each_other(void **state)
{
    (void)state;
    refuse("[service]\n[filter a]\nerror_rate = 0.1\n",
           "2: 'capacity' is missing in [filter a]; add capacity = ...");
    refuse("[filter a]\ncapacity = 5\ntable = t\n",
           "3: a table needs a key; add key = the column that holds it");
    refuse("[filter a]\ncapacity = 5\ntable = t\nkey = k\n",
           "3: a table needs a database; add dsn = postgresql://... below [postgres]");
    static const char two_nodes[] =
        "[redis]\nnodes = redis://a, redis://u:p@b:7000\n[filter f]\ncapacity = 5\n";
    char text[256];
    (void)snprintf(text, sizeof(text), "%snodes = a,c\n", two_nodes);
    refuse(text, "5: 'nodes': node 'c' is not configured: name some of [redis] nodes as host:port");
    (void)snprintf(text, sizeof(text), "%snodes = b:7000, a, b:7000\n", two_nodes);
    refuse(text, "5: 'nodes': node b:7000 is listed twice");
    refuse("[redis]\ncluster = redis://a\n[filter f]\ncapacity = 5\nnodes = a\n",
           "5: 'nodes': they cannot be chosen in a Redis Cluster: the slots of the shards decide");
    config_free(accept("[redis]\ncluster = redis://a\n[filter f]\ncapacity = 5\nnodes =\n"));
    refuse("[filter a]\ncapacity = 5\nwhere = x\n",
           "3: 'where' has no meaning without a table; add table = NAME or remove it");
    refuse("[filter a]\ncapacity = 5\ntail = yes\n",
           "3: 'tail' has no meaning without a table; add table = NAME or remove it");
    refuse("[filter a]\ncapacity = 5\ncatch_up = outbox\noutbox = o\n",
           "3: 'catch_up' has no meaning without a table; add table = NAME or remove it");
#define SOURCED "capacity = 5\ntable = t\nkey = k\n"
    refuse("[postgres]\ndsn = x\n[filter a]\n" SOURCED "catch_up = logical\n",
           "7: catch_up = logical needs a publication; make it by sql/publication.sql and add publication = "
           "NAME");
    refuse("[postgres]\ndsn = x\n[filter a]\n" SOURCED "catch_up = outbox\n",
           "7: catch_up = outbox needs an outbox; make it by sql/outbox.sql and add outbox = NAME");
    refuse("[postgres]\ndsn = x\n[filter a]\n" SOURCED "slot = A\n",
           "7: 'slot' must be up to 63 of a-z, 0-9 and _; choose another name");
    refuse("[postgres]\ndsn = x\n[filter a]\n" SOURCED "catch_up = outbox\noutbox = o\n[filter b]\n" SOURCED
           "catch_up = outbox\noutbox = o\n",
           "14: 'outbox' is that of filter 'a' already; each filter needs its own");
    refuse("[postgres]\ndsn = x\n[filter a-b]\n" SOURCED
           "catch_up = logical\npublication = p\n[filter a_b]\n" SOURCED
           "catch_up = logical\npublication = p\n",
           "9: 'slot' is that of filter 'a-b' already; each filter needs its own");
#undef SOURCED
    refuse("[filter a]\ncapacity = 5\nexpand_at_dead = 0.3\n",
           "3: 'expand_at_dead' has no meaning without a table; add table = NAME or remove it");
    refuse("[filter a]\ncapacity = 5\nexpand_at_dead = 1.01\n",
           "3: 'expand_at_dead' is 1.01, out of bounds; give a value in 0 .. 1");
    refuse("[service]\nlisten = nowhere\n",
           "2: 'listen': 'nowhere' is no address; write host:port, :port or [v6]:port");
    refuse("[service]\nhttp = :x\n",
           "2: 'http': ':x' has no port; give a number up to 65535 after the last colon");
}

static void test_config_read__wants_tls_used_where_it_is_set_up(void **state)
{
    (void)state;
    struct config *c =
        accept("[redis]\nnodes = redis://a, rediss://b\ntls_ca_file = /ca\ntls_ca_dir = /cas\n"
               "tls_cert_file = /c\ntls_key_file = /k\ntls_server_name = n\ntls_verify = no\n");
    assert_string_equal(c->redis_ca_file, "/ca");
    assert_string_equal(c->redis_ca_dir, "/cas");
    assert_string_equal(c->redis_cert_file, "/c");
    assert_string_equal(c->redis_key_file, "/k");
    assert_string_equal(c->redis_server_name, "n");
    assert_false(c->redis_verify);
    config_free(c);
    c = accept("[redis]\nnodes = unix:///run/redis.sock?db=1\n");
    assert_true(c->redis_verify);
    config_free(c);
    refuse("[redis]\nnodes = redis://a\ntls_ca_file = /ca\n",
           "3: 'tls_ca_file' is set, but no node speaks TLS; write rediss:// in nodes, or remove it");
    refuse("[redis]\nnodes = redis://a\ntls_verify = no\n",
           "3: 'tls_verify' is set, but no node speaks TLS; write rediss:// in nodes, or remove it");
    refuse("[redis]\nnodes = rediss://a\ntls_cert_file = /c\n",
           "3: 'tls_cert_file' and 'tls_key_file' belong together; give both or none");
    refuse("[redis]\nnodes = rediss://a\ntls_key_file = /k\n",
           "3: 'tls_cert_file' and 'tls_key_file' belong together; give both or none");
}

/* Other folders give these texts; what matters here is where they point. */
static void refuse_at(const char *text, const char *start)
{
    struct config *c = NULL;
    struct error e = {{0}};
    assert_int_equal(read_text(&c, text, &e), ERR_CONFIG);
    assert_int_equal(strncmp(e.text, start, strlen(start)), 0);
    assert_null(strstr(e.text, "hush"));
}

static void test_config_read__passes_on_what_others_refuse(void **state)
{
    (void)state;
    refuse_at("[redis]\nnodes = http://u:hush@x:1\n", "t.ini:2: 'nodes': ");
    refuse_at("[redis]\nnodes = unix://u:hush@x/y\n", "t.ini:2: 'nodes': ");
    refuse_at("[redis]\nnodes = unix:///y?password=hush&x=1\n", "t.ini:2: 'nodes': ");
    refuse_at("[redis]\n\nprefix = a{b}\n", "t.ini:3: 'prefix': ");
    refuse_at("[redis]\ncluster = redis://a:1, redis://b:2/3\n",
              "t.ini:2: 'cluster': node 2: a cluster has no database but 0; write redis://");
    refuse_at("[redis]\ncluster = redis://u:hush@a:1, redis://u:hush2@b:2\n",
              "t.ini:2: 'cluster': node 2: the nodes of a cluster share one login");
    refuse_at("[redis]\ncluster = redis://a:1, rediss://b:2\n",
              "t.ini:2: 'cluster': node 2: all nodes of a cluster speak TLS, or none");
    refuse_at("[redis]\ncluster = unix:///a\n",
              "t.ini:2: 'cluster': node 1: the nodes of a cluster are reached by host and port");
    refuse_at("[redis]\nnodes = redis://a\ncluster = redis://a\n",
              "t.ini:3: 'cluster' and 'nodes' exclude each other; remove one of them");
    refuse_at("[redis]\ncluster = redis://a\ntls_verify = no\n", "t.ini:3: 'tls_verify' is set, but no node");
    refuse_at("[postgres]\ndsn = x\n[filter a]\ncapacity = 5\ntable = t\nkey = k\nschedule = 61 * * * *\n",
              "t.ini:7: 'schedule': ");
    refuse_at("[postgres]\ndsn = x\n[filter a]\ncapacity = 5\ntable = t\nkey = k\nwindow = 1-5\n",
              "t.ini:7: 'window': \"1-5\" is no span of the day, from 00:00 to 24:00; write hours such as ");
    refuse_at("[filter a]\ncapacity = 5\nwindow = 01:00-05:00\n",
              "t.ini:3: 'window' has no meaning without a table; ");
}

static void test_config_read__bounds_the_number_of_filters(void **state)
{
    (void)state;
    struct buffer text = {0};
    for (int i = 0; i < CONFIG_FILTERS_MAX; i++)
        buffer_printf(&text, "[filter f%d]\ncapacity = 1\n", i);
    struct config *c = accept(buffer_text(&text));
    assert_int_equal(c->filter_count, CONFIG_FILTERS_MAX);
    config_free(c);
    buffer_puts(&text, "[filter one-more]\ncapacity = 1\n");
    refuse(buffer_text(&text), "513: more than 256 filters; remove some or run a second service");
    buffer_fini(&text);
}

static void test_config_read__tells_of_files_it_cannot_read(void **state)
{
    (void)state;
    struct config *c = NULL;
    struct error e;
    assert_int_equal(config_read(&c, "/nonexistent/x.ini", &e), ERR_IO);
    assert_non_null(strstr(e.text, "/nonexistent/x.ini: cannot be opened: No such file"));
    assert_int_equal(config_read(&c, "/", &e), ERR_IO);
    assert_null(c);
}

static void test_config_read__reads_a_path(void **state)
{
    (void)state;
    char path[] = "/tmp/test_config.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, full, sizeof(full) - 1), sizeof(full) - 1);
    (void)close(fd);
    struct config *c = NULL;
    struct error e;
    enum err err = config_read(&c, path, &e);
    (void)unlink(path);
    assert_int_equal(err, ERR_OK);
    assert_int_equal(c->filter_count, 2);
    config_free(c);
}

static void check_round_trip(const char *text)
{
    struct config *c = accept(text);
    char *first = print(c);
    struct config *again = accept(first);
    char *second = print(again);
    assert_string_equal(first, second);
    for (size_t i = 0; i < c->filter_count; i++)
        assert_string_equal(c->filter[i].where, again->filter[i].where);
    config_free(c);
    config_free(again);
    free(first);
    free(second);
}

static void test_config_print__can_be_read_again(void **state)
{
    (void)state;
    check_round_trip("");
    check_round_trip(full);
    char text[1000]; /* long values, with words that must not begin a line */
    (void)snprintf(
        text, sizeof(text),
        "[postgres]\ndsn=x\n[filter a]\ncapacity=1\nerror_rate=0.30000000000000004\ntable=t\nkey=k\n"
        "where=#%0*d key = 3\n %0*d\n %0*d #  b table : [x y\n",
        180, 0, 197, 0, 170, 0);
    check_round_trip(text);
}

static void test_config_print__names_every_key(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "[filter a]\ncapacity = 1\n[user a]\ntoken = sha256:" HEX HEX "\n"};
    for (size_t t = 0; t < 2; t++) {
        struct config *c = accept(texts[t]);
        char *text = print(c);
        for (size_t i = 0; i < config_key_count; i++) {
            char line[64];
            bool commented = t == 0 && config_keys[i].section >= CONFIG_FILTER;
            (void)snprintf(line, sizeof(line), "\n%s%s =", commented ? "# " : "", config_keys[i].name);
            assert_non_null(strstr(text, line));
            const char *help = strstr(text, config_keys[i].help);
            assert_non_null(help);
            const char *restart = strstr(help, "A change needs a restart.");
            bool needed = restart != NULL && restart < strchr(help, '\n');
            assert_int_equal(needed, (config_keys[i].flags & CONFIG_RELOADABLE) == 0);
        }
        free(text);
        config_free(c);
    }
}

static void test_config_print__masks_secrets(void **state)
{
    (void)state;
    struct config *c = accept("[service]\npassword = hush1\n"
                              "[redis]\nnodes = redis://u:hush2@127.0.0.1:1, redis://u:hush3@127.0.0.1:2\n"
                              "[postgres]\ndsn = postgresql://app:hush4@h:5432/db?password=hush5&x=y\n");
    char *text = print(c);
    assert_null(strstr(text, "hush"));
    assert_non_null(strstr(text, "\npassword = ***\n"));
    assert_non_null(strstr(text, "\nnodes = redis://u:***@127.0.0.1:1, redis://u:***@127.0.0.1:2\n"));
    assert_non_null(strstr(text, "\ndsn = postgresql://app:***@h:5432/db?password=***&x=y\n"));
    free(text);
    config_free(c);
    refuse("[service]\npassword = ***\n",
           "2: 'password' holds ***, the mask of a printed configuration; put the secret "
           "in its place");
}

static void check_mask(const char *text, const char *expected)
{
    struct buffer b = {0};
    config_mask(&b, text);
    assert_string_equal(buffer_text(&b), expected);
    buffer_fini(&b);
}

static void test_config_mask__finds_passwords_in_every_form(void **state)
{
    (void)state;
    check_mask("", "");
    check_mask("host=h user=u", "host=h user=u");
    check_mask("password=hush host=h", "password=*** host=h");
    check_mask("host=h password = 'hu\\'s h' user=u", "host=h password = *** user=u");
    check_mask("password=hu\\ sh&x sslpassword=hush", "password=*** sslpassword=***");
    check_mask("password=", "password=");
    check_mask("rediss://u:hush@h:1/2, unix://u:hu%2fsh@/run/a.sock?db=3",
               "rediss://u:***@h:1/2, unix://u:***@/run/a.sock?db=3");
    check_mask("unix:///run/a.sock?password=hush&db=3", "unix:///run/a.sock?password=***&db=3");
    check_mask("password='hush", "password=***");
    check_mask("postgresql://app@h:5432/db", "postgresql://app@h:5432/db");
    check_mask("postgresql://app:hu@sh@h:5432/db", "postgresql://app:***@h:5432/db");
    check_mask("postgresql://h/db?user=u&password=hu sh", "postgresql://h/db?user=u&password=***");
    check_mask("redis://:hush@a:1,redis://b:2", "redis://:***@a:1,redis://b:2");
}

static void check_address(const char *address, const char *host, uint16_t port)
{
    char got[16];
    uint16_t number = 1;
    struct error e;
    assert_int_equal(config_split_address(address, got, sizeof(got), &number, &e), ERR_OK);
    assert_string_equal(got, host);
    assert_int_equal(number, port);
}

static void test_config_split_address__takes_three_forms(void **state)
{
    (void)state;
    check_address("127.0.0.1:6479", "127.0.0.1", 6479);
    check_address("localhost:65535", "localhost", 65535);
    check_address(":80", "", 80);
    check_address(":0", "", 0);
    check_address("[::1]:80", "::1", 80);
    check_address("fifteen-bytes-x:1", "fifteen-bytes-x", 1);
}

static void test_config_split_address__refuses_others(void **state)
{
    (void)state;
    const char *const bad[] = {"",
                               "host",
                               "host:",
                               "host:x",
                               "host:65536",
                               "host:-1",
                               "::1:80",
                               "[::1]80",
                               "[::1]",
                               "[]:80",
                               "[::1:80",
                               "a b:80",
                               "host:+1",
                               "redis://h:1",
                               "host:80 ",
                               "u@h:80",
                               "h:1,h2",
                               "host: 80",
                               "sixteen-bytes-xx:1"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char host[16];
        uint16_t port;
        struct error e = {{0}};
        assert_int_equal(config_split_address(bad[i], host, sizeof(host), &port, &e), ERR_PARSE);
        assert_non_null(strchr(e.text, ';'));
    }
}

#define OPEN(key, address)                                                                                   \
    "'" key "' = " address " is open to other machines, and nobody would have to log in; set a 'password', " \
    "add a [user NAME], listen on 127.0.0.1, or say insecure = yes"

static void test_config_read__opens_to_others_only_with_a_login_or_on_request(void **state)
{
    (void)state;
    static const char with_user[] =
        "[service]\nlisten = 127.0.0.1:1, 0.0.0.0:1\n[user a]\npassword = " HASH "\n";
    static const char *const fine[] = {
        "[service]\nlisten = 127.0.0.1:1, [::1]:2, localhost:3, 127.9.9.9:4\n",
        "[service]\nlisten = :1\nhttp = :2\npassword = x\n",
        with_user,
        "[service]\nlisten = :1\ninsecure = yes\n",
        "[service]\nlisten =\nunix_socket = /tmp/s\n",
    };
    for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++)
        config_free(accept(fine[i]));
    refuse("[service]\nlisten = :1\n", "2: " OPEN("listen", ":1"));
    refuse("[service]\nlisten = 127.0.0.1:1,0.0.0.0:1\n", "2: " OPEN("listen", "0.0.0.0:1"));
    refuse("[service]\nlisten = example.org:1\n", "2: " OPEN("listen", "example.org:1"));
    refuse("[service]\nlisten = [::]:1\n", "2: " OPEN("listen", "[::]:1"));
    refuse("[service]\nhttp = 10.0.0.1:1\n", "2: " OPEN("http", "10.0.0.1:1"));
    refuse("[service]\nlisten_tls = :7\ntls_cert = c\ntls_key = k\n", "2: " OPEN("listen_tls", ":7"));
    refuse("[service]\nlisten =\n",
           "2: there is nothing to listen on; give listen, listen_tls or unix_socket");
    refuse("[service]\nlisten = 127.0.0.1:1,\n",
           "2: 'listen': '' is no address; write host:port, :port or [v6]:port");
    refuse(
        "[service]\nunix_socket_mode = 800\n",
        "2: 'unix_socket_mode' is '800', which cannot be read; give permission bits in octal, such as 770");
}

static void test_config_read__knows_what_tls_needs(void **state)
{
    (void)state;
    refuse("[service]\nlisten_tls = 127.0.0.1:7\n",
           "2: 'listen_tls' needs a certificate; add tls_cert = FILE and tls_key = FILE");
    refuse("[service]\ntls_cert = c\n", "2: 'tls_cert' and 'tls_key' belong together; give both or none");
    refuse("[service]\ntls_client_auth = required\n",
           "2: 'tls_client_auth' needs to know whom to trust; add tls_ca = FILE");
    refuse("[service]\ntls_client_user = yes\n",
           "2: 'tls_client_user' needs certificates of clients; add tls_client_auth = optional or required");
    refuse("[service]\ntls_client_auth = maybe\n",
           "2: 'tls_client_auth' is 'maybe', which cannot be read; give no, optional or required");
}

static void test_config_read__reads_users(void **state)
{
    (void)state;
    struct config *c = accept("[user app]\npassword = " HASH "\ntoken = sha256:" HEX HEX ", sha256:" HEX HEX
                              "\nroles = write\nfilters = a*, b\\,c\nenabled = no\n"
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
    char *text = print(c);
    assert_null(strstr(text, HASH));
    assert_null(strstr(text, HEX));
    free(text);
    config_free(c);
}

/* No refusal repeats the secret. */
static void test_config_read__refuses_users_that_are_a_mistake(void **state)
{
    (void)state;
    refuse("[user app]\npassword = hunter2\n",
           "2: 'password' of a user must be a hash, not the password itself; make one by: twinbloom passwd");
    refuse("[user app]\npassword = $y$hunter2\n",
           "2: 'password' of a user must be a hash, not the password itself; make one by: twinbloom passwd");
    refuse("[user app]\npassword = $1$abcdefgh$aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
           "2: 'password' of a user must be a hash, not the password itself; make one by: twinbloom passwd");
    refuse("[user app]\n\ntoken = sha256:" HEX HEX ", secret\n",
           "3: 'token' must be sha256: and 64 hexadecimal digits, several with commas; make a token and its "
           "hash by: twinbloom passwd --token");
    refuse("[user app]\nroles = read\n",
           "1: nobody could log in as this user; give it a password or a token, made by: twinbloom passwd");
    refuse("[user default]\npassword = " HASH "\n",
           "1: the user default is the one of 'password' in [service]; set that, or choose another name");
    refuse("[user a b]\npassword = " HASH "\n",
           "1: the name of a user is of printable ASCII without blanks and ':'; choose another one");
    refuse("[user a]\npassword = " HASH "\nroles = root\n",
           "3: 'roles' is 'root', which cannot be read; give read, write or admin, several with commas");
    refuse("[user]\n", "1: this section does not name its user; write [user NAME]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config_read__has_defaults_for_everything_but_filters),
        cmocka_unit_test(test_config_read__reads_every_key),
        cmocka_unit_test(test_config_read__takes_windows_line_ends_and_a_byte_order_mark),
        cmocka_unit_test(test_config_read__refuses_what_it_does_not_know),
        cmocka_unit_test(test_config_read__takes_acknowledgements_of_adds),
        cmocka_unit_test(test_config_read__takes_whom_checks_ask),
        cmocka_unit_test(test_config_read__takes_sentinels),
        cmocka_unit_test(test_config_read__refuses_doubles),
        cmocka_unit_test(test_config_read__refuses_lines_that_are_no_ini),
        cmocka_unit_test(test_config_read__refuses_what_the_library_would_cut),
        cmocka_unit_test(test_config_read__refuses_values_out_of_form_or_bounds),
        cmocka_unit_test(test_config_read__checks_keys_against_each_other),
        cmocka_unit_test(test_config_read__wants_tls_used_where_it_is_set_up),
        cmocka_unit_test(test_config_read__passes_on_what_others_refuse),
        cmocka_unit_test(test_config_read__bounds_the_number_of_filters),
        cmocka_unit_test(test_config_read__tells_of_files_it_cannot_read),
        cmocka_unit_test(test_config_read__reads_a_path),
        cmocka_unit_test(test_config_read__opens_to_others_only_with_a_login_or_on_request),
        cmocka_unit_test(test_config_read__knows_what_tls_needs),
        cmocka_unit_test(test_config_read__reads_users),
        cmocka_unit_test(test_config_read__refuses_users_that_are_a_mistake),
        cmocka_unit_test(test_config_print__can_be_read_again),
        cmocka_unit_test(test_config_print__names_every_key),
        cmocka_unit_test(test_config_print__masks_secrets),
        cmocka_unit_test(test_config_mask__finds_passwords_in_every_form),
        cmocka_unit_test(test_config_split_address__takes_three_forms),
        cmocka_unit_test(test_config_split_address__refuses_others),
    };
    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
