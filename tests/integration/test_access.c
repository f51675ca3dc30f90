/* SPDX-License-Identifier: MIT */
/* Users, roles, patterns, and what is let in before a login. */
#include "tests/integration/fixture.h"

#include <limits.h>
#include <poll.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/lib/raw.h"

enum { REPLY_MS = 30000, TRIES = 20, SLOW_US = 150000 /* at least, of the password "slow" */ };

/* The passwords are the users' names. */
#define READER_HASH "$y$j75$u4DBRzkt/c9yLvd8lcV3m/$zwnOmrN9qr4LuShmqpE9dXFXwYkncYKW2j1NgyY5sl0"
#define WRITER_HASH "$y$j75$0BEseGLcp/cGX/8TXUEBD0$B/ouwYD0yqLpC5OHxOmFOjyOG9jnw7iyw30X1QSezr."
#define CHIEF_HASH "$y$j75$Ut2YzVcSvEB42z36Gz9X.1$6HMjJGfH6NrjGa6XqYopA5RoNdAGExQob2S1ZQwanW5"
#define SLOW_HASH "$y$jDT$yrwGt8EGp78HmJxUVRENw.$Ms2HyzPI6xHHhxZTr8oLuSibThdoTbaaR4deIbxNTo6"
#define TOKEN_HASH "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

#define SERVICE "threads = 1\n"
#define FILTERS "[filter alpha]\ncapacity = 1000\n[filter beta]\ncapacity = 1000\n"
#define READER "[user reader]\npassword = " READER_HASH "\nroles = read\nfilters = a*\n"
#define WRITER "[user writer]\npassword = " WRITER_HASH "\nroles = write\nfilters = a*, made-?\n"
#define CHIEF "[user chief]\npassword = " CHIEF_HASH "\nroles = admin\ntoken = sha256:" TOKEN_HASH "\n"
#define SLOW "[user slow]\npassword = " SLOW_HASH "\nroles = read\n"

#define NOAUTH "NOAUTH Authentication required."
#define WRONGPASS "WRONGPASS invalid username-password pair or user is disabled."
#define NOCOMMAND(name) "NOPERM this user has no permissions to run the '" name "' command"
#define NOKEY "NOPERM this user has no permissions to access one of the keys used as arguments"

static struct fixture fixture;

static struct daemon_options options(const char *service, const char *filters)
{
    return (struct daemon_options){.nodes = fixture.node_list, .service = service, .filters = filters};
}

static void open_client(struct client *c)
{
    struct error e = {""};
    must(client_open(c, fixture.daemon[0].port, REPLY_MS, &e), e);
}

/* The reply as text: what an error, a status or a string says, or a number. */
static void gives(struct client *c, const char *command, const char *wanted)
{
    char got[512] = "no reply";
    redisReply *r = client_command(c, command);
    if (r != NULL && r->type == REDIS_REPLY_INTEGER)
        (void)snprintf(got, sizeof(got), "%lld", r->integer);
    else if (r != NULL && r->type == REDIS_REPLY_ARRAY)
        (void)snprintf(got, sizeof(got), "array of %zu", r->elements);
    else if (r != NULL)
        (void)snprintf(got, sizeof(got), "%s", r->str != NULL ? r->str : "nil");
    freeReplyObject(r);
    if (strcmp(got, wanted) != 0)
        fail_msg("%s: %s; expected: %s", command, got, wanted);
}

/* Whatever the answer is. */
static void is_allowed(struct client *c, const char *command)
{
    redisReply *r = client_command(c, command);
    assert_non_null(r);
    if (r->type == REDIS_REPLY_ERROR && strncmp(r->str, "NOPERM", 6) == 0)
        fail_msg("%s: %s", command, r->str);
    freeReplyObject(r);
}

static void log_in(struct client *c, const char *user)
{
    char command[128];
    open_client(c);
    (void)snprintf(command, sizeof(command), "AUTH %s %s", user, user);
    gives(c, command, "OK");
}

static void wait_for_filters(void)
{
    struct error e = {""};
    must(client_wait_status(&fixture.client[0], "alpha", "state", "serving", REPLY_MS, &e), e);
    must(client_wait_status(&fixture.client[0], "beta", "state", "serving", REPLY_MS, &e), e);
}

static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    (void)fixture_start(&fixture, &(struct fixture_options){.nodes = 1});
    const struct daemon_options o = options(SERVICE, FILTERS READER WRITER CHIEF SLOW);
    must(daemon_start(&fixture.daemon[0], &o, &e), e);
    log_in(&fixture.client[0], "chief");
    wait_for_filters();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&fixture);
}

static void reload(const char *service, const char *sections)
{
    struct error e = {""};
    const struct daemon_options o = options(service, sections);
    must(daemon_rewrite(&fixture.daemon[0], &o, &e), e);
    must(daemon_reload(&fixture.daemon[0], &e), e);
}

static int restore(void **state)
{
    (void)state;
    reload(SERVICE, FILTERS READER WRITER CHIEF SLOW);
    return 0;
}

