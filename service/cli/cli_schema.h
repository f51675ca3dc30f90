/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CLI_SCHEMA_H
#define SERVICE_CLI_SCHEMA_H
/* What --json prints, as tables: they make the output's types, the reference, and the tests of both. A member
 * keeps its name, type and meaning; new ones may come. */
#include <stdbool.h>
#include <stddef.h>

enum {
    JSON_STRING = 1,
    JSON_INTEGER = 2,
    JSON_NUMBER = 4,
    JSON_BOOL = 8,
    JSON_STRINGS = 16, /* an array of strings */
    JSON_OBJECTS = 32, /* an array of objects, of the member's shape */
    JSON_OBJECT = 64,  /* one, of the member's shape */
    JSON_NULL = 128,   /* or null: not known */
    JSON_ALWAYS = 256  /* never missing */
};

struct json_shape;

struct json_member {
    const char *name;
    unsigned type;
    const char *meaning;
    const struct json_shape *shape;
};

struct json_shape {
    const char *name;
    const struct json_member *member;
    size_t count;
};

/* One form of a command's output. */
struct json_output {
    const char *when; /* with which arguments; "": always */
    const struct json_shape *shape;
    bool array; /* of such objects */
};

extern const struct json_shape json_filter, json_run, json_plan, json_estimate, json_coordinator, json_node,
    json_finding, json_error;
extern const struct json_shape json_check, json_add, json_import, json_restore, json_password, json_token;
extern const struct json_shape json_config, json_bench;

/* The outputs of a command; @count: how many, 0 where it has none. */
const struct json_output *json_outputs(const char *command, size_t *count);

/* NULL: not listed. */
const struct json_member *json_member_find(const struct json_shape *shape, const char *name);

/* "string or null", "array of objects". @out: at least 64 bytes. */
const char *json_type_text(unsigned type, char *out, size_t size);
#endif
