/* SPDX-License-Identifier: MIT */
/* Invalid configurations and their error messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "service/config/users.h"
#include "shard/filter/names.h"
#include "tests/unit/service/ini.h"

static void test_config_read__refuses_what_it_does_not_know(void **state)
{
    (void)state;
    ini_refuse("x = 1\n", "1: key 'x' comes before any section; put it below its section, such as [service]");
    ini_refuse("[servce]\n", "1: unknown section [servce]; sections are [service], [redis], [postgres], "
                             "[rebuild], [filter NAME] "
                             "and [user NAME]");
    ini_refuse("[service x]\n",
               "1: unknown section [service x]; sections are [service], [redis], [postgres], [rebuild], "
               "[filter NAME] and [user NAME]");
    ini_refuse("[filter]\n", "1: this section has no name; write [filter NAME]");
    ini_refuse("[filter \"a\"]\n", "1: quotes would belong to the name; write [filter NAME]");
    ini_refuse("[user 'a']\n", "1: quotes would belong to the name; write [user NAME]");
    ini_refuse("[service]\n\nthreds = 3\n", "3: unknown key 'threds' in [service]; did you mean 'threads'?");
    ini_refuse("[filter a]\ncapacty = 3\n", "2: unknown key 'capacty' in [filter]; did you mean 'capacity'?");
    ini_refuse("[service]\nnodes = 3\n", "2: unknown key 'nodes' in [service]; it belongs to [redis]");
    ini_refuse("[service]\ncolour = 3\n",
               "2: unknown key 'colour' in [service]; --print-config lists the keys");
}

static void test_config_read__refuses_doubles(void **state)
{
    (void)state;
    ini_refuse("[service]\nthreads=4\nthreads=4\n",
               "3: key 'threads' appears twice, first in line 2; remove one");
    ini_refuse("[redis]\n[service]\n[redis]\n",
               "3: section [redis] appears twice, first in line 1; put its keys together");
    ini_refuse("[filter a]\ncapacity=1\n[filter  a ]\n",
               "3: section [filter  a] appears twice, first in line 1; put its keys together");
}

static void test_config_read__refuses_lines_that_are_no_ini(void **state)
{
    (void)state;
    static const char neither[] = "2: this is neither a section nor a key with a value; write key = value";
    ini_refuse("[service]\nthreads\n", neither);
    ini_refuse("[service]\nthreads\nthreads = 0\n", neither); /* the first error is reported */
    ini_refuse("[service\nthreads = 1\n", "1: this section's name has no closing bracket; write [NAME]");
    ini_refuse("[service] x\n", "1: text follows the section's name; start a new line after ]");
    ini_refuse("[service]\nthreads = 1\n  timeout = 3s\n",
               "3: a line that starts with a blank continues the value of 'threads'; remove the blank");
    ini_refuse("[service]\nthreads = 1\n  [redis]\n",
               "3: a line that starts with a blank continues the value of 'threads'; remove the blank");
    ini_refuse("[service]\npassword=a\x01z\n", "2: this line holds a control character; remove it");
}

