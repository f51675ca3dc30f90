/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CONFIG_FILE_H
#define SERVICE_CONFIG_FILE_H
/* An INI file as sections of known keys with their texts and line numbers, before any value is read. Private
 * to config*.c. */
#include <stdio.h>
#include "base/error.h"
#include "service/config/config_keys.h"

struct config_entry {
    char *text; /* NULL: the key is not in the file */
    unsigned line;
};

struct config_part {
    enum config_section kind;
    char *name; /* of a filter or user; NULL otherwise */
    unsigned line;
    struct config_entry *entries; /* one for each row of config_keys */
};

struct config_file {
    const char *name; /* for messages; the caller's */
    struct config_part *parts;
    size_t count;
};

/* The caller calls config_file_fini() in any case. ERR_IO, ERR_CONFIG, ERR_NOMEM: "file:line: what; remedy".
 */
MUST_CHECK enum err config_file_read(struct config_file *f, FILE *from, const char *name, struct error *e);
void config_file_fini(struct config_file *f);

/* The section's part; NULL: not in the file. @name is for filters and users. */
const struct config_part *config_file_find(const struct config_file *f, enum config_section kind,
                                           const char *name);
#endif
