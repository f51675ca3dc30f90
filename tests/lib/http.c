/* SPDX-License-Identifier: MIT */
#include "tests/lib/http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "tests/lib/raw.h"

bool http_send(int fd, const char *method, const char *path, const char *headers, const void *body,
               size_t length)
{
    char head[HTTP_HEAD_MAX * 4], framing[64] = "";
    if (body != NULL)
        (void)snprintf(framing, sizeof(framing), "Content-Length: %zu\r\n", length);
    int n = snprintf(head, sizeof(head), "%s %s HTTP/1.1\r\nHost: localhost\r\n%s%s\r\n", method, path,
                     headers, framing);
    if (n < 0 || (size_t)n >= sizeof(head))
        return false;
    return raw_send(fd, head, (size_t)n) && (body == NULL || raw_send(fd, body, length));
}

const char *http_reply_header(const struct http_reply *r, const char *name)
{
    static char value[512];
    size_t length = strlen(name);
    for (const char *line = strstr(r->head, "\r\n"); line != NULL; line = strstr(line + 2, "\r\n"))
        if (strncasecmp(line + 2, name, length) == 0 && line[2 + length] == ':') {
            const char *from = line + 2 + length + 1;
            from += strspn(from, " ");
            (void)snprintf(value, sizeof(value), "%.*s", (int)strcspn(from, "\r"), from);
            return value;
        }
    return "";
}

static bool read_body(int fd, struct http_reply *r)
{
    r->body = calloc(1, r->length + 1);
    for (size_t have = 0; r->body != NULL && have < r->length;) {
        ssize_t n = recv(fd, r->body + have, r->length - have, 0);
        if (n <= 0)
            return false;
        have += (size_t)n;
    }
    return r->body != NULL;
}

struct http_reply http_receive(int fd, bool head)
{
    struct http_reply r = {.status = 0};
    if (!raw_read_until(fd, "\r\n\r\n", r.head, sizeof(r.head)))
        return r;
    r.length = head ? 0 : strtoul(http_reply_header(&r, "Content-Length"), NULL, 10);
    if (read_body(fd, &r) && strncmp(r.head, "HTTP/1.", 7) == 0)
        r.status = (int)strtol(r.head + 9, NULL, 10);
    return r;
}

struct http_reply http_ask(uint16_t port, const char *method, const char *path, const char *json)
{
    struct http_reply r = {.status = 0};
    int fd = raw_open(port);
    const char *headers =
        json == NULL ? "Connection: close\r\n" : "Connection: close\r\nContent-Type: application/json\r\n";
    if (fd >= 0 && http_send(fd, method, path, headers, json, json == NULL ? 0 : strlen(json)))
        r = http_receive(fd, strcmp(method, "HEAD") == 0);
    raw_close(fd);
    return r;
}

static int take_status(int fd, bool sent)
{
    struct http_reply r = {.status = 0};
    if (sent)
        r = http_receive(fd, false);
    int status = r.status;
    http_reply_fini(&r);
    raw_close(fd);
    return status;
}

int http_status(uint16_t port, const char *method, const char *path, const char *headers, const char *body)
{
    int fd = raw_open(port);
    size_t length = body == NULL ? 0 : strlen(body);
    return take_status(fd, fd >= 0 && http_send(fd, method, path, headers, body, length));
}

int http_status_misdirected(uint16_t port, const char *path)
{
    char request[256];
    int fd = raw_open(port);
    (void)snprintf(request, sizeof(request),
                   "GET %s HTTP/1.1\r\nHost: evil.example\r\nAccept-Language: en\r\n\r\n", path);
    return take_status(fd, fd >= 0 && raw_puts(fd, request));
}

void http_reply_fini(struct http_reply *r)
{
    free(r->body);
    *r = (struct http_reply){0};
}