static void test_login__is_asked_of_everybody_once_there_are_users(void **state)
{
    (void)state;
    struct client c = {0};
    open_client(&c);
    gives(&c, "PING", NOAUTH);
    gives(&c, "BF.EXISTS alpha x", NOAUTH);
    gives(&c, "NOSUCH", NOAUTH);
    gives(&c, "ACL WHOAMI", NOAUTH);
    gives(
        &c, "HELLO 3",
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH "
        "<user> <pass> option can be used to authenticate the client and select the RESP protocol version at "
        "the same time");
    gives(
        &c, "AUTH reader",
        "ERR AUTH <password> called without any password configured for the default user. Are you sure your "
        "configuration is correct?");
    gives(&c, "AUTH default x", WRONGPASS);
    gives(&c, "AUTH nobody reader", WRONGPASS);
    gives(&c, "AUTH reader writer", WRONGPASS);
    gives(&c, "AUTH Reader reader", WRONGPASS);
    gives(&c, "AUTH a b c", "ERR syntax error");
    gives(&c, "PING", NOAUTH);
    gives(&c, "AUTH reader reader", "OK");
    gives(&c, "PING", "PONG");
    gives(&c, "ACL WHOAMI", "reader");
    gives(&c, "AUTH writer wrong", WRONGPASS); /* who is in stays who he is */
    gives(&c, "ACL WHOAMI", "reader");
    gives(&c, "HELLO 2 AUTH writer writer SETNAME me", "array of 14");
    gives(&c, "ACL WHOAMI", "writer");
    gives(&c, "CLIENT GETNAME", "me");
    gives(&c, "RESET", "RESET");
    gives(&c, "PING", NOAUTH);
    client_close(&c);
}

static void test_login__of_hello_answers_in_the_new_protocol(void **state)
{
    (void)state;
    char reply[512];
    int fd = raw_open(fixture.daemon[0].port);
    assert_true(raw_puts(fd, "HELLO 3 AUTH writer nonsense\r\n"));
    assert_true(raw_expect(fd, "-" WRONGPASS "\r\n"));
    assert_true(raw_puts(fd, "HELLO 3 AUTH writer writer\r\nACL WHOAMI\r\nBF.EXISTS alpha none\r\n"));
    assert_true(raw_read_until(fd, "#f\r\n", reply, sizeof(reply)));
    assert_int_equal(strncmp(reply, "%7\r\n", 4), 0);
    assert_non_null(strstr(reply, "*0\r\n$6\r\nwriter\r\n#f\r\n"));
    raw_close(fd);
}

