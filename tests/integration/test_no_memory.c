/* SPDX-License-Identifier: MIT */
/* The n-th allocation of a thread that serves clients fails, for every n until a run meets no fault. Each
 * reply is right, an error, or the connection closes, and the coordinator serves on. */
#include "tests/integration/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/lib/allocations.h"
#include "tests/lib/http.h"
#include "tests/lib/raw.h"

enum {
    FAULTS_LEAST = 10, /* with fewer, no fault is injected */
    FAULTS_MAX = 3000, /* with more, the test does not end */
    KEYS = 300,        /* in a batch; every second one is in the filter */
    COLD = 400,        /* filters that the starved coordinator has not loaded */
    TEXT_MAX = 64 * 1024
};

static struct temp_redis redis[2];
static struct daemon plain, starved;
static struct client maker, asker; /* of plain and of starved */
static struct allocations *fault;
static char path[PATH_MAX + 16];
static char sent[TEXT_MAX], got[TEXT_MAX];
/* The second reply that is allowed for an absent key. It is ":1" while the connection to the metadata node is
 * new: the coordinator has not loaded the view over that connection yet. */
static const char *or_absent = ":0";

static void add_keys(void)
{
    struct error e = {""};
    must(client_ok(&maker, &e, "BF.RESERVE f 0.000001 20000"), e);
    must(client_madd(&maker, "f", fixture_code, 0, KEYS, &e), e);
    for (unsigned i = 0; i < COLD; i++)
        must(client_ok(&maker, &e, "BF.RESERVE cold%u 0.000001 100", i), e);
}

static void map_fault(void)
{
    (void)snprintf(path, sizeof(path), "%s/allocations", starved.directory);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, sizeof(*fault)), 0);
    fault = mmap(NULL, sizeof(*fault), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(fault != MAP_FAILED);
    (void)close(fd);
}

static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    char nodes[160];
    static char file[PATH_MAX + 64];
    static const char *wrapper[] = {"env", file, NULL};
    must(temp_redis_start(&redis[0], NULL, &e), e);
    must(temp_redis_start(&redis[1], NULL, &e), e);
    (void)snprintf(nodes, sizeof(nodes), "%s, %s", redis[0].url, redis[1].url);
    const struct daemon_options o = {
        .nodes = nodes, .service = "threads = 1\nlog_level = error\n", .redis = "shard_bytes = 16384\n"};
    must(daemon_start(&plain, &o, &e), e);
    must(client_open(&maker, plain.port, 20000, &e), e);
    add_keys();
    must(daemon_prepare(&starved, &o, &e), e);
    map_fault();
    (void)snprintf(file, sizeof(file), ALLOCATIONS_FILE "=%s", path);
    starved.program = TWINBLOOMD_STARVED;
    starved.wrapper = wrapper;
    must(daemon_launch(&starved, &e), e);
    must(client_open(&asker, starved.port, 20000, &e), e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    client_close(&maker);
    client_close(&asker);
    bool clean = daemon_fini(&plain);
    clean &= daemon_fini(&starved);
    temp_redis_fini(&redis[0]);
    temp_redis_fini(&redis[1]);
    if (fault != NULL)
        (void)munmap(fault, sizeof(*fault));
    return clean ? 0 : -1;
}

/* --- faults --- */

static void arm(const char *thread, unsigned n)
{
    atomic_store(&fault->failed, 0);
    (void)snprintf(fault->thread, sizeof(fault->thread), "%s", thread);
    atomic_store(&fault->countdown, n);
}

/* True if an allocation has failed. */
static bool disarm(void)
{
    atomic_store(&fault->countdown, 0);
    return atomic_load(&fault->failed) != 0;
}

/* The coordinator serves again within five seconds, whatever the failure has cost. */
static void serves_on(unsigned n)
{
    uint64_t until = clock_mono_us() + 5000 * UINT64_C(1000);
    int64_t there = -1, absent = -1, added = -1;
    struct error e = {""};
    do {
        if (asker.redis == NULL)
            (void)!client_open(&asker, starved.port, 20000, &e);
        if (client_integer(&asker, &there, &e, "BF.EXISTS f c0") == ERR_IO ||
            client_integer(&asker, &absent, &e, "BF.EXISTS f never") == ERR_IO ||
            client_integer(&asker, &added, &e, "BF.ADD f after%u", n) == ERR_IO)
            client_close(&asker);
    } while ((there != 1 || absent != 0 || added < 0) && clock_mono_us() < until);
    if (there != 1 || absent != 0 || added < 0)
        fail_msg("after allocation %u has failed it does not serve: %s", n, e.text);
}

/* --- RESP --- */

