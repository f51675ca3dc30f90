/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_HTTP_MESSAGE_HTTP_PARSE_H
#define SERVICE_HTTP_MESSAGE_HTTP_PARSE_H
/* Parses a request of HTTP/1.1 or 1.0 as RFC 9112 defines it, strictly: bytes that another program could read
 * as a different request are refused. It does no I/O. Its state survives between calls, however the bytes are
 * split. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buffer.h"

enum {
    HTTP_HEAD_MAX = 16 * 1024, /* bytes of the request line and all headers */
    HTTP_HEADERS_MAX = 100,
    HTTP_SKIP_MAX = 64 * 1024 /* bytes of an unwanted body that are still read */
};

struct http_header {
    const char *name, *value;
};

enum http_step {
    HTTP_MORE,   /* all bytes are used */
    HTTP_HEAD,   /* the head is complete; its members are valid until http_parser_reset() */
    HTTP_WHOLE,  /* the body is complete, too */
    HTTP_REFUSED /* `status` and `why` are set; nothing behind the error can be read */
};

struct http_parser {
    size_t body_max;    /* bytes */
    const char *method; /* a known method */
    const char *path;   /* percent-encoded; "*" is possible */
    const char *query;  /* the part behind the '?'; NULL: none */
    const char *host;   /* from the target or the header Host; NULL: none (HTTP/1.0) */
    struct http_header *headers;
    size_t header_count;
    int minor;       /* minor version of HTTP/1 */
    bool keep_alive; /* another request may follow */
    bool expects;    /* the client waits for "100 Continue" before it sends the body */
    bool skip;       /* set by the caller: the body is read and dropped */
    struct buffer body;
    int status; /* the status to refuse the request with */
    const char *why;
    /* private */
    int state;
    struct buffer head;
    size_t line;   /* bytes of the line that is being read */
    uint64_t left; /* bytes of the body, or of its chunk, that are still to come */
    size_t digits; /* digits of the chunk's size */
    size_t extra;  /* bytes of trailers */
    bool blank;    /* an empty line came before the head */
    bool begun;    /* the request line has been read */
    bool cr;       /* the last byte was a carriage return */
    bool extended; /* inside the extension of a chunk */
};

void http_parser_init(struct http_parser *p, size_t body_max);
/* Forget the request that was read, so that another may follow. Frees all memory. */
void http_parser_reset(struct http_parser *p);

/* Continue parsing. *@used of the @length bytes belong to the result. HTTP_WHOLE follows HTTP_HEAD even if no
 * bytes are left, so call again after HTTP_HEAD. */
enum http_step http_parse(struct http_parser *p, const char *bytes, size_t length, size_t *used);
/* True if the next call returns HTTP_WHOLE without any byte. */
bool http_parser_is_whole(const struct http_parser *p);
/* The body is not wanted. True: the rest of it is short, and is dropped. False: the connection should be
 * closed instead. */
bool http_parser_skip(struct http_parser *p);

/* The value of a header; NULL: it is missing. */
const char *http_parser_header(const struct http_parser *p, const char *name);
/* True if @word is in @list, whose words are separated by commas and blanks. Ignores case. */
bool http_list_has(const char *list, const char *word);
/* The bytes of memory that the parser holds. */
size_t http_parser_memory(const struct http_parser *p);
#endif