static void test_roles__say_which_commands_may_be_run(void **state)
{
    (void)state;
    struct client reader = {0}, writer = {0}, chief = {0};
    log_in(&reader, "reader");
    log_in(&writer, "writer");
    log_in(&chief, "chief");
    static const struct {
        const char *command, *reader, *writer, *chief;
    } rows[] = {
        {"BF.ADD alpha x", NOCOMMAND("bf.add"), "1", "0"},
        {"BF.EXISTS alpha x", "1", "1", "1"},
        {"BF.CARD alpha", "1", "1", "1"},
        {"BF.MADD alpha y z", NOCOMMAND("bf.madd"), "array of 2", "array of 2"},
        {"BF.INSERT alpha ITEMS y", NOCOMMAND("bf.insert"), "array of 1", "array of 1"},
        {"BF.RESERVE made-1 0.01 10", NOCOMMAND("bf.reserve"), "OK", "ERR item exists"},
        {"TB.ABORT alpha", NOCOMMAND("tb.abort"), NOCOMMAND("tb.abort"), NULL},
        {"TB.REBUILD alpha", NOCOMMAND("tb.rebuild"), NOCOMMAND("tb.rebuild"), NULL},
        {"TB.ACCEPT alpha", NOCOMMAND("tb.accept"), NOCOMMAND("tb.accept"), "OK"},
        {"CONFIG GET save", NOCOMMAND("config|get"), NOCOMMAND("config|get"), "array of 2"},
        {"CONFIG SET log_level info", NOCOMMAND("config|set"), NOCOMMAND("config|set"), "OK"},
        {"ECHO hi", "hi", "hi", "hi"},
        {"BF.NOSUCH", "ERR unknown command 'BF.NOSUCH', with args beginning with: ",
         "ERR unknown command 'BF.NOSUCH', with args beginning with: ",
         "ERR unknown command 'BF.NOSUCH', with args beginning with: "},
        {"BF.ADD alpha", "ERR wrong number of arguments for 'bf.add' command",
         "ERR wrong number of arguments for 'bf.add' command",
         "ERR wrong number of arguments for 'bf.add' command"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        gives(&reader, rows[i].command, rows[i].reader);
        gives(&writer, rows[i].command, rows[i].writer);
        if (rows[i].chief != NULL)
            gives(&chief, rows[i].command, rows[i].chief);
        else
            is_allowed(&chief, rows[i].command);
    }
    client_close(&reader);
    client_close(&writer);
    client_close(&chief);
}

static void test_patterns__say_which_filters_may_be_used(void **state)
{
    (void)state;
    struct client reader = {0}, writer = {0};
    log_in(&reader, "reader");
    log_in(&writer, "writer");
    gives(&reader, "BF.EXISTS beta x", NOKEY);
    gives(&reader, "BF.EXISTS Alpha x", NOKEY); /* case counts */
    gives(&reader, "BF.INFO beta", NOKEY);
    gives(&reader, "BF.CARD beta", NOKEY);
    gives(&reader, "TB.STATUS beta", NOKEY);
    gives(&reader, "TB.PLAN beta", NOKEY);
    gives(&reader, "TB.HISTORY beta", NOKEY);
    gives(&reader, "BF.EXISTS alphabet x", "0");
    gives(&writer, "BF.ADD beta x", NOKEY);
    gives(&writer, "BF.ADD made-12 x", NOKEY);
    gives(&writer, "BF.ADD made-2 x", "1");
    gives(&writer, "BF.INSERT beta ITEMS alpha", NOKEY);
    client_close(&reader);
    client_close(&writer);
}

static void test_patterns__hide_other_filters_from_lists(void **state)
{
    (void)state;
    struct client reader = {0};
    log_in(&reader, "reader");
    redisReply *all = client_command(&fixture.client[0], "TB.STATUS");
    redisReply *some = client_command(&reader, "TB.STATUS");
    assert_non_null(all);
    assert_non_null(some);
    assert_int_equal(some->type, REDIS_REPLY_ARRAY);
    assert_true(all->elements >= 2);
    assert_int_equal(some->elements, 1);
    assert_string_equal(some->element[0]->element[1]->str, "alpha");
    freeReplyObject(all);
    freeReplyObject(some);
    client_close(&reader);
}

static void test_patterns__hold_for_every_name_of_a_command(void **state)
{
    (void)state;
    struct client reader = {0}, writer = {0};
    log_in(&reader, "reader");
    log_in(&writer, "writer");
    gives(&fixture.client[0], "BF.RESERVE made-3 0.01 10", "OK");
    gives(&fixture.client[0], "BF.RESERVE other 0.01 10", "OK");
    gives(&reader, "EXISTS alpha beta", NOKEY);
    gives(&reader, "EXISTS alpha", "1");
    gives(&reader, "TYPE beta", NOKEY);
    gives(&reader, "MEMORY USAGE beta", NOKEY);
    gives(&reader, "DEL alpha", NOCOMMAND("del"));
    gives(&reader, "EXPIRE alpha 100", NOCOMMAND("expire"));
    gives(&writer, "DEL made-3 other", NOKEY);
    gives(&fixture.client[0], "EXISTS made-3 other", "2"); /* none of them went */
    gives(&writer, "EXPIRE other 100", NOKEY);
    gives(&writer, "BF.SCANDUMP made-3 0", NOCOMMAND("bf.scandump"));
    gives(&writer, "BF.LOADCHUNK other 1 x", NOKEY);
    gives(&writer, "TB.MADD other x", NOKEY);
    gives(&writer, "TB.INIT other 0.01 10", NOKEY);
    gives(&reader, "CLIENT LIST", NOCOMMAND("client|list"));
    gives(&reader, "CLIENT KILL ID 1", NOCOMMAND("client|kill"));
    gives(&reader, "KEYS *", "array of 1");
    gives(&reader, "DBSIZE", "1");
    gives(&reader, "RANDOMKEY", "alpha");
    redisReply *r = client_command(&reader, "SCAN 0 COUNT 1000");
    assert_non_null(r);
    assert_int_equal(r->element[1]->elements, 1);
    assert_string_equal(r->element[1]->element[0]->str, "alpha");
    freeReplyObject(r);
    gives(&writer, "DEL made-3", "1");
    gives(&fixture.client[0], "DEL other", "1");
    client_close(&reader);
    client_close(&writer);
}

/* A login within a transaction counts for what comes after it. */
static void test_transactions__may_change_who_one_is(void **state)
{
    (void)state;
    struct client c = {0};
    log_in(&c, "reader");
    gives(&c, "MULTI", "OK");
    gives(&c, "AUTH writer writer", "QUEUED");
    gives(&c, "ACL WHOAMI", "QUEUED");
    redisReply *r = client_command(&c, "EXEC");
    assert_non_null(r);
    assert_int_equal(r->elements, 2);
    assert_string_equal(r->element[0]->str, "OK");
    assert_string_equal(r->element[1]->str, "writer");
    freeReplyObject(r);
    client_close(&c);
}

static void test_transactions__are_refused_whole_where_one_command_may_not_be_run(void **state)
{
    (void)state;
    struct client reader = {0};
    log_in(&reader, "reader");
    gives(&reader, "MULTI", "OK");
    gives(&reader, "BF.EXISTS alpha x", "QUEUED");
    gives(&reader, "BF.ADD alpha x", NOCOMMAND("bf.add"));
    gives(&reader, "EXEC", "EXECABORT Transaction discarded because of previous errors.");
    gives(&reader, "MULTI", "OK");
    gives(&reader, "BF.EXISTS beta x", NOKEY);
    gives(&reader, "EXEC", "EXECABORT Transaction discarded because of previous errors.");
    client_close(&reader);
}

static void test_reload__changes_rights_at_once(void **state)
{
    (void)state;
    struct client writer = {0}, reader = {0};
    log_in(&writer, "writer");
    log_in(&reader, "reader");
    gives(&writer, "BF.ADD alpha k1", "1");
    gives(&writer, "MULTI", "OK");
    gives(&writer, "BF.ADD alpha k2", "QUEUED");
    gives(&writer, "BF.EXISTS alpha k2", "QUEUED");
    reload(SERVICE, FILTERS "[user writer]\npassword = " WRITER_HASH "\nfilters = a*\n" CHIEF SLOW);
    redisReply *r = client_command(&writer, "EXEC");
    assert_non_null(r);
    assert_int_equal(r->type, REDIS_REPLY_ARRAY);
    assert_int_equal(r->elements, 2);
    assert_string_equal(r->element[0]->str, NOCOMMAND("bf.add"));
    assert_int_equal(r->element[1]->integer, 0);
    freeReplyObject(r);
    gives(&writer, "BF.ADD alpha k3", NOCOMMAND("bf.add"));
    gives(&reader, "BF.EXISTS alpha k1", NOAUTH); /* there is no such user any more */
    gives(&reader, "AUTH reader reader", WRONGPASS);
    reload(SERVICE, FILTERS READER "[user writer]\npassword = " WRITER_HASH
                                   "\nroles = write\nenabled = no\n" CHIEF SLOW);
    gives(&writer, "BF.EXISTS alpha k1", NOAUTH);
    gives(&writer, "AUTH writer writer", WRONGPASS);
    gives(&reader, "BF.EXISTS alpha k1", "1"); /* is back */
    client_close(&writer);
    client_close(&reader);
}

static void test_reload__a_removed_user_cannot_run_what_it_has_queued(void **state)
{
    (void)state;
    struct client writer = {0};
    log_in(&writer, "writer");
    gives(&writer, "MULTI", "OK");
    gives(&writer, "BF.ADD alpha queued", "QUEUED");
    reload(SERVICE, FILTERS READER CHIEF SLOW);
    gives(&writer, "EXEC", NOAUTH);
    gives(&writer, "AUTH reader reader", "QUEUED"); /* as in Redis */
    gives(&writer, "EXEC", NOAUTH);
    gives(&writer, "RESET", "RESET");
    gives(&writer, "AUTH reader reader", "OK");
    gives(&writer, "BF.EXISTS alpha queued", "0");
    client_close(&writer);
}

static void test_reload__the_first_user_ends_the_free_entry(void **state)
{
    (void)state;
    struct client c = {0};
    reload(SERVICE, FILTERS);
    open_client(&c);
    gives(&c, "PING", "PONG");
    gives(&c, "ACL WHOAMI", "default");
    gives(&c, "AUTH default anything", "OK");
    gives(&c, "AUTH reader reader", WRONGPASS);
    reload(SERVICE, FILTERS READER);
    gives(&c, "PING", NOAUTH);
    gives(&c, "AUTH reader reader", "OK");
    reload(SERVICE "password = " CHIEF_HASH "\n", FILTERS READER);
    gives(&c, "AUTH reader", WRONGPASS);
    gives(&c, "AUTH chief", "OK"); /* the default user's, as a hash */
    gives(&c, "CONFIG GET save", "array of 2");
    client_close(&c);
}

/* CONFIG SET is a reload too. */
static void test_config_set__changes_users(void **state)
{
    (void)state;
    struct client writer = {0};
    struct error e = {""};
    log_in(&writer, "writer");
    must(client_ok(&fixture.client[0], &e, "CONFIG SET user.writer.roles read"), e);
    gives(&writer, "BF.ADD alpha k", NOCOMMAND("bf.add"));
    gives(
        &fixture.client[0], "CONFIG SET user.writer.password hunter2",
        "ERR CONFIG SET failed (possibly related to argument 'user.writer.password') - 'password' of a user "
        "must be a hash, not the password itself; make one by: twinbloom passwd");
    must(client_ok(&fixture.client[0], &e, "CONFIG SET user.writer.password %s", READER_HASH), e);
    gives(&writer, "AUTH writer writer", WRONGPASS); /* it was remembered as right */
    gives(&writer, "AUTH writer reader", "OK");
    client_close(&writer);
}

/* Whether something has come to @fd, or its end. */
static bool has_come(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) != 0;
}