/* Otherwise a truncated password, or a comment that becomes SQL, would be noticed too late. */
static void test_config_read__refuses_a_comment_behind_a_text(void **state)
{
    (void)state;
    static const char *const texts[] = {"[service]\npassword = a ;b\n", "[service]\npassword = a #b\n",
                                        "[service]\npassword = #ab\n", "[service]\npassword:a\t; b\n"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        ini_refuse(texts[i],
                   "2: 'password' is text, so what follows a blank and # or ; may be a comment or a "
                   "part of it; put the comment on a line of its own, or remove the blank");
    ini_refuse(
        "[filter a]\ncapacity = 5\nwhere = x\n  AND y # live\n",
        "4: 'where' is text, so what follows a blank and # or ; may be a comment or a part of it; put the "
        "comment on a line of its own, or remove the blank");
    struct config *c =
        ini_accept("[service]\npassword=;a;b#c\nthreads = 3 # = 4\nlog_level = warn ;x\n"
                   "timeout = 2s # two\n[user u]\npassword = " HASH "\nroles = read,\n write # all\n");
    assert_string_equal(c->password, ";a;b#c");
    assert_int_equal(c->threads, 3);
    assert_int_equal(c->log_level, LOG_LEVEL_WARN);
    assert_true(c->timeout_ms == 2000);
    assert_int_equal(c->user[0].roles, ROLE_READ | ROLE_WRITE);
    config_free(c);
}

static void test_config_read__refuses_long_names_of_sections(void **state)
{
    (void)state;
    static const char refusal[] =
        "1: the name of the filter is longer than 512 bytes (escaped); choose a shorter one";
    char text[600];
    (void)snprintf(text, sizeof(text), "[filter %0*d]\ncapacity = 5\n", FILTER_NAME_MAX, 0);
    struct config *c = ini_accept(text);
    assert_int_equal(strlen(c->filter[0].name), FILTER_NAME_MAX);
    config_free(c);
    (void)snprintf(text, sizeof(text), "[filter {%0*d]\ncapacity = 5\n", FILTER_NAME_MAX - 3, 0);
    config_free(ini_accept(text));
    (void)snprintf(text, sizeof(text), "[filter %0*d]\ncapacity = 5\n", FILTER_NAME_MAX + 1, 0);
    ini_refuse(text, refusal);
    (void)snprintf(text, sizeof(text), "[filter {%0*d]\ncapacity = 5\n", FILTER_NAME_MAX - 2, 0);
    ini_refuse(text, refusal);
    (void)snprintf(text, sizeof(text), "[user %0*d]\nroles = read\n", USERS_NAME_MAX + 1, 0);
    ini_refuse(text, "1: the name of a user has at most 63 bytes; choose a shorter one");
}

static void test_config_read__refuses_values_out_of_form_or_bounds(void **state)
{
    (void)state;
    ini_refuse("[service]\nthreads = 257\n", "2: 'threads' is 257, out of bounds; allowed is 0 .. 256");
    ini_refuse("[service]\nthreads = -1\n",
               "2: 'threads' is '-1', which is not valid; give a whole number such as 1000");
    ini_refuse("[service]\ntimeout = 5 parsecs\n",
               "2: 'timeout' is '5 parsecs', which is not valid; give a time such as 250ms, 10s, 5m or 2h");
    ini_refuse("[rebuild]\nyield_at = 80%\n",
               "2: 'yield_at' is '80%', which is not valid; write 0.8 for 80%");
    ini_refuse("[rebuild]\nyield_at = %\n",
               "2: 'yield_at' is '%', which is not valid; give a number such as 0.001 or 1e-3");
    ini_refuse("[service]\ntimeout = 500\n", "2: 'timeout' is 500, without a unit; write 500ms or 500s");
    ini_refuse("[rebuild]\nbuild_memory = 1023KiB\n",
               "2: 'build_memory' is 1023KiB, out of bounds; allowed is 1MiB .. 1TiB");
    ini_refuse("[redis]\nresident_memory = most\n",
               "2: 'resident_memory' is 'most', which is not valid; give a size such as 512MiB, or auto");
    ini_refuse("[redis]\nresident_memory = 1025TiB\n",
               "2: 'resident_memory' is 1025TiB, out of bounds; allowed is 0 .. 1024TiB");
    ini_refuse("[redis]\nshard_bytes = 1023\n",
               "2: 'shard_bytes' is 1023, out of bounds; allowed is 1KiB .. 1048512");
    ini_refuse("[service]\nlog_level = loud\n",
               "2: 'log_level' is 'loud', which is not valid; give debug, info, warn or error");
    static const char *const rates[] = {"0", "1", "1.5", "-0.1"};
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        char text[64], message[128];
        (void)snprintf(text, sizeof(text), "[filter a]\ncapacity = 5\nerror_rate = %s\n", rates[i]);
        (void)snprintf(message, sizeof(message),
                       "3: 'error_rate' is %s, out of bounds; allowed is above 0 .. below 1", rates[i]);
        ini_refuse(text, message);
    }
    ini_refuse("[filter a]\ncapacity = 5\ngrowth = 0.9\n",
               "3: 'growth' is 0.9, out of bounds; allowed is 1 .. 100");
    ini_refuse("[filter a]\ncapacity = 5\nexpand_at = 0\n",
               "3: 'expand_at' is 0, out of bounds; allowed is above 0 .. 1");
    ini_refuse("[filter a]\ncapacity = 5\nexpand_at = 1.01\n",
               "3: 'expand_at' is 1.01, out of bounds; allowed is above 0 .. 1");
    ini_refuse("[filter a]\ncapacity = 5\non_lost = no\n",
               "3: 'on_lost' is 'no', which is not valid; give maybe or error");
}

