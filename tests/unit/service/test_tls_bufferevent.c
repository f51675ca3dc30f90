/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/socket.h>
#include <cmocka.h>
#include <event2/event.h>

#include "service/core/tls.h"

static unsigned countdown; /* allocations of libevent until the one that fails; 0: none fails */

static void *allocate(size_t size)
{
    return countdown != 0 && --countdown == 0 ? NULL : malloc(size);
}

static void *reallocate(void *old, size_t size)
{
    return countdown != 0 && --countdown == 0 ? NULL : realloc(old, size);
}

/* At the next allocation libevent 2.1 itself breaks. */
static void test_tls_bufferevent__leaves_the_socket_if_there_is_no_memory(void **state)
{
    (void)state;
    int fd[2];
    event_set_mem_functions(allocate, reallocate, free);
    struct event_base *base = event_base_new();
    struct tls *t = tls_new();
    assert_true(base != NULL && t != NULL);
    tls_replace(t, tls_context_new(TLS_server_method()));
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    countdown = 1;
    assert_null(tls_bufferevent(t, base, fd[0]));
    assert_int_equal(send(fd[1], "x", 1, MSG_NOSIGNAL), 1); /* fd[0] is open */
    struct bufferevent *io = tls_bufferevent(t, base, fd[0]);
    assert_non_null(io);
    bufferevent_free(io); /* closes the socket */
    assert_int_equal(close(fd[1]), 0);
    tls_free(t);
    event_base_free(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tls_bufferevent__leaves_the_socket_if_there_is_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