/* Sends a slow AUTH and PINGs by another client until its answer has come: how many had theirs before. */
static unsigned pings_beside(int fd, struct client *other, const char *request, uint64_t *longest)
{
    unsigned answered = 0;
    *longest = 0;
    assert_true(raw_puts(fd, request));
    for (;;) { /* both are with the one worker */
        uint64_t asked = clock_mono_us();
        gives(other, "PING", "PONG");
        uint64_t took = clock_mono_us() - asked;
        if (has_come(fd))
            return answered;
        answered++;
        *longest = took > *longest ? took : *longest;
    }
}

/* A busy machine may hold up anybody, but not each time. */
static void test_slow_password__stalls_nobody_else(void **state)
{
    (void)state;
    struct client other = {0};
    uint64_t longest, took;
    unsigned tries = 0;
    log_in(&other, "chief");
    int fd = raw_open(fixture.daemon[0].port);
    uint64_t began = clock_mono_us();
    assert_in_range(pings_beside(fd, &other, "AUTH slow slow\r\nPING\r\nACL WHOAMI\r\n", &longest), 5,
                    UINT_MAX);
    assert_true(clock_mono_us() - began >= SLOW_US);
    assert_true(raw_expect(fd, "+OK\r\n+PONG\r\n$4\r\nslow\r\n"));
    while (longest >= SLOW_US / 2 && ++tries < TRIES) {
        assert_in_range(pings_beside(fd, &other, "AUTH slow wrong\r\n", &longest), 5, UINT_MAX);
        assert_true(raw_expect(fd, "-" WRONGPASS "\r\n"));
    }
    assert_true(longest < SLOW_US / 2);
    tries = 0;
    do {
        began = clock_mono_us();
        assert_true(raw_puts(fd, "AUTH slow slow\r\n")); /* is remembered */
        assert_true(raw_expect(fd, "+OK\r\n"));
        took = clock_mono_us() - began;
    } while (took >= SLOW_US / 2 && ++tries < TRIES);
    assert_true(took < SLOW_US / 2);
    raw_close(fd);
    client_close(&other);
}

