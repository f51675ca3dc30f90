/* SPDX-License-Identifier: MIT */
#include "service/cli/cli_schema.h"

#include <string.h>

extern const char embedded_outputs[];

/* The row at *@at, which moves behind it. False: the end. */
static bool next_row(const char **at, struct schema_row *row)
{
    if (**at == '\0')
        return false;
    *row = (struct schema_row){0};
    for (size_t i = 0; i < SCHEMA_FIELDS; i++) {
        row->field[i] = (struct schema_text){*at, strcspn(*at, "|\n")};
        *at += row->field[i].length;
        if (*(*at)++ == '\n')
            break;
    }
    return true;
}

bool schema_is(struct schema_text text, const char *word)
{
    return strlen(word) == text.length && memcmp(text.text, word, text.length) == 0;
}

bool schema_next_output(const char **at, const char *command, struct schema_row *out)
{
    if (*at == NULL)
        *at = embedded_outputs;
    while (next_row(at, out))
        if (schema_is(out->field[0], ">") && schema_is(out->field[1], command))
            return true;
    return false;
}

void schema_load(struct schema_shape *out, struct schema_text name)
{
    const char *at = embedded_outputs;
    struct schema_row row;
    bool ours = false;
    out->count = 0;
    while (next_row(&at, &row)) {
        if (schema_is(row.field[0], "=")) {
            ours =
                row.field[1].length == name.length && memcmp(row.field[1].text, name.text, name.length) == 0;
        } else if (ours && out->count < SCHEMA_MEMBERS_MAX) {
            struct schema_text *member = &row.field[MEMBER_NAME];
            out->always[out->count] = member->text[member->length - 1] == '!';
            member->length -= out->always[out->count];
            out->member[out->count++] = row;
        }
    }
}

const struct schema_row *schema_find(const struct schema_shape *shape, const char *name)
{
    for (size_t i = 0; i < shape->count; i++)
        if (schema_is(shape->member[i].field[MEMBER_NAME], name))
            return &shape->member[i];
    return NULL;
}

bool schema_has(const struct schema_row *member, const char *word)
{
    struct schema_text type = member == NULL ? (struct schema_text){"", 0} : member->field[MEMBER_TYPE];
    return type.length > 0 && memmem(type.text, type.length, word, strlen(word)) != NULL;
}
