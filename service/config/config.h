/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CONFIG_H
#define SERVICE_CONFIG_H
/* The configuration: an INI file read by a table of keys (name, type, default, bounds, secret, one line of
 * help), config_table.h. The table drives the structs, parsing, --print-config and the reference. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "base/error.h"
#include "base/log.h"

enum { CONFIG_FILTERS_MAX = 256, CONFIG_USERS_MAX = 256 };
enum on_lost { ON_LOST_MAYBE, ON_LOST_ERROR };
enum scan_order { SCAN_KEYSET, SCAN_CTID };
enum follow_by { FOLLOW_BY_IDS, FOLLOW_BY_LOGICAL, FOLLOW_BY_OUTBOX };
enum http_metrics { HTTP_METRICS_LOGIN, HTTP_METRICS_LOOPBACK, HTTP_METRICS_OPEN };
enum client_auth { CLIENT_AUTH_NO, CLIENT_AUTH_OPTIONAL, CLIENT_AUTH_REQUIRED };

/* The types of keys, and what holds a value. */
#define CONFIG_TYPES(X)                                                                                      \
    X(CONFIG_STRING, char *) /* never NULL; the config owns it */                                            \
    X(CONFIG_COUNT, uint64_t)                                                                                \
    X(CONFIG_UNSIGNED, unsigned)                                                                             \
    X(CONFIG_DOUBLE, double)                                                                                 \
    X(CONFIG_BYTES, uint64_t)    /* with a unit */                                                           \
    X(CONFIG_MEMORY, uint64_t)   /* bytes, or MEMORY_AUTO */                                                 \
    X(CONFIG_DURATION, uint64_t) /* milliseconds, with a unit */                                             \
    X(CONFIG_LOG_LEVEL, enum log_level)                                                                      \
    X(CONFIG_ON_LOST, enum on_lost)                                                                          \
    X(CONFIG_SCAN, enum scan_order)                                                                          \
    X(CONFIG_FOLLOW_BY, enum follow_by)                                                                      \
    X(CONFIG_BOOL, bool)      /* yes or no */                                                                \
    X(CONFIG_MODE, unsigned)  /* octal */                                                                    \
    X(CONFIG_ROLES, unsigned) /* a set of enum role, with what they imply */                                 \
    X(CONFIG_CLIENT_AUTH, enum client_auth)                                                                  \
    X(CONFIG_HTTP_METRICS, enum http_metrics)                                                                \
    X(CONFIG_LOG_FORMAT, enum log_format)
#define X(type, c) typedef c type##_MEMBER;
CONFIG_TYPES(X)
#undef X
#define MEMBER(section, name, type, member, ...) type##_MEMBER member;

/* [filter NAME]. */
struct config_filter {
    char *name;
    unsigned line; /* of its section, for messages */
#define ROW_OF_SERVICE(...)
#define ROW_OF_FILTER MEMBER
#define ROW_OF_USER(...)
#include "service/config/config_table.h"
};

/* [user NAME]; see users.h. */
struct config_user {
    char *name;
    unsigned line;
#define ROW_OF_SERVICE(...)
#define ROW_OF_FILTER(...)
#define ROW_OF_USER MEMBER
#include "service/config/config_table.h"
};

#define MEMORY_AUTO UINT64_MAX

struct config {
#define ROW_OF_SERVICE MEMBER
#define ROW_OF_FILTER(...)
#define ROW_OF_USER(...)
#include "service/config/config_table.h"
#undef MEMBER
    size_t filter_count;
    struct config_filter filter[CONFIG_FILTERS_MAX];
    size_t user_count;
    struct config_user user[CONFIG_USERS_MAX];

    atomic_uint references; /* the last member; see config_hold() */
};

/* Read @path into a new config, validated as a whole; the caller owns it. ERR_IO, ERR_CONFIG: the text is
 * "file:line: what; remedy". */
MUST_CHECK enum err config_read(struct config **out, const char *path, struct error *e);
/* The same from an open stream; @name stands for it in messages. */
MUST_CHECK enum err config_read_stream(struct config **out, FILE *from, const char *name, struct error *e);
void config_free(struct config *c);

/* Another one with the same values. NULL: no memory. */
struct config *config_copy(const struct config *from);
/* Once threads share a config nobody changes it. Each that uses it holds it, and whoever gives it back last
 * frees it. A new config is held once: by its owner. */
const struct config *config_hold(const struct config *c);
void config_release(const struct config *c);

/* The effective configuration as INI with every key, its default and help as comments; secrets masked. */
void config_print(const struct config *c, FILE *to);

/* Threads that serve clients: configured, or by the machine. */
unsigned config_threads(const struct config *c);
/* Connections that read a source at once, likewise. */
unsigned config_readers(const struct config *c);

/* Bytes: configured, or a part of the @all that the process may use (machine_memory()). */
uint64_t config_resident_memory(const struct config *c, uint64_t all);
uint64_t config_build_memory(const struct config *c, uint64_t all);
uint64_t config_client_memory_max(const struct config *c, uint64_t all);

/* Keys that the first generation of @f is made for at the least: configured, or the default. */
enum { CONFIG_CAPACITY_DEFAULT = 100, CONFIG_CAPACITY_SOURCED = 10000 };
uint64_t config_capacity(const struct config_filter *f);

struct nodes;
/* The nodes that @c names: those of the list, the seeds of the cluster, or, with *@sentinels, the names of
 * the masters. Without sentinels their count is 0. ERR_PARSE, as of nodes_parse(). */
MUST_CHECK enum err config_nodes(const struct config *c, struct nodes *nodes, struct nodes *sentinels,
                                 struct error *e);

const struct config_filter *config_find(const struct config *c, const char *name, size_t length);

/* "host:port" or ":port" or "[v6]:port" to parts; port 0 stands for any free one. ERR_PARSE. */
MUST_CHECK enum err config_split_address(const char *address, char *host, size_t host_size, uint16_t *port,
                                         struct error *e);
/* The next of a comma-separated list at *@at, without the blanks around it; false: that was the last. A
 * backslash stays, with what it stands before. */
bool config_next_item(const char **at, const char **item, size_t *length);
#endif
