/* SPDX-License-Identifier: MIT */
/* Requests besides BF.*: handshakes, logins, transactions, and requests that are no commands. */
#include "tests/integration/contract.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/buffer.h"

/* --- small commands --- */

static void test_small_commands__answer_as_redis_does(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"PING", "+PONG"},
        {"ping hello", "$5\r\nhello"},
        {"PING a b", ARITY("ping")},
        {"ECHO \"a b\"", "$3\r\na b"},
        {"ECHO", ARITY("echo")},
        {"SELECT 0", "+OK"},
        {"SELECT 1", "-ERR DB index is out of range"},
        {"SELECT abc", "-ERR value is not an integer or out of range"},
        {"CLIENT SETNAME tester", "+OK"},
        {"MULTI", "+OK"},
        {"RESET", "+RESET"}, /* drops the transaction and the name */
        {"CLIENT GETNAME", "$-1"},
        {"EXEC", "-ERR EXEC without MULTI"},
        {"ACL WHOAMI", "$7\r\ndefault"},
        {"ACL WHOAMI x", ARITY("acl|whoami")},
        {"ACL LIST", "-ERR unknown subcommand 'LIST'. Try ACL HELP."},
        {"ACL HELP",
         "*5\r\n+ACL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:\r\n+WHOAMI\r\n"
         "+    Return the name of the user of this connection.\r\n+HELP\r\n+    Print this help."},
        {"CLIENT MAINT_NOTIFICATIONS ON", "-ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP."},
        {"CLUSTER SLOTS", "-ERR unknown command 'CLUSTER', with args beginning with: 'SLOTS' "},
        {"CONFIG GET save", "*2\r\n$4\r\nsave\r\n$0\r\n"},
        {"CONFIG GET appendonly", "*2\r\n$10\r\nappendonly\r\n$2\r\nno"},
    };
    static const struct exchange three[] = {
        {"CLIENT GETNAME", "_"},
        {"CONFIG GET appendonly", "%1\r\n$10\r\nappendonly\r\n$2\r\nno"},
        {"RESET", "+RESET"},
        {"CLIENT GETNAME", "$-1"}, /* in RESP2 again */
    };
    RUN(rows);
    RUN3(three);
}

static void test_quit__answers_ok_then_closes(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t n = -1;
    contract_says_and_closes("PING\r\nQUIT\r\nBF.ADD after-quit a\r\n", "+PONG\r\n+OK\r\n");
    must(client_integer(&contract.fixture.client[0], &n, &e, "BF.EXISTS after-quit a"), e);
    assert_int_equal(n, 0);
}

/* --- HELLO and AUTH --- */

static void test_hello__refuses_what_it_does_not_know(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"HELLO 4", "-NOPROTO unsupported protocol version"},
        {"HELLO 1", "-NOPROTO unsupported protocol version"},
        {"HELLO abc", "-ERR Protocol version is not an integer or out of range"},
        {"HELLO 3.0", "-ERR Protocol version is not an integer or out of range"},
        {"HELLO 2 FOO", "-ERR Syntax error in HELLO option 'FOO'"},
        {"HELLO 3 AUTH a", "-ERR Syntax error in HELLO option 'AUTH'"},
        {"HELLO 3 SETNAME", "-ERR Syntax error in HELLO option 'SETNAME'"},
        {"HELLO 3 SETNAME \"a b\"",
         "-ERR Client names cannot contain spaces, newlines or special characters."},
        {"BF.EXISTS none a", ":0"}, /* still in RESP2 */
        {"CLIENT GETNAME", "$-1"},
    };
    RUN(rows);
}

static void test_hello__answers_in_the_new_protocol(void **state)
{
    (void)state;
    static const struct {
        const char *request, *head, *proto;
    } rows[] = {{"HELLO\r\n", "*14\r\n", "$5\r\nproto\r\n:2\r\n"},
                {"HELLO 3\r\n", "%7\r\n", "$5\r\nproto\r\n:3\r\n"},
                {"HELLO\r\n", "%7\r\n", "$5\r\nproto\r\n:3\r\n"},
                {"hello 2 setname me\r\n", "*14\r\n", "$5\r\nproto\r\n:2\r\n"}};
    static const char *const fields[] = {"server", "version", "proto", "id", "mode", "role", "modules"};
    int fd = contract_open();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char got[1024];
        assert_true(raw_puts(fd, rows[i].request));
        assert_true(raw_read_until(fd, "modules\r\n*0\r\n", got, sizeof(got)));
        assert_memory_equal(got, rows[i].head, strlen(rows[i].head));
        assert_non_null(strstr(got, rows[i].proto));
        const char *at = got;
        for (size_t k = 0; k < sizeof(fields) / sizeof(fields[0]); k++) {
            at = strstr(at, fields[k]); /* in this order */
            if (at == NULL) {
                fail_msg("%s is missing in: %s", fields[k], got);
                return;
            }
        }
    }
    static const struct exchange name[] = {{"CLIENT GETNAME", "$2\r\nme"}};
    contract_run(fd, name, 1);
    raw_close(fd);
}

