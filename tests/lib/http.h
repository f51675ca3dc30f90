/* SPDX-License-Identifier: MIT */
#ifndef TESTS_LIB_HTTP_H
#define TESTS_LIB_HTTP_H
/* A small blocking HTTP/1.1 client for tests. It sends the bytes that it is given, and reads replies framed
 * by Content-Length. Its sockets are those of raw.h. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTTP_HEAD_MAX = 4096 };

struct http_reply {
    int status; /* 0: no complete reply came */
    char head[HTTP_HEAD_MAX];
    char *body; /* NUL-terminated; never NULL if there is a status */
    size_t length;
};

/* Send the head of a request and a body of @length bytes. @headers are lines that end in CRLF. */
bool http_send(int fd, const char *method, const char *path, const char *headers, const void *body,
               size_t length);

/* Read one reply. @head: it is the reply to a HEAD, so it has no body. The caller calls http_reply_fini(). */
struct http_reply http_receive(int fd, bool head);

/* Send one request with a JSON body (NULL: none) on its own connection, and read the reply. */
struct http_reply http_ask(uint16_t port, const char *method, const char *path, const char *json);

/* Send one request on its own connection and return the status. @headers are lines that end in CRLF, @body
 * may be NULL. */
int http_status(uint16_t port, const char *method, const char *path, const char *headers, const char *body);
/* The status of a GET by a browser after DNS rebinding: Host is a name of another site that points here. */
int http_status_misdirected(uint16_t port, const char *path);

/* The value of a header of @r in a static buffer; "": the header is missing. */
const char *http_reply_header(const struct http_reply *r, const char *name);
void http_reply_fini(struct http_reply *r);
#endif
