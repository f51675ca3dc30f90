/* SPDX-License-Identifier: MIT */
#ifndef TESTS_LIB_HTTP_H
#define TESTS_LIB_HTTP_H
/* A small blocking HTTP/1.1 client for tests: it sends the bytes it is told, and reads what is framed by
 * Content-Length. Sockets are those of raw.h. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTTP_HEAD_MAX = 4096 };

struct http_reply {
    int status; /* 0: no whole reply came */
    char head[HTTP_HEAD_MAX];
    char *body; /* NUL-terminated; never NULL once there is a status */
    size_t length;
};

/* Send the head of a request and a body of @length bytes; @headers are lines with their CRLF. */
bool http_send(int fd, const char *method, const char *path, const char *headers, const void *body,
               size_t length);

/* Read one reply; that to a HEAD has no body. The caller ends it with http_reply_fini(). */
struct http_reply http_receive(int fd, bool head);

/* One request with a JSON body (NULL: none) on a connection of its own. */
struct http_reply http_ask(uint16_t port, const char *method, const char *path, const char *json);

/* The status of one request on a connection of its own; @headers are lines with their CRLF, @body may be
 * NULL. */
int http_status(uint16_t port, const char *method, const char *path, const char *headers, const char *body);
/* That of a GET by a browser that another site's name, which was made to point here, has led here. */
int http_status_misdirected(uint16_t port, const char *path);

/* The value of a header of @r in a static buffer; "" where it is not there. */
const char *http_reply_header(const struct http_reply *r, const char *name);
void http_reply_fini(struct http_reply *r);
#endif
