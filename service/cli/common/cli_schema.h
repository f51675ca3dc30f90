/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CLI_COMMON_CLI_SCHEMA_H
#define SERVICE_CLI_COMMON_CLI_SCHEMA_H
/* The form of --json output, from outputs.txt: types of values, and the reference. */
#include <stdbool.h>
#include <stddef.h>

enum { SCHEMA_FIELDS = 7, SCHEMA_MEMBERS_MAX = 192, SCHEMA_LINE_MAX = 256 };

/* A row of outputs.txt, which describes its fields; missing ones are "". They lie in @line, so a row is not
 * copied. */
struct schema_row {
    char line[SCHEMA_LINE_MAX];
    const char *field[SCHEMA_FIELDS];
};
enum { MEMBER_NAME, MEMBER_TYPE, MEMBER_MEANING, MEMBER_SHAPE, MEMBER_LABEL, MEMBER_KIND, MEMBER_USUAL };

struct schema_shape {
    size_t count;
    struct schema_member {
        struct schema_row row; /* without the '!' behind the name */
        bool always;           /* never missing */
        char heading[32];      /* the sheet's heading above it */
    } member[SCHEMA_MEMBERS_MAX];
};

/* The next output of @command from *@at on; *@at is NULL before the first. False: there are no more. */
bool schema_next_output(const char **at, const char *command, struct schema_row *out);
/* Load the members of a shape; an unknown shape has none. */
void schema_load(struct schema_shape *out, const char *name);
#endif
