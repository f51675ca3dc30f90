/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CLI_SCHEMA_H
#define SERVICE_CLI_SCHEMA_H
/* What --json prints, by outputs.txt: the types of what is printed, and the reference. */
#include <stdbool.h>
#include <stddef.h>

enum { SCHEMA_FIELDS = 7, SCHEMA_MEMBERS_MAX = 192 };

struct schema_text {
    const char *text;
    size_t length;
};

/* A row of outputs.txt, which says what its fields are; those that it does not have are empty. */
struct schema_row {
    struct schema_text field[SCHEMA_FIELDS];
};
enum { MEMBER_NAME, MEMBER_TYPE, MEMBER_MEANING, MEMBER_SHAPE, MEMBER_LABEL, MEMBER_KIND, MEMBER_USUAL };

struct schema_shape {
    size_t count;
    struct schema_member {
        struct schema_row row;      /* without the ! behind the name */
        bool always;                /* never missing */
        struct schema_text heading; /* of a sheet, under which it stands */
    } member[SCHEMA_MEMBERS_MAX];
};

bool schema_is(struct schema_text text, const char *word);
/* The next output of @command, from *@at on, which is NULL before the first one. False: there are no more. */
bool schema_next_output(const char **at, const char *command, struct schema_row *out);
/* The members of a shape; none where it is not known. */
void schema_load(struct schema_shape *out, struct schema_text name);
#endif
