/* SPDX-License-Identifier: MIT */
/* http_load: POST /v1/filters/FILTER/check of so many keys again and again over some connections, one request
 * at a time on each. Half of the keys are present, if those of the first request were added. Prints requests
 * a second, and the server's processor time for each. */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <arpa/inet.h>
#include <unistd.h>
#include "base/buffer.h"
#include "base/clock.h"
#include "base/number.h"

enum { CONNECTIONS_MAX = 1000, KEYS_MAX = 10000, ANSWER_MAX = 16 * KEYS_MAX };

struct connection {
    size_t have;
    char answer[ANSWER_MAX];
};

static void fail(const char *what)
{
    (void)fprintf(stderr, "http_load: %s\n", what);
    exit(2);
}

static uint64_t number(const char *text, uint64_t most)
{
    uint64_t n = 0;
    if (!number_u64(text, strlen(text), &n) || n == 0 || n > most)
        fail("usage: http_load PORT FILTER check|add CONNECTIONS KEYS REQUESTS PID");
    return n;
}

static int open_connection(uint64_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof(to)) != 0)
        fail("no connection");
    return fd;
}

/* Return a process's processor time: fields 14 and 15 of its line, which are in clock ticks; see proc(5). */
static double processor_seconds(uint64_t pid)
{
    char path[64], line[1024];
    (void)snprintf(path, sizeof(path), "/proc/%" PRIu64 "/stat", pid);
    FILE *f = fopen(path, "re");
    if (f == NULL || fgets(line, sizeof(line), f) == NULL)
        fail("no such process");
    (void)fclose(f);
    char *at = strrchr(line, ')'); /* the end of the name, the second field */
    for (unsigned field = 2; field < 14 && at != NULL; field++)
        at = strchr(at + 1, ' ');
    if (at == NULL)
        fail("no such process");
    uint64_t user = strtoull(at, &at, 10), kernel = strtoull(at, NULL, 10);
    return (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
}

static void send_all(int fd, const struct buffer *request)
{
    if (send(fd, request->data, request->length, MSG_NOSIGNAL) != (ssize_t)request->length)
        fail("a request was not taken in one piece");
}

/* True: a reply is complete. Its body ends with "]}". */
static bool read_some(int fd, struct connection *c)
{
    ssize_t n = recv(fd, c->answer + c->have, sizeof(c->answer) - c->have - 1, 0);
    if (n <= 0)
        fail("a connection was closed");
    c->have += (size_t)n;
    c->answer[c->have] = '\0';
    if (memcmp(c->answer + c->have - 2, "]}", 2) != 0)
        return false;
    if (strncmp(c->answer, "HTTP/1.1 200 ", 13) != 0)
        fail(c->answer);
    c->have = 0;
    return true;
}

int main(int argc, char **argv)
{
    struct pollfd polled[CONNECTIONS_MAX];
    struct buffer body = {0}, request = {0};
    if (argc != 8)
        fail("usage: http_load PORT FILTER check|add CONNECTIONS KEYS REQUESTS PID");
    uint64_t port = number(argv[1], UINT16_MAX), connections = number(argv[4], CONNECTIONS_MAX);
    uint64_t keys = number(argv[5], KEYS_MAX), requests = number(argv[6], UINT64_MAX);
    uint64_t pid = number(argv[7], INT32_MAX), step = strcmp(argv[3], "add") == 0 ? 2 : 1;
    struct connection *c = calloc(connections, sizeof(*c));
    buffer_puts(&body, "{\"keys\":[");
    for (uint64_t i = 0; i < keys; i++)
        buffer_printf(&body, "%s\"key:%012" PRIu64 "\"", i == 0 ? "" : ",", i * step);
    buffer_puts(&body, "]}");
    buffer_printf(&request,
                  "POST /v1/filters/%s/%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                  "Content-Length: %zu\r\n\r\n",
                  argv[2], argv[3], body.length);
    buffer_append(&request, body.data, body.length);
    if (c == NULL || buffer_failed(&request))
        fail("out of memory");
    for (uint64_t i = 0; i < connections; i++)
        polled[i] = (struct pollfd){.fd = open_connection(port), .events = POLLIN};
    double processor = processor_seconds(pid);
    uint64_t began = clock_mono_us(), sent = 0, done = 0;
    for (; sent < connections && sent < requests; sent++)
        send_all(polled[sent].fd, &request);
    while (done < requests) {
        if (poll(polled, connections, 60000) <= 0)
            fail("no answer");
        for (uint64_t i = 0; i < connections; i++) {
            if (polled[i].revents == 0 || !read_some(polled[i].fd, &c[i]))
                continue;
            done++;
            if (sent < requests) {
                send_all(polled[i].fd, &request);
                sent++;
            }
        }
    }
    double seconds = (double)(clock_mono_us() - began) / 1e6;
    (void)printf("%.0f requests/s; processor of the coordinator: %.1f us a request\n", (double)done / seconds,
                 (processor_seconds(pid) - processor) * 1e6 / (double)done);
    buffer_fini(&body);
    buffer_fini(&request);
    free(c);
    return 0;
}