/* Replies to requests before HELLO keep the earlier protocol, however late they come. */
static void test_hello__does_not_change_replies_to_what_came_before(void **state)
{
    (void)state;
    contract_says("BF.RESERVE early 0.01 100\r\nBF.ADD early a\r\nBF.MEXISTS early a b\r\nHELLO 3\r\n",
                  "+OK\r\n:1\r\n*2\r\n:1\r\n:0\r\n%7\r\n");
}

static void test_password__is_asked_for(void **state)
{
    (void)state;
    static const char wrong[] = "-WRONGPASS invalid username-password pair or user is disabled.";
    const struct exchange rows[] = {
        {"BF.ADD secret a", "-NOAUTH Authentication required."},
        {"PING", "-NOAUTH Authentication required."},
        {"NOSUCH", "-NOAUTH Authentication required."},
        {"CLIENT LIST", "-NOAUTH Authentication required."},
        {"INFO", "-NOAUTH Authentication required."},
        {"AUTH wrong", wrong},
        {"AUTH default wrong", wrong},
        {"AUTH nobody s3cret", wrong},
        {"HELLO 3 AUTH default wrong", wrong},
        {"BF.EXISTS secret a", "-NOAUTH Authentication required."}, /* still in RESP2 */
        {"AUTH s3cret", "+OK"},
        {"BF.ADD secret a", ":1"},
        {"AUTH wrong", wrong},
        {"BF.ADD secret a", ":0"}, /* the client is still logged in */
        {"AUTH default s3cret", "+OK"},
        {"RESET", "+RESET"},
        {"PING", "-NOAUTH Authentication required."},
    };
    int fd = contract_open_guarded();
    contract_run(fd, rows, sizeof(rows) / sizeof(rows[0]));
    char got[512];
    assert_true(raw_puts(fd, "HELLO 3\r\n"));
    assert_true(raw_read_until(fd, "\r\n", got, sizeof(got)));
    assert_memory_equal(got, "-NOAUTH ", 8);
    assert_true(raw_puts(fd, "HELLO 3 AUTH default s3cret\r\nBF.EXISTS secret a\r\n"));
    assert_true(raw_read_until(fd, "*0\r\n#t\r\n", got, sizeof(got)));
    raw_close(fd);
}

static void test_auth__without_a_password_in_force_says_so(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"AUTH x", "-ERR AUTH <password> called without any password configured for the default user. Are "
                   "you sure your configuration is correct?"},
        {"AUTH default x", "+OK"},
        {"AUTH", ARITY("auth")},
        {"AUTH a b c", "-ERR syntax error"},
    };
    RUN(rows);
}

/* --- handshakes, as each client sends them; "fatal" ones must succeed --- */

static void test_handshake__of_redis_cli_7(void **state)
{
    (void)state;
    contract_says("\r\nECHO \"end of pipe\"\r\n",
                  "$11\r\nend of pipe\r\n"); /* as redis-cli --pipe sends it */
    contract_says("SELECT 0\r\nPING\r\n", "+OK\r\n+PONG\r\n");
    contract_says("*2\r\n$7\r\nCOMMAND\r\n$4\r\nDOCS\r\n", "*"); /* for redis-cli's hints: a map */
    contract_says("COMMAND\r\n", "*");
}

static void test_handshake__of_redis_benchmark_7(void **state)
{
    (void)state;
    contract_says(
        "*3\r\n$6\r\nCONFIG\r\n$3\r\nGET\r\n$4\r\nsave\r\n*3\r\n$6\r\nCONFIG\r\n$3\r\nGET\r\n$10\r\n"
        "appendonly\r\nPING\r\n",
        "*2\r\n$4\r\nsave\r\n$0\r\n\r\n*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n+PONG\r\n");
}

