/* SPDX-License-Identifier: MIT */
#include "tests/lib/raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include "base/buffer.h"

int raw_open_from(const char *address, uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    struct timeval t = {.tv_sec = 120}; /* password hashes are slow on a loaded machine */
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in from = {.sin_family = AF_INET};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (inet_pton(AF_INET, address, &from.sin_addr) == 1 &&
        bind(fd, (struct sockaddr *)&from, sizeof(from)) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t)) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t)) == 0 &&
        connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

int raw_open(uint16_t port)
{
    return raw_open_from("127.0.0.1", port);
}

void raw_close(int fd)
{
    if (fd >= 0)
        (void)close(fd);
}

bool raw_send(int fd, const void *bytes, size_t length)
{
    const char *from = bytes;
    while (length > 0) {
        ssize_t n = send(fd, from, length, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        from += n;
        length -= (size_t)n;
    }
    return true;
}

bool raw_puts(int fd, const char *text)
{
    return raw_send(fd, text, strlen(text));
}

bool raw_send_del(int fd, unsigned count)
{
    struct buffer command = {0};
    buffer_printf(&command, "*%u\r\n$3\r\nDEL\r\n", count + 1);
    for (unsigned i = 0; i < count; i++)
        buffer_printf(&command, "$8\r\nn%07u\r\n", i);
    bool sent = !buffer_failed(&command) && raw_send(fd, command.data, command.length);
    buffer_fini(&command);
    return sent;
}

bool raw_expect(int fd, const char *expected)
{
    size_t length = strlen(expected);
    char *got = calloc(1, length + 1);
    if (got == NULL)
        return false;
    size_t have = 0;
    /* Stop at the first byte that differs: waiting for the other bytes would take until the deadline. */
    while (have < length && memcmp(got, expected, have) == 0) {
        ssize_t n = recv(fd, got + have, length - have, 0);
        if (n <= 0)
            break;
        have += (size_t)n;
    }
    bool same = have == length && memcmp(got, expected, length) == 0;
    if (!same)
        (void)fprintf(stderr, "expected: %s\ngot %zu of %zu bytes: %s\n", expected, have, length, got);
    free(got);
    return same;
}

bool raw_read_until(int fd, const char *end, char *out, size_t size)
{
    size_t tail = strlen(end);
    size_t have = 0;
    while (have + 1 < size) {
        if (recv(fd, out + have, 1, 0) != 1)
            break;
        out[++have] = '\0';
        if (have >= tail && strcmp(out + have - tail, end) == 0)
            return true;
    }
    (void)fprintf(stderr, "no %s in: %.*s\n", end, (int)have, out);
    return false;
}

bool raw_read_all(int fd, char *out, size_t size)
{
    size_t have = 0;
    ssize_t n = 1;
    while (have + 1 < size && (n = recv(fd, out + have, size - 1 - have, 0)) > 0)
        have += (size_t)n;
    out[have] = '\0';
    return n == 0;
}

bool raw_expect_close(int fd)
{
    char byte;
    ssize_t n = recv(fd, &byte, 1, 0);
    return n == 0 || (n < 0 && errno == ECONNRESET);
}
