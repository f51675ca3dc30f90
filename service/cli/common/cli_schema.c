/* SPDX-License-Identifier: MIT */
/* Prints the daemon's replies as JSON, with the types in outputs.txt. */
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "service/cli/common/cli.h"
#include "service/cli/common/cli_schema.h"

extern const char embedded_outputs[];

/* Read the row at *@at and move *@at behind it. False: the end. */
static bool next_row(const char **at, struct schema_row *row)
{
    size_t length = strcspn(*at, "\n");
    char *rest = row->line;
    if (**at == '\0')
        return false;
    (void)snprintf(row->line, sizeof(row->line), "%.*s", (int)length, *at);
    *at += length + ((*at)[length] == '\n');
    for (size_t i = 0; i < SCHEMA_FIELDS; i++)
        row->field[i] = rest != NULL ? strsep(&rest, "|") : "";
    return true;
}

bool schema_next_output(const char **at, const char *command, struct schema_row *out)
{
    if (*at == NULL)
        *at = embedded_outputs;
    while (next_row(at, out))
        if (strcmp(out->field[0], ">") == 0 && strcmp(out->field[1], command) == 0)
            return true;
    return false;
}

void schema_load(struct schema_shape *out, const char *name)
{
    const char *at = embedded_outputs;
    char heading[sizeof(out->member->heading)] = "";
    bool ours = false;
    struct schema_member *m = out->member;
    for (out->count = 0; out->count < SCHEMA_MEMBERS_MAX && next_row(&at, &m->row);) {
        if (strcmp(m->row.field[0], "=") == 0) {
            ours = strcmp(m->row.field[1], name) == 0;
        } else if (strcmp(m->row.field[0], "-") == 0) {
            (void)snprintf(heading, sizeof(heading), "%s", m->row.field[1]);
        } else if (ours) {
            char *mark = strchr(m->row.line, '!'); /* the meaning may have one, too */
            m->always = mark != NULL && mark + 2 == m->row.field[MEMBER_TYPE];
            if (m->always)
                *mark = '\0';
            memcpy(m->heading, heading, sizeof(heading));
            m = &out->member[++out->count];
        }
    }
}

/* True if the member's type has @word. @member NULL: false. */
static bool has(const struct schema_row *member, const char *word)
{
    return member != NULL && strstr(member->field[MEMBER_TYPE], word) != NULL;
}

/* --- replies as JSON --- */

bool cli_is_list(const redisReply *r)
{
    return r->type == REDIS_REPLY_ARRAY && r->elements % 2 == 0 &&
           (r->elements == 0 || r->element[0]->type == REDIS_REPLY_STRING);
}

bool cli_are_lists(const redisReply *r)
{
    bool good = r->type == REDIS_REPLY_ARRAY;
    for (size_t i = 0; good && i < r->elements; i++)
        good = cli_is_list(r->element[i]);
    return good;
}

static void write_object(struct json *j, const redisReply *list, const struct schema_shape *shape);

static void write_value(struct json *j, const redisReply *r, const struct schema_row *member);

static void write_array(struct json *j, const redisReply *r, const struct schema_row *member)
{
    struct schema_shape shape = {.count = 0};
    if (member != NULL)
        schema_load(&shape, member->field[MEMBER_SHAPE]);
    json_open(j, '[');
    for (size_t i = 0; i < r->elements; i++)
        if (cli_is_list(r->element[i]))
            write_object(j, r->element[i], &shape);
        else
            write_value(j, r->element[i], member);
    json_close(j, ']');
}

/* True for a whole number that many JSON readers cannot represent. */
static bool is_beyond(const redisReply *r)
{
    uint64_t n;
    return r->type == REDIS_REPLY_STRING && number_u64(r->str, (size_t)r->len, &n) && n > INT64_MAX;
}

/* @member NULL: the value is not listed. */
static void write_value(struct json *j, const redisReply *r, const struct schema_row *member)
{
    char text[24];
    bool name = member != NULL ? has(member, "string") : is_beyond(r);
    if (r->type == REDIS_REPLY_INTEGER && has(member, "boolean"))
        json_bool(j, r->integer != 0);
    else if (r->type == REDIS_REPLY_INTEGER && name)
        json_string(j, text, (size_t)snprintf(text, sizeof(text), "%lld", r->integer));
    else if (r->type == REDIS_REPLY_INTEGER)
        json_integer(j, r->integer);
    else if (r->type == REDIS_REPLY_ARRAY)
        write_array(j, r, member);
    else if (r->type == REDIS_REPLY_NIL)
        json_null(j);
    else if (name)
        json_string(j, r->str, (size_t)r->len);
    else
        json_number_or_string(j, r->str, (size_t)r->len);
}

static void write_object(struct json *j, const redisReply *list, const struct schema_shape *shape)
{
    json_open(j, '{');
    for (size_t i = 0; i + 1 < list->elements; i += 2) {
        const redisReply *key = list->element[i];
        if (key->type != REDIS_REPLY_STRING && key->type != REDIS_REPLY_STATUS)
            continue;
        const struct schema_row *member = NULL; /* not listed */
        for (size_t k = 0; k < shape->count; k++)
            if (strcmp(shape->member[k].row.field[MEMBER_NAME], key->str) == 0)
                member = &shape->member[k].row;
        json_name(j, key->str);
        write_value(j, list->element[i + 1], member);
    }
    json_close(j, '}');
}

void cli_print_json(const redisReply *reply, const char *shape)
{
    SCOPED(buffer_fini) struct buffer b = {0};
    struct json j = {.out = &b};
    struct schema_shape members;
    schema_load(&members, shape);
    if (cli_is_list(reply) && reply->elements != 0) {
        write_object(&j, reply, &members);
    } else {
        json_open(&j, '[');
        for (size_t i = 0; i < reply->elements; i++)
            write_object(&j, reply->element[i], &members);
        json_close(&j, ']');
    }
    (void)puts(buffer_text(&b));
}

void cli_print_outcome(const struct cli *cli, const char *name, const uint64_t *number)
{
    SCOPED(buffer_fini) struct buffer b = {0};
    struct json j = {.out = &b};
    json_open(&j, '{');
    json_text(&j, "filter", cli->arguments[0]);
    json_name(&j, name);
    if (number == NULL)
        json_bool(&j, true);
    else
        json_integer(&j, (int64_t)*number);
    json_close(&j, '}');
    (void)puts(buffer_text(&b));
}
