/* SPDX-License-Identifier: MIT */
#include "tests/integration/contract.h"

#include <stdio.h>
#include <string.h>

struct contract contract;

int contract_setup(void **state)
{
    (void)state;
    struct error e = {""};
    if (fixture_start(&contract.fixture, &(struct fixture_options){.nodes = 1, .daemons = 1}) != 0)
        return -1;
    const struct daemon_options guarded = {.nodes = contract.fixture.node_list,
                                           .service = "password = s3cret\n"};
    must(daemon_start(&contract.guarded, &guarded, &e), e);
    return 0;
}

int contract_teardown(void **state)
{
    (void)state;
    bool clean = daemon_fini(&contract.guarded);
    return fixture_stop(&contract.fixture) == 0 && clean ? 0 : -1;
}

static int open_port(uint16_t port)
{
    int fd = raw_open(port);
    assert_true(fd >= 0);
    return fd;
}

int contract_open(void)
{
    return open_port(contract.fixture.daemon[0].port);
}

int contract_open_guarded(void)
{
    return open_port(contract.guarded.port);
}

void contract_hello3(int fd)
{
    char hello[2048];
    assert_true(raw_puts(fd, "HELLO 3\r\n"));
    assert_true(raw_read_until(fd, "$7\r\nmodules\r\n*0\r\n", hello, sizeof(hello)));
    assert_memory_equal(hello, "%7\r\n", 4);
    assert_non_null(strstr(hello, "$5\r\nproto\r\n:3\r\n"));
}

void contract_run(int fd, const struct exchange *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char text[1024];
        (void)snprintf(text, sizeof(text), "%s\r\n", rows[i].request);
        assert_true(raw_puts(fd, text));
        (void)snprintf(text, sizeof(text), "%s\r\n", rows[i].reply);
        if (!raw_expect(fd, text))
            fail_msg("wrong reply to: %s", rows[i].request);
    }
}

static int says(const char *request, const char *reply)
{
    int fd = contract_open();
    assert_true(raw_puts(fd, request));
    if (!raw_expect(fd, reply))
        fail_msg("wrong reply to: %.200s", request);
    return fd;
}

void contract_says(const char *request, const char *reply)
{
    raw_close(says(request, reply));
}

void contract_says_and_closes(const char *request, const char *reply)
{
    int fd = says(request, reply);
    if (!raw_expect_close(fd))
        fail_msg("left open after: %.200s", request);
    raw_close(fd);
}
