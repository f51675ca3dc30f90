/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CONFIG_KEYS_H
#define SERVICE_CONFIG_KEYS_H
/* The table of configuration keys, and how a value of each type is read, checked and printed. Private to
 * config*.c and its tests. To add a key: a row in config_table.h. */
#include "base/buffer.h"
#include "service/config/config.h"

/* Strings that stand for what no secret may contain, so that a printed configuration is not taken for a real
 * one. */
#define CONFIG_MASK "***"

enum config_section {
    CONFIG_SERVICE,
    CONFIG_REDIS,
    CONFIG_POSTGRES,
    CONFIG_EXPANSION,
    CONFIG_FILTER, /* any number of these and the following, each with a name */
    CONFIG_USER,
    CONFIG_SECTIONS
};

#define X(type, c) type,
enum config_type { CONFIG_TYPES(X) };
#undef X

#define CONFIG_NODES_DEFAULT "redis://127.0.0.1:6379"

enum config_flag {
    CONFIG_SECRET = 1,      /* printed as a mask */
    CONFIG_SECRET_PART = 2, /* a URL or connection string: the password in it is masked */
    CONFIG_ABOVE_MIN = 4,   /* the lower bound itself is not allowed */
    CONFIG_BELOW_MAX = 8,   /* nor the upper one */
    CONFIG_RELOADABLE = 16, /* may change while the daemon runs */
    /* ... but by the file alone: it becomes SQL, a path that the daemon opens, or what it trusts. Whoever has
     * the role admin does not have the rights of the database's role, of the daemon's files, and of who runs
     * it. */
    CONFIG_FILE_ONLY = 32
};

struct config_key {
    enum config_section section;
    enum config_type type;
    const char *name;
    size_t offset;        /* in struct config, or in struct config_filter or config_user */
    const char *standard; /* the default, as it would stand in the file */
    double min, max;      /* of numbers */
    const char *help;
    unsigned flags;
};

extern const struct config_key config_keys[];
extern const size_t config_key_count;

/* "service", ..., "user". */
const char *config_section_name(enum config_section section);

/* Sections with a name, of which there may be several: from CONFIG_FILTER on. Their items in a configuration
 * are numbered; NULL where nothing has that number, or that name. */
struct config_item { /* what every item begins with */
    char *name;
    unsigned line;
};
bool config_section_is_named(enum config_section section);
size_t config_item_count(const struct config *c, enum config_section section);
struct config_item *config_item(const struct config *c, enum config_section section, size_t number);
struct config_item *config_item_find(const struct config *c, enum config_section section, const char *name,
                                     size_t length);
/* One more, zeroed. NULL: there are as many as there may be. */
struct config_item *config_item_add(struct config *c, enum config_section section);

/* NULL: no such key. */
const struct config_key *config_key_find(enum config_section section, const char *name);

/* What somebody who wrote @name in @section may have meant: a key of another section with that name, or one
 * of this section within a small edit distance; NULL: nothing is near. */
const struct config_key *config_key_nearest(enum config_section section, const char *name);

/* Read @text into the member at @base + offset. ERR_CONFIG: "what; remedy"; a secret's text is not repeated.
 */
MUST_CHECK enum err config_key_set(const struct config_key *k, void *base, const char *text, struct error *e);

/* Append the member's value as config_key_set() would take it; secrets masked. */
void config_key_format(const struct config_key *k, const void *base, struct buffer *out);

/* Whether the member has the same value in both. */
bool config_key_equal(const struct config_key *k, const void *a, const void *b);

/* What somebody is told to give: "a size such as 512MiB". */
const char *config_type_expected(enum config_type type);

/* "1 .. 64", for numbers; empty for other types. */
void config_key_bounds(const struct config_key *k, struct buffer *out);

/* Append @text, a URL list or connection string, with each password replaced by CONFIG_MASK. Where it is
 * doubtful what is a password, more is masked rather than less. */
void config_mask(struct buffer *out, const char *text);
#endif
