/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_PROTOCOL_RESP_H
#define SERVICE_PROTOCOL_RESP_H
/* The parser of requests, apart from all I/O, zero-copy: it is shown the bytes that have come and says where
 * the arguments lie. RESP arrays of bulk strings and inline commands. State survives between calls, so that
 * no byte is looked at twice however the bytes are split. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct resp_limits {
    size_t request_max;   /* bytes of a whole request, e.g. 1 GiB */
    size_t bulk_max;      /* bytes of one argument, e.g. 512 MiB */
    size_t arguments_max; /* e.g. 1024 * 1024 */
    size_t inline_max;    /* bytes of one inline line or of one header, e.g. 64 KiB */
};

/* Redis's own limits. */
extern const struct resp_limits resp_default_limits;

struct argument {
    union {
        size_t offset;     /* from the start of the bytes shown, as the parser leaves it */
        const char *bytes; /* after resp_locate() */
    };
    size_t length;
};

/* True if @a is @word in any case. */
bool argument_is(const struct argument *a, const char *word);

enum resp_result {
    RESP_MORE, /* not whole yet: call again with more bytes; parser->need says how many in all at the least */
    RESP_COMMAND, /* arguments are filled; `consumed` bytes belong to it (argument_count 0: a blank line, *0
                     or *-1) */
    /* parser->error holds the text after "ERR Protocol error: "; close after answering. Every later call says
       the same. */
    RESP_ERROR
};

struct resp_parser {
    struct resp_limits limits;
    size_t need;     /* total bytes that must be shown before the next call can get further */
    size_t consumed; /* after RESP_COMMAND */
    bool stranger; /* who sends has to log in: 10 arguments, 16384 bytes of one or of a line, 17 KiB in all */
    const char *error;
    size_t argument_count;
    struct argument *arguments; /* owned; valid until the next call */
    /* private */
    size_t capacity;
    size_t expected; /* arguments announced by the array's header */
    size_t position; /* where the header or argument that is being read starts */
    size_t scanned;  /* where the search for the end of the header goes on */
    size_t bulk;     /* length of the argument that is being read, or RESP_NO_BULK */
    bool inside;     /* behind the header of an array */
    bool begun;      /* a command is under way */
    char error_text[64];
};

void resp_init(struct resp_parser *p, const struct resp_limits *limits);
void resp_fini(struct resp_parser *p);

/* Parse the one command at the start of @bytes. While the result is RESP_MORE, show the same start again with
 * more bytes behind it (the memory may have moved). After RESP_COMMAND drop `consumed` bytes, then go on.
 * Inline arguments are unescaped in place, so @bytes is writable. */
enum resp_result resp_parse(struct resp_parser *p, char *bytes, size_t length);

/* What begins with the same @same_length bytes as the command that was parsed before, from its start to the
 * header of its last argument, differs from it in that argument alone. Returns how many such commands, up to
 * @most, are whole at @bytes; *@used: their bytes; @last has the last argument of each. What is of an unusual
 * form is none: resp_parse() tells what it is. */
size_t resp_again(const struct resp_parser *p, const char *same, size_t same_length, const char *bytes,
                  size_t length, size_t most, struct argument *last, size_t *used);

/* After RESP_COMMAND: have the arguments point into @bytes, where the command lies. */
void resp_locate(struct resp_parser *p, const char *bytes);
/* The bytes have been copied from @from to @to. */
void resp_move(struct resp_parser *p, const char *from, const char *to);
/* After that: the array is the caller's, to be freed with free(). */
struct argument *resp_take(struct resp_parser *p);
/* An array of arguments that parsers of one thread share: each needs one only until its command is begun, or
 * while one has come in part. Zeroes are none; to be freed with free(). */
struct resp_spare {
    struct argument *arguments;
    size_t capacity;
};
/* Before resp_parse(): take it, if there is one. Behind it: where no command is under way give it back, or
 * free a large one, or one too many. */
void resp_borrow(struct resp_parser *p, struct resp_spare *spare);
void resp_return(struct resp_parser *p, struct resp_spare *spare);
/* Bytes that it holds. */
size_t resp_memory(const struct resp_parser *p);
#endif