/* The expected kind of each reply. An error is allowed in place of every reply. */
enum expected { OK, PONG, TOKEN, ABSENT, PRESENT, ADDED, NUMBER, BATCH, QUEUED, TRANSACTION };

struct step {
    enum expected expected;
    const char *command;
};

/* A command that a worker starts together with those of its kind beside it, as all have the same filter. */
#define EXISTS(length, key) "*3\r\n$9\r\nBF.EXISTS\r\n$1\r\nf\r\n$" #length "\r\n" key

/* %u: the number of the run. */
static const struct step steps[] = {
    {PONG, "PING"},
    {ADDED, "BF.ADD f add%u"},
    {PRESENT, "BF.EXISTS f c0"},
    {TOKEN, "ECHO token"},
    {ABSENT, "BF.EXISTS f never"},
    {PRESENT, "BF.EXISTS f c1"},
    {ABSENT, "BF.EXISTS cold%u never"},
    {BATCH, "BF.MEXISTS f"},
    {TOKEN, "ECHO token"},
    {PRESENT, EXISTS(2, "c6")},
    {ABSENT, EXISTS(5, "never")},
    {PRESENT, EXISTS(2, "c7")},
    {ABSENT, EXISTS(5, "never")},
    {PRESENT, "BF.EXISTS f c2"},
    {ABSENT, "BF.EXISTS f never"},
    {NUMBER, "BF.CARD f"},
    {PRESENT, "BF.EXISTS f c3"},
    {OK, "MULTI"},
    {QUEUED, "BF.EXISTS f c4"},
    {QUEUED, "BF.EXISTS f never"},
    {TRANSACTION, "EXEC"},
    {ABSENT, "BF.EXISTS f never"},
    {PRESENT, "BF.EXISTS f c5"},
    {OK, "QUIT"},
};

static void write_commands(unsigned n)
{
    size_t at = 0;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        at += (size_t)snprintf(sent + at, sizeof(sent) - at, steps[i].command, n);
        for (unsigned k = 0; steps[i].expected == BATCH && k < KEYS; k++)
            at += (size_t)snprintf(sent + at, sizeof(sent) - at, k % 2 == 0 ? " c%u" : " never%u", k);
        at += (size_t)snprintf(sent + at, sizeof(sent) - at, "\r\n");
    }
}

/* Return the next line of the replies, ended by NUL. NULL: the connection was closed before its end. */
static const char *next_line(char **at)
{
    char *line = *at, *end = strstr(line, "\r\n");
    if (end == NULL)
        return NULL;
    *end = '\0';
    *at = end + 2;
    return line;
}

static void is_one_of(const char *line, const char *a, const char *b, unsigned n)
{
    if (line[0] != '-' && strcmp(line, a) != 0 && strcmp(line, b) != 0)
        fail_msg("allocation %u has failed: %s is neither %s nor %s", n, line, a, b);
}

/* Every second key is absent. */
static void check_array(char **at, const char *line, unsigned count, unsigned n)
{
    char header[16];
    (void)snprintf(header, sizeof(header), "*%u", count);
    is_one_of(line, header, header, n);
    for (unsigned i = 0; line[0] == '*' && i < count; i++) {
        const char *element = next_line(at);
        if (element == NULL)
            return;
        is_one_of(element, i % 2 == 0 ? ":1" : ":0", i % 2 == 0 ? ":1" : or_absent, n);
    }
}

/* False: no more replies have come. @queued: the number of commands that the transaction has queued. */
static bool check_step(char **at, enum expected expected, unsigned *queued, unsigned n)
{
    const char *line = next_line(at);
    if (line == NULL)
        return false;
    switch (expected) {
    case OK:
        is_one_of(line, "+OK", "+OK", n);
        break;
    case PONG:
        is_one_of(line, "+PONG", "+PONG", n);
        break;
    case TOKEN:
        is_one_of(line, "$5", "$5", n);
        if (line[0] == '$' && (line = next_line(at)) != NULL)
            is_one_of(line, "token", "token", n);
        break;
    case ABSENT:
        is_one_of(line, ":0", or_absent, n);
        break;
    case PRESENT:
        is_one_of(line, ":1", ":1", n);
        break;
    case ADDED:
        is_one_of(line, ":1", ":0", n);
        break;
    case NUMBER:
        assert_true(line[0] == '-' || line[0] == ':');
        break;
    case QUEUED:
        /* If MULTI was refused, this command runs at once. */
        if (line[0] == '+')
            is_one_of(line, "+QUEUED", "+QUEUED", n);
        else
            is_one_of(line, ":1", ":0", n);
        *queued += line[0] == '+';
        break;
    case TRANSACTION:
        if (*queued == 2)
            check_array(at, line, 2, n);
        else
            assert_int_equal(line[0], '-');
        break;
    case BATCH:
        check_array(at, line, KEYS, n);
        break;
    }
    return true;
}