static void test_slow_password__its_client_may_go_away(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        int fd = raw_open(fixture.daemon[0].port);
        assert_true(raw_puts(fd, "AUTH slow wrong\r\n"));
        clock_sleep_us(20000);
        raw_close(fd);
    }
    gives(&fixture.client[0], "PING", "PONG");
}

/* What was right when it was asked is not what is in force when the answer is known. */
static void test_slow_password__that_changes_meanwhile_is_refused(void **state)
{
    (void)state;
    enum { BEFORE = 24 }; /* seconds of work for the one thread that verifies */
    int fds[BEFORE + 1];
    reload(SERVICE, FILTERS READER WRITER CHIEF SLOW "# nothing is remembered\n");
    for (int i = 0; i <= BEFORE; i++) {
        fds[i] = raw_open(fixture.daemon[0].port);
        assert_true(raw_puts(fds[i], i < BEFORE ? "AUTH slow wrong\r\n" : "AUTH slow slow\r\n"));
        clock_sleep_us(i < BEFORE ? 0 : SLOW_US);
    }
    reload(SERVICE, FILTERS CHIEF "[user slow]\npassword = " READER_HASH "\nroles = read\n");
    assert_true(raw_expect(fds[BEFORE], "-" WRONGPASS "\r\n"));
    assert_true(raw_puts(fds[BEFORE], "BF.EXISTS alpha x\r\nAUTH slow reader\r\n"));
    assert_true(raw_expect(fds[BEFORE], "-" NOAUTH "\r\n+OK\r\n"));
    for (int i = 0; i <= BEFORE; i++)
        raw_close(fds[i]);
}

static void test_slow_password__does_not_hold_up_the_end(void **state)
{
    (void)state;
    struct error e = {""};
    int fds[8];
    for (int i = 0; i < 8; i++) {
        fds[i] = raw_open(fixture.daemon[0].port);
        assert_true(raw_puts(fds[i], "AUTH slow wrong\r\n"));
    }
    clock_sleep_us(50000);
    assert_true(daemon_stop(&fixture.daemon[0], 20000));
    for (int i = 0; i < 8; i++)
        raw_close(fds[i]);
    must(daemon_launch(&fixture.daemon[0], &e), e);
    client_close(&fixture.client[0]);
    log_in(&fixture.client[0], "chief");
}

static void answers_and_closes(const char *bytes, const char *answer)
{
    int fd = raw_open(fixture.daemon[0].port);
    assert_true(raw_puts(fd, bytes));
    assert_true(raw_expect(fd, answer));
    assert_true(raw_expect_close(fd));
    raw_close(fd);
}

static void test_stranger__may_send_little(void **state)
{
    (void)state;
    answers_and_closes("*11\r\n", "-ERR Protocol error: unauthenticated multibulk length\r\n");
    answers_and_closes("*2\r\n$16385\r\n", "-ERR Protocol error: unauthenticated bulk length\r\n");
    answers_and_closes("*1048577\r\n", "-ERR Protocol error: invalid multibulk length\r\n");
    int fd = raw_open(fixture.daemon[0].port);
    assert_true(
        raw_puts(fd, "*3\r\n$4\r\nAUTH\r\n$6\r\nreader\r\n$6\r\nreader\r\n*12\r\n$10\r\nBF.MEXISTS\r\n$5\r\n"
                     "alpha\r\n"));
    for (int i = 0; i < 10; i++)
        assert_true(raw_puts(fd, "$4\r\nnone\r\n"));
    assert_true(raw_expect(fd, "+OK\r\n*10\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n:0\r\n"));
    raw_close(fd);
}

static void until_cut(struct client *c)
{
    redisReply *r;
    for (uint64_t until = clock_mono_us() + REPLY_MS * 1000ull; (r = client_command(c, "PING")) != NULL;) {
        assert_string_equal(r->str, NOAUTH);
        freeReplyObject(r);
        assert_true(clock_mono_us() < until);
        clock_sleep_us(100000);
    }
}