static void test_handshake__of_redis_py_5_and_jedis_5(void **state)
{
    (void)state;
    contract_says("CLIENT SETINFO LIB-NAME redis-py\r\nCLIENT SETINFO LIB-VER 5.0.1\r\n", "+OK\r\n+OK\r\n");
}

static void test_handshake__of_redis_py_8_and_jedis_8(void **state)
{
    (void)state;
    int fd = contract_open();
    static const struct exchange rows[] = {
        {"CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type internal-ip",
         "-ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP."},
        {"CLIENT SETINFO LIB-NAME redis-py(x_v1)", "+OK"},
        {"CLIENT SETINFO LIB-VER 8.0.0", "+OK"},
    };
    contract_hello3(fd);
    contract_run(fd, rows, 3);
    raw_close(fd);
}

static void test_handshake__of_go_redis_9_and_ioredis_6(void **state)
{
    (void)state;
    char got[4096];
    int fd = contract_open();
    assert_true(raw_puts(fd, "hello 3\r\nclient setinfo lib-name go-redis(,go1.22)\r\n"
                             "client setinfo LIB-VER 9.5.1\r\ninfo\r\n"));
    assert_true(raw_read_until(fd, "*0\r\n+OK\r\n+OK\r\n=", got, sizeof(got)));
    assert_true(raw_read_until(fd, "\r\nloading:0\r\n", got, sizeof(got)));
    raw_close(fd);
}

static void test_handshake__of_ioredis_5(void **state)
{
    (void)state;
    char got[4096];
    int fd = contract_open();
    assert_true(raw_puts(fd, "client setinfo LIB-NAME ioredis\r\nclient setinfo LIB-VER 5.4.1\r\ninfo\r\n"));
    assert_true(raw_expect(fd, "+OK\r\n+OK\r\n$"));
    assert_true(raw_read_until(fd, "\r\nloading:0\r\n", got, sizeof(got)));
    raw_close(fd);
}

/* The whole handshake is sent before the first reply. */
static void test_handshake__of_node_redis_6(void **state)
{
    (void)state;
    char got[4096];
    int fd = contract_open_guarded();
    assert_true(raw_puts(fd, "HELLO 3 AUTH default s3cret SETNAME app\r\nSELECT 0\r\nCLIENT SETINFO LIB-NAME "
                             "node-redis\r\nCLIENT SETINFO LIB-VER 6.0.0\r\nBF.EXISTS none a\r\n"));
    assert_true(raw_read_until(fd, "*0\r\n+OK\r\n+OK\r\n+OK\r\n#f\r\n", got, sizeof(got)));
    assert_memory_equal(got, "%7\r\n", 4);
    raw_close(fd);
}

/* --- transactions --- */

static void test_multi__runs_its_commands_in_order(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"MULTI", "+OK"},
        {"BF.RESERVE tx 0.01 2 NONSCALING", "+QUEUED"},
        {"BF.MADD tx a b c d", "+QUEUED"},
        {"BF.MADD tx a c", "+QUEUED"},
        {"BF.ADD tx a", "+QUEUED"},
        {"BF.EXISTS tx b", "+QUEUED"},
        {"BF.CARD tx", "+QUEUED"},
        {"BF.INFO tx CAPACITY", "+QUEUED"},
        {"BF.INFO nosuch", "+QUEUED"},
        {"PING", "+QUEUED"},
        {"EXEC", "*9\r\n+OK\r\n*3\r\n:1\r\n:1\r\n-ERR non scaling filter is full\r\n"
                 "*2\r\n:0\r\n-ERR non scaling filter is full\r\n:0\r\n:1\r\n:2\r\n*1\r\n:2\r\n"
                 "-ERR not found\r\n+PONG"},
        {"EXEC", "-ERR EXEC without MULTI"},
        {"MULTI", "+OK"},
        {"EXEC", "*0"},
    };
    RUN(rows);
}

/* The first add waits until the filter is made; later commands in the same bytes do not overtake it. */
static void test_adds__to_a_filter_that_is_not_there_yet_keep_their_order(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        char text[256];
        (void)snprintf(text, sizeof(text),
                       "MULTI\r\nBF.ADD txf%u a\r\nBF.ADD txf%u a\r\nBF.EXISTS txf%u a\r\nEXEC\r\n", i, i, i);
        contract_says(text, "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n:1\r\n:0\r\n:1\r\n");
        (void)snprintf(text, sizeof(text),
                       "BF.ADD pf%u a\r\nBF.MADD pf%u a b\r\nBF.ADD pf%u b\r\nBF.EXISTS pf%u b\r\n", i, i, i,
                       i);
        contract_says(text, ":1\r\n*2\r\n:0\r\n:1\r\n:0\r\n:1\r\n");
    }
}