static void check_replies(unsigned n)
{
    char *at = got;
    unsigned queued = 0;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
        if (!check_step(&at, steps[i].expected, &queued, n))
            return;
    assert_string_equal(at, "");
}

static void acknowledged_is_present(unsigned n)
{
    int64_t present = 1;
    struct error e = {""};
    if (strstr(got, "+PONG\r\n:") == got)
        must(client_integer(&asker, &present, &e, "BF.EXISTS f add%u", n), e);
    assert_int_equal(present, 1);
}

static void exchange(int fd, unsigned n)
{
    const struct timeval patience = {.tv_sec = 10};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    got[0] = '\0';
    errno = 0;
    if (raw_puts(fd, sent) && !raw_read_all(fd, got, sizeof(got)) && errno == EAGAIN)
        fail_msg("allocation %u has failed, and the connection hangs after: %s", n, got);
}

/* True if an allocation has failed. */
static bool run_resp(unsigned n, void (*begin)(void))
{
    write_commands(n % COLD);
    arm("worker-0", n);
    if (begin != NULL)
        begin();
    int fd = raw_open(starved.port);
    exchange(fd, n);
    bool failed = disarm();
    raw_close(fd);
    serves_on(n);
    acknowledged_is_present(n % COLD);
    check_replies(n);
    return failed;
}

static void run_all(bool (*run)(unsigned n))
{
    unsigned n = 1;
    while (n < FAULTS_MAX && run(n))
        n++;
    assert_in_range(n, FAULTS_LEAST, FAULTS_MAX - 1);
}

static bool run_connected(unsigned n)
{
    return run_resp(n, NULL);
}

static void test_resp__survives_every_allocation_that_fails(void **state)
{
    (void)state;
    run_all(run_connected);
}

/* Redis closes the coordinator's connections. The new connections have empty buffers. */
static void cut_connections(void)
{
    for (unsigned i = 0; i < 2; i++) {
        struct error e = {""};
        struct client c = {0};
        must(client_open(&c, redis[i].port, 10000, &e), e);
        freeReplyObject(client_command(&c, "CLIENT KILL TYPE normal SKIPME yes"));
        client_close(&c);
    }
}

static bool run_cut(unsigned n)
{
    return run_resp(n, cut_connections);
}

static void test_resp__survives_every_allocation_that_fails_while_redis_is_connected_to(void **state)
{
    (void)state;
    or_absent = ":1";
    run_all(run_cut);
    or_absent = ":0";
}

/* --- HTTP --- */

/* False: the connection was closed. */
static bool ask_http(int fd, const char *keys)
{
    char body[128];
    (void)snprintf(body, sizeof(body), "{\"keys\":[%s]}", keys);
    return http_send(fd, "POST", "/v1/filters/f/check", "Content-Type: application/json\r\n", body,
                     strlen(body));
}

/* False: the connection was closed. */
static bool take_http(int fd, const char *results, unsigned n)
{
    char wanted[128];
    struct http_reply r = http_receive(fd, false);
    (void)snprintf(wanted, sizeof(wanted), "{\"results\":[%s]}", results);
    int status = r.status;
    if (status == 200 && strcmp(r.body, wanted) != 0 && strstr(r.body, "error") == NULL)
        fail_msg("allocation %u has failed: %s is not %s", n, r.body, wanted);
    http_reply_fini(&r);
    assert_true(status == 0 || status == 200 || status >= 500);
    return status != 0;
}

static bool run_http(unsigned n)
{
    arm("http", n);
    int fd = raw_open(starved.http_port);
    if (ask_http(fd, "\"c0\",\"never\",\"c1\",\"never\"") && take_http(fd, "true,false,true,false", n) &&
        ask_http(fd, "\"never\",\"c0\""))
        (void)take_http(fd, "false,true", n);
    bool failed = disarm();
    raw_close(fd);
    struct http_reply after =
        http_ask(starved.http_port, "POST", "/v1/filters/f/check", "{\"keys\":[\"c0\"]}");
    if (after.status != 200 || after.body == NULL || strcmp(after.body, "{\"results\":[true]}") != 0)
        fail_msg("after allocation %u has failed it answers %d", n, after.status);
    http_reply_fini(&after);
    return failed;
}

static void test_http__survives_every_allocation_that_fails(void **state)
{
    (void)state;
    run_all(run_http);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resp__survives_every_allocation_that_fails),
        cmocka_unit_test(test_resp__survives_every_allocation_that_fails_while_redis_is_connected_to),
        cmocka_unit_test(test_http__survives_every_allocation_that_fails),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