static void test_stranger__is_cut_after_a_while(void **state)
{
    (void)state;
    struct client reader = {0};
    reload(SERVICE "login_timeout = 500ms\n", FILTERS READER CHIEF);
    log_in(&reader, "reader");
    int fd = raw_open(fixture.daemon[0].port);
    uint64_t began = clock_mono_us();
    assert_true(raw_puts(fd, "PING\r\n"));
    assert_true(raw_expect(fd, "-" NOAUTH "\r\n"));
    assert_true(raw_expect_close(fd));
    uint64_t took = clock_mono_us() - began;
    assert_true(took >= 400000);
    raw_close(fd);
    gives(&reader, "PING", "PONG");
    reload(SERVICE "login_timeout = 500ms\n", FILTERS CHIEF);
    until_cut(&reader); /* it is a stranger now */
    client_close(&reader);
    reload(SERVICE "login_timeout = 500ms\n", FILTERS); /* nobody has to log in */
    open_client(&reader);
    clock_sleep_us(2000000);
    gives(&reader, "PING", "PONG");
    client_close(&reader);
}

/* The status of an HTTP request; 0: none came. */
static int http_status(const char *method, const char *path, const char *authorization, char *answer,
                       size_t size)
{
    char request[1024], *body = "";
    int status = 0, fd = raw_open(fixture.daemon[0].http_port);
    if (strcmp(method, "POST") == 0)
        body = strstr(path, "/accept") != NULL ? "{}" : "{\"keys\":[\"k\"]}";
    (void)snprintf(request, sizeof(request),
                   "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
                   "Content-Length: %zu\r\n%s%s%s\r\n%s",
                   method, path, strlen(body), *authorization != '\0' ? "Authorization: " : "", authorization,
                   *authorization != '\0' ? "\r\n" : "", body);
    assert_true(raw_puts(fd, request));
    assert_true(raw_read_all(fd, answer, size));
    if (strncmp(answer, "HTTP/1.1 ", 9) == 0)
        status = (int)strtol(answer + 9, NULL, 10);
    raw_close(fd);
    return status;
}

static void test_http__knows_users_tokens_roles_and_patterns(void **state)
{
    (void)state;
#define BASIC_READER "Basic cmVhZGVyOnJlYWRlcg=="
#define BASIC_WRITER "Basic d3JpdGVyOndyaXRlcg=="
    static const struct {
        const char *method, *path, *authorization;
        int status;
    } rows[] = {
        {"GET", "/livez", "", 200},
        {"GET", "/v1/filters", "", 401},
        {"GET", "/v1/filters", "Bearer nonsense", 401},
        {"GET", "/v1/filters", "Basic cmVhZGVyOndyb25n", 401},     /* reader:wrong */
        {"GET", "/v1/filters", "Basic bm9ib2R5OnJlYWRlcg==", 401}, /* nobody:reader */
        {"GET", "/v1/filters", "Basic cmVhZGVy", 401},             /* no colon */
        {"GET", "/v1/filters", "Basic ZGVmYXVsdDo=", 401},         /* default: */
        {"GET", "/v1/filters/alpha", BASIC_READER, 200},
        {"GET", "/v1/filters/beta", BASIC_READER, 403},
        {"POST", "/v1/filters/alpha/check", BASIC_READER, 200},
        {"POST", "/v1/filters/alpha/add", BASIC_READER, 403},
        {"POST", "/v1/filters/alpha/add", BASIC_WRITER, 200},
        {"POST", "/v1/filters/beta/add", BASIC_WRITER, 403},
        {"POST", "/v1/filters/beta/add", "Bearer abc", 200}, /* the chief's */
        {"GET", "/v1/filters", "bearer abc", 200},
        {"POST", "/v1/filters/alpha/accept", BASIC_WRITER, 403},
        {"POST", "/v1/filters/alpha/accept", "Bearer abc", 202},
    };
    char answer[16384];
    for (int again = 0; again < 2; again++) /* what was verified is remembered */
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            int status =
                http_status(rows[i].method, rows[i].path, rows[i].authorization, answer, sizeof(answer));
            if (status != rows[i].status)
                fail_msg("%s %s %s: %.400s", rows[i].method, rows[i].path, rows[i].authorization, answer);
        }
    assert_int_equal(http_status("GET", "/v1/filters", BASIC_READER, answer, sizeof(answer)), 200);
    assert_non_null(strstr(answer, "alpha"));
    assert_null(strstr(answer, "beta"));
    reload(SERVICE, FILTERS WRITER CHIEF);
    assert_int_equal(http_status("GET", "/v1/filters", BASIC_READER, answer, sizeof(answer)), 401);
    reload(SERVICE, FILTERS);
    assert_int_equal(http_status("GET", "/v1/filters", "", answer, sizeof(answer)), 200);
}