/* As above when a filter is full: an item without room does not wait while items that fit are added. */
static void test_adds__to_a_filter_that_fills_up_keep_their_order(void **state)
{
    (void)state;
    contract_says(
        "BF.RESERVE brimming 0.01 2 NONSCALING\r\nBF.MADD brimming a b c d\r\nBF.MADD brimming a c\r\n"
        "BF.ADD brimming b\r\n",
        "+OK\r\n*3\r\n:1\r\n:1\r\n-ERR non scaling filter is full\r\n*2\r\n:0\r\n"
        "-ERR non scaling filter is full\r\n:0\r\n");
    contract_says(
        "BF.RESERVE rising 0.01 2\r\nBF.MADD rising a b c d\r\nBF.MADD rising d e\r\nBF.ADD rising e\r\n",
        "+OK\r\n*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n*2\r\n:0\r\n:1\r\n:0\r\n");
}

/* Checks and adds of the same keys in one write: a check does not find keys that are added after it. */
static void test_checks__do_not_find_what_is_added_behind_them(void **state)
{
    (void)state;
    struct buffer asked = {0}, answered = {0};
    contract_says("BF.RESERVE behind 0.0001 1000\r\nBF.ADD behind first\r\n", "+OK\r\n:1\r\n");
    for (unsigned i = 0; i < 50; i++) {
        buffer_printf(&asked, "BF.EXISTS behind k%u\r\nBF.ADD behind k%u\r\nBF.EXISTS behind k%u\r\n", i, i,
                      i);
        buffer_puts(&answered, ":0\r\n:1\r\n:1\r\n");
    }
    contract_says(buffer_text(&asked), buffer_text(&answered));
    buffer_fini(&asked);
    buffer_fini(&answered);
}

static unsigned long entries_written(struct client *redis)
{
    redisReply *r = client_command(redis, "INFO commandstats");
    const char *line = strstr(r->str, "cmdstat_xadd:calls=");
    unsigned long calls = line != NULL ? strtoul(line + strlen("cmdstat_xadd:calls="), NULL, 10) : 0;
    freeReplyObject(r);
    return calls;
}

static void test_adds__of_one_pipeline_share_entries_of_the_log(void **state)
{
    (void)state;
    enum { ADDS = 200, ENTRIES_MAX = 20 };
    struct error e = {""};
    struct client redis = {0};
    struct buffer asked = {0}, answered = {0};
    must(client_open(&redis, contract.fixture.redis[0].port, 10000, &e), e);
    contract_says("BF.RESERVE shared 0.0001 1000\r\nBF.ADD shared first\r\n", "+OK\r\n:1\r\n");
    for (unsigned i = 0; i < ADDS; i++) {
        buffer_printf(&asked, "BF.ADD shared k%u\r\nBF.ADD shared k%u\r\n", i, i);
        buffer_puts(&answered, ":1\r\n:0\r\n");
    }
    unsigned long before = entries_written(&redis);
    contract_says(buffer_text(&asked), buffer_text(&answered));
    assert_in_range(entries_written(&redis) - before, 1, ENTRIES_MAX);
    client_close(&redis);
    buffer_fini(&asked);
    buffer_fini(&answered);
}

static void test_multi__drops_everything_where_a_command_could_not_be_queued(void **state)
{
    (void)state;
    static const char abort[] = "-EXECABORT Transaction discarded because of previous errors.";
    const struct exchange rows[] = {
        {"MULTI", "+OK"},
        {"BF.ADD txa", ARITY("bf.add")},
        {"BF.ADD txa a", "+QUEUED"},
        {"EXEC", abort},
        {"BF.EXISTS txa a", ":0"},
        {"MULTI", "+OK"},
        {"NOSUCH", "-ERR unknown command 'NOSUCH', with args beginning with: "},
        {"MULTI",
         "-ERR MULTI calls can not be nested"}, /* this error neither aborts nor saves the transaction */
        {"EXEC", abort},
        {"MULTI", "+OK"},
        {"MULTI", "-ERR MULTI calls can not be nested"},
        {"PING", "+QUEUED"},
        {"EXEC", "*1\r\n+PONG"},
        {"MULTI x", ARITY("multi")},
        {"EXEC x", ARITY("exec")},
        {"MULTI", "+OK"},
        {"BF.ADD txa b", "+QUEUED"},
        {"EXEC x",
         "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command"},
        {"EXEC", "-ERR EXEC without MULTI"},
        {"BF.EXISTS txa b", ":0"},
    };
    RUN(rows);
}