static void test_config_read__checks_keys_against_each_other(void **state)
{
    (void)state;
    ini_refuse("[filter a]\ncapacity = 5\ntable = t\n",
               "3: a table needs a key; add key = the column that holds it");
    ini_refuse("[filter a]\ncapacity = 5\ntable = t\nkey = k\n",
               "3: a table needs a database; add dsn = postgresql://... below [postgres]");
    static const char two_nodes[] =
        "[redis]\nnodes = redis://a, redis://u:p@b:7000\n[filter f]\ncapacity = 5\n";
    char text[256];
    (void)snprintf(text, sizeof(text), "%snodes = a,c\n", two_nodes);
    ini_refuse(text, "5: 'nodes': node 'c' is not configured: name some of [redis] nodes as host:port");
    (void)snprintf(text, sizeof(text), "%snodes = b:7000, a, b:7000\n", two_nodes);
    ini_refuse(text, "5: 'nodes': node b:7000 is listed twice");
    ini_refuse("[redis]\ncluster = redis://a\n[filter f]\ncapacity = 5\nnodes = a\n",
               "5: 'nodes' has no effect in a Redis Cluster, where slots decide; remove it");
    config_free(ini_accept("[redis]\ncluster = redis://a\n[filter f]\ncapacity = 5\nnodes =\n"));
    ini_refuse("[filter a]\ncapacity = 5\nwhere = x\n",
               "3: 'where' has no effect without a table; add table = NAME or remove it");
    ini_refuse("[filter a]\ncapacity = 5\nfollow_by = outbox\noutbox = o\n",
               "3: 'follow_by' has no effect without a table; add table = NAME or remove it");
#define SOURCED "capacity = 5\ntable = t\nkey = k\n"
    ini_refuse(
        "[postgres]\ndsn = x\n[filter a]\n" SOURCED "follow_by = logical\n",
        "7: follow_by = logical needs a publication; make it by sql/publication.sql and add publication = "
        "NAME");
    ini_refuse("[postgres]\ndsn = x\n[filter a]\n" SOURCED "follow_by = outbox\n",
               "7: follow_by = outbox needs an outbox; make it by sql/outbox.sql and add outbox = NAME");
    ini_refuse("[postgres]\ndsn = x\n[filter a]\n" SOURCED "slot = A\n",
               "7: 'slot' must be up to 63 of a-z, 0-9 and _; choose another name");
    ini_refuse("[postgres]\ndsn = x\n[filter a]\n" SOURCED
               "follow_by = outbox\noutbox = o\n[filter b]\n" SOURCED "follow_by = outbox\noutbox = o\n",
               "14: 'outbox' is used by filter 'a' already; each filter needs its own");
    ini_refuse("[postgres]\ndsn = x\n[filter a-b]\n" SOURCED
               "follow_by = logical\npublication = p\n[filter a_b]\n" SOURCED
               "follow_by = logical\npublication = p\n",
               "9: 'slot' is used by filter 'a-b' already; each filter needs its own");
#undef SOURCED
    ini_refuse("[filter a]\ncapacity = 5\nexpand_at_dead = 0.3\n",
               "3: 'expand_at_dead' has no effect without a table; add table = NAME or remove it");
    ini_refuse("[filter a]\ncapacity = 5\nexpand_at_dead = 1.01\n",
               "3: 'expand_at_dead' is 1.01, out of bounds; allowed is 0 .. 1");
    ini_refuse("[service]\nlisten = nowhere\n",
               "2: 'listen': 'nowhere' is no address; write host:port, :port or [v6]:port");
    ini_refuse("[service]\nhttp = :x\n",
               "2: 'http': ':x' has no port; give a number up to 65535 after the last colon");
}