static void test_http__a_slow_password_stalls_nobody(void **state)
{
    (void)state;
    static const char slow[] =
        "GET /v1/filters HTTP/1.1\r\nHost: x\r\nAuthorization: Basic c2xvdzpzbG93\r\n\r\n";
    static const char wrong[] =
        "GET /v1/filters HTTP/1.1\r\nHost: x\r\nAuthorization: Basic c2xvdzp3cm9uZw==\r\n\r\n";
    enum { GONE = 8 }; /* whose passwords are verified before */
    char answer[16384];
    int fd, gone[GONE];
    for (int i = 0; i < GONE; i++) {
        gone[i] = raw_open(fixture.daemon[0].http_port);
        assert_true(raw_puts(gone[i], wrong));
    }
    clock_sleep_us(20000);
    fd = raw_open(fixture.daemon[0].http_port);
    assert_true(raw_puts(fd, slow));
    for (int i = 0; i < GONE; i++)
        raw_close(gone[i]);
    assert_int_equal(http_status("GET", "/v1/filters/alpha", "Bearer abc", answer, sizeof(answer)), 200);
    assert_false(has_come(fd)); /* it was faster */
    assert_true(raw_read_until(fd, "\r\n", answer, sizeof(answer)));
    assert_string_equal(answer, "HTTP/1.1 200 OK\r\n");
    raw_close(fd);
}

static void holds_no_secret(const char *where, const char *text)
{
    static const char *const secrets[] = {READER_HASH, WRITER_HASH, CHIEF_HASH, TOKEN_HASH,
                                          "hunter2",   "hunter3",   "hunter4"};
    for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++)
        if (strstr(text, secrets[i]) != NULL)
            fail_msg("%s shows %s", where, secrets[i]);
}

static void reply_holds_no_secret(const redisReply *r, const char *where)
{
    if (r->str != NULL)
        holds_no_secret(where, r->str);
    for (size_t i = 0; i < r->elements; i++)
        reply_holds_no_secret(r->element[i], where);
}

static void test_secrets__are_shown_nowhere(void **state)
{
    (void)state;
    static const char *const commands[] = {"CONFIG GET *", "INFO", "INFO everything", "CLIENT INFO",
                                           "TB.STATUS"};
    struct error e = {""};
    struct client c = {0};
    char *output = NULL;
    int status = -1;
    reload(SERVICE "password = hunter2\nlog_level = debug\n", FILTERS READER WRITER CHIEF);
    open_client(&c);
    gives(&c, "AUTH hunter3", WRONGPASS);
    gives(&c, "AUTH hunter4 hunter3", WRONGPASS); /* a password in the wrong place */
    gives(&c, "HELLO 3 AUTH reader hunter3", WRONGPASS);
    gives(&c, "AUTH hunter2", "OK");
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        redisReply *r = client_command(&c, commands[i]);
        assert_non_null(r);
        reply_holds_no_secret(r, commands[i]);
        freeReplyObject(r);
    }
    gives(
        &c, "CONFIG SET user.reader.password hunter3",
        "ERR CONFIG SET failed (possibly related to argument 'user.reader.password') - 'password' of a user "
        "must be a hash, not the password itself; make one by: twinbloom passwd");
    const struct daemon_options bad = options(SERVICE, FILTERS "[user x]\npassword = hunter4\n");
    must(daemon_rewrite(&fixture.daemon[0], &bad, &e), e);
    assert_int_equal(daemon_reload(&fixture.daemon[0], &e), ERR_CONFIG);
    must(daemon_run(&fixture.daemon[0], "--print-config", &output, &status, &e), e);
    assert_int_equal(status, 2);
    holds_no_secret("--print-config of a faulty file", output);
    free(output);
    reload(SERVICE "password = hunter2\n", FILTERS READER WRITER CHIEF);
    must(daemon_run(&fixture.daemon[0], "--print-config", &output, &status, &e), e);
    assert_int_equal(status, 0);
    holds_no_secret("--print-config", output);
    assert_non_null(strstr(output, "[user reader]"));
    free(output);
    output = process_log(&fixture.daemon[0].process);
    assert_non_null(strstr(output, "event=login_refused"));
    assert_non_null(strstr(output, "event=reload_refused"));
    holds_no_secret("the log", output);
    free(output);
    client_close(&c);
}

/* The output of a shell script, without its last line's end. The caller frees it. */
static char *output_of(const char *script, int wanted)
{
    struct error e = {""};
    char *output = NULL;
    int status = -1;
    const char *const argv[] = {"sh", "-c", script, NULL};
    must(process_run(argv, 20000, &output, &status, &e), e);
    if (status != wanted)
        fail_msg("%s: status %d: %s", script, status, output);
    output[strcspn(output, "\n")] = '\0';
    return output;
}