static void test_discard__forgets_the_transaction(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"DISCARD", "-ERR DISCARD without MULTI"},
        {"MULTI", "+OK"},
        {"BF.ADD txd b", "+QUEUED"},
        {"NOSUCH", "-ERR unknown command 'NOSUCH', with args beginning with: "},
        {"DISCARD", "+OK"},
        {"BF.EXISTS txd b", ":0"},
        {"EXEC", "-ERR EXEC without MULTI"},
    };
    RUN(rows);
}

static void test_multi__takes_hello_as_a_command_like_others(void **state)
{
    (void)state;
    contract_says("MULTI\r\nBF.ADD txh a\r\nHELLO 3\r\nBF.EXISTS txh a\r\nPING\r\n",
                  "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n");
    char got[1024];
    int fd = contract_open();
    assert_true(raw_puts(fd, "MULTI\r\nBF.ADD txh2 a\r\nHELLO 3\r\nBF.EXISTS txh2 a\r\nEXEC\r\n"));
    assert_true(raw_expect(fd, "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n:1\r\n%7\r\n"));
    assert_true(raw_read_until(fd, "*0\r\n#t\r\n", got, sizeof(got)));
    raw_close(fd);
}

static void test_watch__is_refused_as_it_could_not_be_kept(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"WATCH k", "-ERR WATCH is not offered: filters cannot be watched for changes"},
        {"SUBSCRIBE ch", "-ERR SUBSCRIBE is not supported: there are no channels; configure the client "
                         "without subscriptions"},
        {"psubscribe *", "-ERR psubscribe is not supported: there are no channels; configure the client "
                         "without subscriptions"},
        {"CLIENT TRACKING ON",
         "-ERR CLIENT TRACKING is not supported: no invalidations are sent; turn off the client's cache "
         "(node-redis: clientSideCache and emitInvalidate; GLIDE: serverAssisted)"},
        {"CLIENT TRACKING OFF", "+OK"},
        {"CLIENT TRACKING maybe", "-ERR syntax error"},
        {"MODULE LIST",
         "*1\r\n*8\r\n$4\r\nname\r\n$2\r\nbf\r\n$3\r\nver\r\n:20600\r\n$4\r\npath\r\n$0\r\n\r\n"
         "$4\r\nargs\r\n*0"},
        {"MODULE LOAD x", "-ERR unknown subcommand 'LOAD': there is MODULE LIST"},
        {"UNWATCH", "+OK"},
        {"MULTI", "+OK"},
        {"WATCH k", "-ERR WATCH inside MULTI is not allowed"},
        {"PING", "+QUEUED"},
        {"EXEC", "*1\r\n+PONG"},
    };
    RUN(rows);
}

/* --- what is no request --- */

static void test_protocol_errors__are_answered_then_the_connection_closes(void **state)
{
    (void)state;
    enum { TOO_LONG = 64 * 1024 + 16 };
#define PROTOCOL "-ERR Protocol error: "
    contract_says_and_closes("*abc\r\n", PROTOCOL "invalid multibulk length\r\n");
    contract_says_and_closes("*99999999999\r\n", PROTOCOL "invalid multibulk length\r\n");
    contract_says_and_closes("*1 \r\n", PROTOCOL "invalid multibulk length\r\n");
    contract_says_and_closes("*1\r\n:5\r\n", PROTOCOL "expected '$', got ':'\r\n");
    contract_says_and_closes("*1\r\n\r\n", PROTOCOL "expected '$', got ' '\r\n");
    contract_says_and_closes("*1\r\n$abc\r\n", PROTOCOL "invalid bulk length\r\n");
    contract_says_and_closes("*1\r\n$-1\r\n", PROTOCOL "invalid bulk length\r\n");
    contract_says_and_closes("*1\r\n$99999999999\r\n", PROTOCOL "invalid bulk length\r\n");
    contract_says_and_closes("PING \"abc\r\n", PROTOCOL "unbalanced quotes in request\r\n");
    contract_says_and_closes("PING 'abc\r\n", PROTOCOL "unbalanced quotes in request\r\n");
    contract_says_and_closes("PING \"a\"b\r\n", PROTOCOL "unbalanced quotes in request\r\n");
    contract_says_and_closes("PING\r\n*1\r\n:5\r\nPING\r\n",
                             "+PONG\r\n" PROTOCOL "expected '$', got ':'\r\n");
    char *line = malloc(TOO_LONG + 1);
    assert_non_null(line);
    memset(line, 'x', TOO_LONG);
    line[TOO_LONG] = '\0';
    contract_says_and_closes(line, PROTOCOL "too big inline request\r\n");
    free(line);
}