static void test_config_read__wants_tls_used_where_it_is_set_up(void **state)
{
    (void)state;
    struct config *c =
        ini_accept("[redis]\nnodes = redis://a, rediss://b\ntls_ca_file = /ca\ntls_ca_dir = /cas\n"
                   "tls_cert_file = /c\ntls_key_file = /k\ntls_server_name = n\ntls_verify = no\n");
    assert_string_equal(c->redis_ca_file, "/ca");
    assert_string_equal(c->redis_ca_dir, "/cas");
    assert_string_equal(c->redis_cert_file, "/c");
    assert_string_equal(c->redis_key_file, "/k");
    assert_string_equal(c->redis_server_name, "n");
    assert_false(c->redis_verify);
    config_free(c);
    c = ini_accept("[redis]\nnodes = unix:///run/redis.sock?db=1\n");
    assert_true(c->redis_verify);
    config_free(c);
    ini_refuse("[redis]\nnodes = redis://a\ntls_ca_file = /ca\n",
               "3: 'tls_ca_file' is set, but no node uses TLS; write rediss:// in nodes, or remove it");
    ini_refuse("[redis]\nnodes = redis://a\ntls_verify = no\n",
               "3: 'tls_verify' is set, but no node uses TLS; write rediss:// in nodes, or remove it");
    ini_refuse("[redis]\nnodes = rediss://a\ntls_cert_file = /c\n",
               "3: 'tls_cert_file' and 'tls_key_file' belong together; give both or none");
    ini_refuse("[redis]\nnodes = rediss://a\ntls_key_file = /k\n",
               "3: 'tls_cert_file' and 'tls_key_file' belong together; give both or none");
}

/* Other modules write these messages, so only the beginning is compared, which is the position. */
static void refuse_at(const char *text, const char *start)
{
    struct config *c = NULL;
    struct error e = {{0}};
    assert_int_equal(ini_read(&c, text, &e), ERR_CONFIG);
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
              "t.ini:2: 'cluster': node 2: a cluster has only database 0; write redis://");
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
    refuse_at(
        "[postgres]\ndsn = x\n[filter a]\ncapacity = 5\ntable = t\nkey = k\nwindow = 1-5\n",
        "t.ini:7: 'window': \"1-5\" is not a span of the day such as 22:00-06:00; write hours such as ");
    refuse_at("[filter a]\ncapacity = 5\nwindow = 01:00-05:00\n",
              "t.ini:3: 'window' has no effect without a table; ");
}

#define OPEN(key, address)                                                                                   \
    "'" key "' = " address " is open to other machines without a login; set a 'password', "                  \
    "add a [user NAME], listen on 127.0.0.1, or set insecure = yes"

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
        config_free(ini_accept(fine[i]));
    ini_refuse("[service]\nlisten = :1\n", "2: " OPEN("listen", ":1"));
    ini_refuse("[service]\nlisten = 127.0.0.1:1,0.0.0.0:1\n", "2: " OPEN("listen", "0.0.0.0:1"));
    ini_refuse("[service]\nlisten = example.org:1\n", "2: " OPEN("listen", "example.org:1"));
    ini_refuse("[service]\nlisten = [::]:1\n", "2: " OPEN("listen", "[::]:1"));
    ini_refuse("[service]\nhttp = 10.0.0.1:1\n", "2: " OPEN("http", "10.0.0.1:1"));
    ini_refuse("[service]\nlisten_tls = :7\ntls_cert = c\ntls_key = k\n", "2: " OPEN("listen_tls", ":7"));
    ini_refuse("[service]\nlisten =\n",
               "2: there is no address to listen on; set listen, listen_tls or unix_socket");
    ini_refuse("[service]\nlisten = 127.0.0.1:1,\n",
               "2: 'listen': '' is no address; write host:port, :port or [v6]:port");
    ini_refuse(
        "[service]\nunix_socket_mode = 800\n",
        "2: 'unix_socket_mode' is '800', which is not valid; give permission bits in octal, such as 770");
}