static void test_passwd__makes_what_the_configuration_takes(void **state)
{
    (void)state;
    char sections[1024], bearer[128] = "Bearer ", answer[16384];
    struct client c = {0};
    char *hash = output_of("printf 'a \\303\\244 b\\nnext line\\n' | " TWINBLOOM_CLI " passwd", 0);
    char *other = output_of("printf 'a \\303\\244 b' | " TWINBLOOM_CLI " passwd", 0);
    char *token = output_of(TWINBLOOM_CLI " passwd --token --json", 0);
    assert_int_equal(strncmp(hash, "$y$", 3), 0);
    assert_string_not_equal(hash, other); /* salted */
    assert_int_equal(strlen(token), strlen("{\"bearer\":\"\",\"token\":\"sha256:\"}") + 64 + 64);
    memcpy(bearer + 7, token + strlen("{\"bearer\":\""), 64);
    (void)snprintf(sections, sizeof(sections), FILTERS "[user made]\npassword = %s\ntoken = %.71s\n", hash,
                   strstr(token, "sha256:"));
    reload(SERVICE, sections);
    open_client(&c);
    gives(&c, "AUTH made a", WRONGPASS);
    redisReply *r = client_argv(&c, 3, (const char *const[]){"AUTH", "made", "a \303\244 b"}, NULL);
    assert_non_null(r);
    assert_string_equal(r->str, "OK");
    freeReplyObject(r);
    assert_int_equal(http_status("GET", "/v1/filters", bearer, answer, sizeof(answer)), 200);
    client_close(&c);
    free(hash);
    free(other);
    free(token);
    free(output_of(TWINBLOOM_CLI " passwd </dev/null 2>&1", 2));
    free(output_of("echo | " TWINBLOOM_CLI " passwd 2>&1", 2));
    free(output_of("head -c 512 /dev/zero | tr '\\0' x | " TWINBLOOM_CLI " passwd 2>&1", 2));
    free(output_of("printf 'a\\000b' | " TWINBLOOM_CLI " passwd 2>&1", 2));
}

/* Read from a terminal until @part has come; without one, to the end. */
static void read_terminal(int fd, char *out, size_t size, const char *part)
{
    size_t n = strlen(out);
    while (n + 1 < size && (part == NULL || strstr(out, part) == NULL)) {
        ssize_t got = read(fd, out + n, size - 1 - n);
        if (got <= 0)
            break; /* EIO: nobody has it open any more */
        n += (size_t)got;
        out[n] = '\0';
    }
    if (part != NULL)
        assert_non_null(strstr(out, part));
}

/* At a terminal: asked twice, and never shown. What is typed before the question is thrown away. */
static void test_passwd__shows_nothing_at_a_terminal(void **state)
{
    (void)state;
    static const char typed[] = "hunter2\n";
    char output[4096] = "";
    int fd = -1, status = -1;
    pid_t pid = forkpty(&fd, NULL, NULL, NULL);
    if (pid == 0) {
        (void)execl(TWINBLOOM_CLI, TWINBLOOM_CLI, "passwd", (char *)NULL);
        _exit(127);
    }
    assert_true(pid > 0);
    read_terminal(fd, output, sizeof(output), "Password: ");
    assert_int_equal(write(fd, typed, strlen(typed)), strlen(typed));
    read_terminal(fd, output, sizeof(output), "Again: ");
    assert_int_equal(write(fd, typed, strlen(typed)), strlen(typed));
    read_terminal(fd, output, sizeof(output), NULL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    (void)close(fd);
    assert_non_null(strstr(output, "$y$"));
    assert_null(strstr(output, "hunter2"));
}

static void test_start__is_refused_where_strangers_could_come_in(void **state)
{
    (void)state;
    struct daemon d;
    struct error e = {""};
    char *output = NULL;
    int status = -1;
    const struct daemon_options o = options("listen_tls = 0.0.0.0:1\ntls_cert = x\ntls_key = y\n", "");
    must(daemon_prepare(&d, &o, &e), e);
    const char *const argv[] = {"sh", "-c", "\"$0\" -c \"$1\"", TWINBLOOMD, d.config, NULL};
    must(process_run(argv, 20000, &output, &status, &e), e);
    assert_int_equal(status, 2);
    assert_non_null(strstr(output,
                           "'listen_tls' = 0.0.0.0:1 is open to other machines, and nobody would have to "
                           "log in; set a 'password', add a [user NAME], listen on 127.0.0.1, or say "
                           "insecure = yes"));
    free(output);
    (void)daemon_fini(&d);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, restore)
    const struct CMUnitTest tests[] = {
        TEST(test_login__is_asked_of_everybody_once_there_are_users),
        TEST(test_login__of_hello_answers_in_the_new_protocol),
        TEST(test_roles__say_which_commands_may_be_run),
        TEST(test_patterns__say_which_filters_may_be_used),
        TEST(test_patterns__hide_other_filters_from_lists),
        TEST(test_patterns__hold_for_every_name_of_a_command),
        TEST(test_transactions__may_change_who_one_is),
        TEST(test_transactions__are_refused_whole_where_one_command_may_not_be_run),
        TEST(test_reload__changes_rights_at_once),
        TEST(test_reload__a_removed_user_cannot_run_what_it_has_queued),
        TEST(test_reload__the_first_user_ends_the_free_entry),
        TEST(test_config_set__changes_users),
        TEST(test_slow_password__stalls_nobody_else),
        TEST(test_slow_password__its_client_may_go_away),
        TEST(test_slow_password__that_changes_meanwhile_is_refused),
        TEST(test_slow_password__does_not_hold_up_the_end),
        TEST(test_stranger__may_send_little),
        TEST(test_stranger__is_cut_after_a_while),
        TEST(test_http__knows_users_tokens_roles_and_patterns),
        TEST(test_http__a_slow_password_stalls_nobody),
        TEST(test_secrets__are_shown_nowhere),
        TEST(test_passwd__makes_what_the_configuration_takes),
        TEST(test_passwd__shows_nothing_at_a_terminal),
        TEST(test_start__is_refused_where_strangers_could_come_in),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
