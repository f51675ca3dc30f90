/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_HTTP_MESSAGE_HTTP_PARSE_H
#define SERVICE_HTTP_MESSAGE_HTTP_PARSE_H
/* A request of HTTP/1.1 or 1.0 from its bytes, as RFC 9112 has it and no more generous: what another program
 * could take for a different request is refused. Apart from all I/O; state survives between calls, however
 * the bytes are split. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buffer.h"

enum {
    HTTP_HEAD_MAX = 16 * 1024, /* bytes of the request line and all headers */
    HTTP_HEADERS_MAX = 100,
    HTTP_SKIP_MAX = 64 * 1024 /* bytes of a body that nobody wants and that are read all the same */
};

struct http_header {
    const char *name, *value;
};

enum http_step {
    HTTP_MORE,   /* all bytes are used */
    HTTP_HEAD,   /* the head is there: its members are set, until http_parser_reset() */
    HTTP_WHOLE,  /* and so is the body */
    HTTP_REFUSED /* `status` and `why` are set; nothing can be read behind it */
};

struct http_parser {
    size_t body_max;    /* bytes */
    const char *method; /* one that is known here */
    const char *path;   /* as it came, "*" too */
    const char *query;  /* behind the '?'; NULL: none */
    const char *host;   /* from the target, or the header; NULL: none (HTTP/1.0) */
    struct http_header *headers;
    size_t header_count;
    int minor;       /* of the version */
    bool keep_alive; /* more requests may follow */
    bool expects;    /* the client waits for "100 Continue" before it sends the body */
    bool skip;       /* set by the caller: the body is read and dropped */
    struct buffer body;
    int status; /* of the refusal */
    const char *why;
    /* private */
    int state;
    struct buffer head;
    size_t line;   /* bytes of the line that is being read */
    uint64_t left; /* bytes of the body or of its chunk that are still to come */
    size_t digits; /* of the chunk's size */
    size_t extra;  /* bytes of trailers */
    bool blank;    /* an empty line came before the head */
    bool begun;    /* the request line is there */
    bool cr;       /* the last byte was a carriage return */
    bool extended; /* in the extension of a chunk */
};

void http_parser_init(struct http_parser *p, size_t body_max);
/* Forget the request that was read; another one may follow. Frees all memory. */
void http_parser_reset(struct http_parser *p);

/* Read on; *@used of the @length bytes belong to what is returned. HTTP_WHOLE follows HTTP_HEAD also where no
 * bytes are left, so it is called again then. */
enum http_step http_parse(struct http_parser *p, const char *bytes, size_t length, size_t *used);
/* The next call returns HTTP_WHOLE without any byte. */
bool http_parser_is_whole(const struct http_parser *p);
/* The body is not wanted. True: what is to come of it is short, and will be dropped. False: the connection
 * should end instead. */
bool http_parser_skip(struct http_parser *p);

/* The value of a header, NULL where there is none. */
const char *http_parser_header(const struct http_parser *p, const char *name);
/* Bytes of memory that it holds. */
size_t http_parser_memory(const struct http_parser *p);
#endif