static void test_requests__may_be_empty_inline_or_come_byte_by_byte(void **state)
{
    (void)state;
    contract_says("*0\r\n*-1\r\n\r\n\n\r\nPING\r\n", "+PONG\r\n");
    contract_says(" PING\ta \n", "$1\r\na\r\n");
    contract_says("ECHO \"\\x41\\n\" \r\nECHO 'a\\'b'\r\n", "$2\r\nA\n\r\n$3\r\na'b\r\n");
    static const char add[] = "*3\r\n$6\r\nBF.ADD\r\n$5\r\nbytes\r\n$4\r\na\r\nb\r\nECHO x\r\n";
    int fd = contract_open();
    for (size_t i = 0; i < sizeof(add) - 1; i++)
        assert_true(raw_send(fd, add + i, 1));
    assert_true(raw_expect(fd, ":1\r\n$1\r\nx\r\n"));
    raw_close(fd);
}

/* What a page in a browser can send to a local port: no command in its body is executed. */
static void test_http__is_closed_before_its_body_is_read(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t n = -1;
    contract_says_and_closes("POST / HTTP/1.1\r\nHost: x\r\n\r\nBF.ADD browser a\r\n", "");
    contract_says_and_closes("GET / HTTP/1.1\r\nHost: x\r\n\r\nBF.ADD browser a\r\n",
                             "-ERR unknown command 'GET', with args beginning with: '/' 'HTTP/1.1' \r\n");
    must(client_integer(&contract.fixture.client[0], &n, &e, "BF.EXISTS browser a"), e);
    assert_int_equal(n, 0);
    int fd = contract_open_guarded(); /* before a login, too */
    assert_true(raw_puts(fd, "POST / HTTP/1.1\r\nHost: x\r\n\r\nAUTH s3cret\r\n"));
    assert_true(raw_expect_close(fd));
    raw_close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_commands__answer_as_redis_does),
        cmocka_unit_test(test_quit__answers_ok_then_closes),
        cmocka_unit_test(test_hello__refuses_what_it_does_not_know),
        cmocka_unit_test(test_hello__answers_in_the_new_protocol),
        cmocka_unit_test(test_hello__does_not_change_replies_to_what_came_before),
        cmocka_unit_test(test_password__is_asked_for),
        cmocka_unit_test(test_auth__without_a_password_in_force_says_so),
        cmocka_unit_test(test_handshake__of_redis_cli_7),
        cmocka_unit_test(test_handshake__of_redis_benchmark_7),
        cmocka_unit_test(test_handshake__of_redis_py_5_and_jedis_5),
        cmocka_unit_test(test_handshake__of_redis_py_8_and_jedis_8),
        cmocka_unit_test(test_handshake__of_go_redis_9_and_ioredis_6),
        cmocka_unit_test(test_handshake__of_ioredis_5),
        cmocka_unit_test(test_handshake__of_node_redis_6),
        cmocka_unit_test(test_multi__runs_its_commands_in_order),
        cmocka_unit_test(test_adds__to_a_filter_that_is_not_there_yet_keep_their_order),
        cmocka_unit_test(test_adds__to_a_filter_that_fills_up_keep_their_order),
        cmocka_unit_test(test_checks__do_not_find_what_is_added_behind_them),
        cmocka_unit_test(test_adds__of_one_pipeline_share_entries_of_the_log),
        cmocka_unit_test(test_multi__drops_everything_where_a_command_could_not_be_queued),
        cmocka_unit_test(test_discard__forgets_the_transaction),
        cmocka_unit_test(test_multi__takes_hello_as_a_command_like_others),
        cmocka_unit_test(test_watch__is_refused_as_it_could_not_be_kept),
        cmocka_unit_test(test_protocol_errors__are_answered_then_the_connection_closes),
        cmocka_unit_test(test_requests__may_be_empty_inline_or_come_byte_by_byte),
        cmocka_unit_test(test_http__is_closed_before_its_body_is_read),
    };
    return cmocka_run_group_tests(tests, contract_setup, contract_teardown);
}
