/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_PROTOCOL_RESP_H
#define SERVICE_PROTOCOL_RESP_H
/* The parser of requests. It does no I/O and copies nothing: the caller shows it the bytes that have arrived,
 * and it says where the arguments lie. It reads RESP arrays of bulk strings, and inline commands. Its state
 * survives between calls, so no byte is read twice, however the bytes are split. */
#include <stdbool.h>
#include <stddef.h>

struct resp_limits {
    size_t request_max;   /* bytes of a whole request, e.g. 1 GiB */
    size_t bulk_max;      /* bytes of one argument, e.g. 512 MiB */
    size_t arguments_max; /* e.g. 1024 * 1024 */
    size_t inline_max;    /* bytes of one inline line or of one header, e.g. 64 KiB */
};

/* The limits of Redis. */
extern const struct resp_limits resp_default_limits;

struct argument {
    union {
        size_t offset;     /* relative to the start of the bytes shown; set by the parser */
        const char *bytes; /* set by resp_locate() */
    };
    size_t length;
};

/* True if @a equals @word, ignoring case. */
bool argument_is(const struct argument *a, const char *word);

enum resp_result {
    RESP_MORE, /* incomplete: call again with more bytes; parser->need says how many are needed at least */
    /* The arguments are set; the command has `consumed` bytes (argument_count 0: a blank line, *0 or *-1). */
    RESP_COMMAND,
    /* parser->error has the text after "ERR Protocol error: ". Answer it, then close. Every later call
     * returns the same. */
    RESP_ERROR
};

struct resp_parser {
    struct resp_limits limits;
    size_t need;     /* total bytes that must be shown before the next call can make progress */
    size_t consumed; /* set by RESP_COMMAND */
    /* The sender has to log in, and has the limits of Redis for that: 10 arguments, 16384 bytes of one
     * argument or of a line, 17 KiB in all. */
    bool stranger;
    const char *error;
    size_t argument_count;
    struct argument *arguments; /* owned; valid until the next call */
    /* private */
    size_t capacity;
    size_t expected; /* number of arguments that the array's header announces */
    size_t position; /* offset of the header or argument that is being read */
    size_t scanned;  /* offset at which the search for the header's end continues */
    size_t bulk;     /* length of the argument that is being read, or RESP_NO_BULK */
    bool inside;     /* the array's header has been read */
    bool begun;      /* a command has been read in part */
    char error_text[64];
};

void resp_init(struct resp_parser *p, const struct resp_limits *limits);
void resp_fini(struct resp_parser *p);

/* Parse one command at the start of @bytes. After RESP_MORE, call again with the same bytes and more behind
 * them; the memory may have moved. After RESP_COMMAND, drop `consumed` bytes before the next call. Inline
 * arguments are unescaped in place, so @bytes is writable. */
enum resp_result resp_parse(struct resp_parser *p, char *bytes, size_t length);

/* Find commands that differ from the one parsed before in their last argument alone. @same is that command's
 * first @same_length bytes, up to the header of its last argument. Returns how many such commands, at most
 * @most, are complete at @bytes. *@used is the number of their bytes, and @last gets the last argument of
 * each. A command of an unusual form ends the search: resp_parse() reads it. */
size_t resp_again(const struct resp_parser *p, const char *same, size_t same_length, const char *bytes,
                  size_t length, size_t most, struct argument *last, size_t *used);

/* Call after RESP_COMMAND: have the arguments point into @bytes, where the command lies. */
void resp_locate(struct resp_parser *p, const char *bytes);
/* Adjust the arguments: their bytes have been copied from @from to @to. */
void resp_move(struct resp_parser *p, const char *from, const char *to);
/* Call after RESP_COMMAND: hand the array of arguments to the caller, who frees it with free(). */
struct argument *resp_take(struct resp_parser *p);
/* An array of arguments that the parsers of one thread share. Each parser needs the array only until its
 * command is started, or while a command has arrived in part. Zero-initialise; free with free(). */
struct resp_spare {
    struct argument *arguments;
    size_t capacity;
};
/* resp_borrow(): call before resp_parse(); takes the array if there is one. resp_return(): call afterwards;
 * gives the array back if no command is under way, and frees it if it is large or another one is there. */
void resp_borrow(struct resp_parser *p, struct resp_spare *spare);
void resp_return(struct resp_parser *p, struct resp_spare *spare);
/* The number of bytes that the parser holds. */
size_t resp_memory(const struct resp_parser *p);
#endif