static void test_config_read__knows_what_tls_needs(void **state)
{
    (void)state;
    ini_refuse("[service]\nlisten_tls = 127.0.0.1:7\n",
               "2: 'listen_tls' needs a certificate; add tls_cert = FILE and tls_key = FILE");
    ini_refuse("[service]\ntls_cert = c\n", "2: 'tls_cert' and 'tls_key' belong together; give both or none");
    ini_refuse("[service]\ntls_client_auth = required\n",
               "2: 'tls_client_auth' needs authorities to trust; add tls_ca = FILE");
    ini_refuse(
        "[service]\ntls_client_user = yes\n",
        "2: 'tls_client_user' needs certificates of clients; add tls_client_auth = optional or required");
    ini_refuse("[service]\ntls_client_auth = maybe\n",
               "2: 'tls_client_auth' is 'maybe', which is not valid; give no, optional or required");
}

/* No error message repeats the secret. */
static void test_config_read__refuses_users_that_are_a_mistake(void **state)
{
    (void)state;
    ini_refuse("[user app]\npassword = hunter2\n", "2: 'password' of a user must be a hash, not the password "
                                                   "itself; make one with twinbloom hash-password");
    ini_refuse("[user app]\npassword = $y$hunter2\n",
               "2: 'password' of a user must be a hash, not the password itself; make one with twinbloom "
               "hash-password");
    ini_refuse("[user app]\npassword = $1$abcdefgh$aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
               "2: 'password' of a user must be a hash, not the password itself; make one with twinbloom "
               "hash-password");
    ini_refuse(
        "[user app]\n\ntoken = sha256:" HEX HEX ", secret\n",
        "3: 'token' must be sha256: and 64 hexadecimal digits, several with commas; make a token and its "
        "hash by: twinbloom hash-password --token");
    ini_refuse("[user app]\nroles = read\n",
               "1: this user cannot log in; set 'password' or 'token' as printed by twinbloom hash-password");
    ini_refuse("[user default]\npassword = " HASH "\n",
               "1: the user default is the one of 'password' in [service]; set that, or choose another name");
    ini_refuse("[user a b]\npassword = " HASH "\n",
               "1: the name of a user is of printable ASCII without blanks and ':'; choose another one");
    ini_refuse("[user a]\npassword = " HASH "\nroles = root\n",
               "3: 'roles' is 'root', which is not valid; give read, write or admin, several with commas");
    ini_refuse("[user]\n", "1: this section has no name; write [user NAME]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config_read__refuses_what_it_does_not_know),
        cmocka_unit_test(test_config_read__refuses_doubles),
        cmocka_unit_test(test_config_read__refuses_lines_that_are_no_ini),
        cmocka_unit_test(test_config_read__refuses_a_comment_behind_a_text),
        cmocka_unit_test(test_config_read__refuses_long_names_of_sections),
        cmocka_unit_test(test_config_read__refuses_values_out_of_form_or_bounds),
        cmocka_unit_test(test_config_read__checks_keys_against_each_other),
        cmocka_unit_test(test_config_read__wants_tls_used_where_it_is_set_up),
        cmocka_unit_test(test_config_read__passes_on_what_others_refuse),
        cmocka_unit_test(test_config_read__opens_to_others_only_with_a_login_or_on_request),
        cmocka_unit_test(test_config_read__knows_what_tls_needs),
        cmocka_unit_test(test_config_read__refuses_users_that_are_a_mistake),
    };
    return cmocka_run_group_tests_name("config_refused", tests, NULL, NULL);
}
