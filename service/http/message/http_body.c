/* SPDX-License-Identifier: MIT */
#include "service/http/message/http_body.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>
#include "base/utf8.h"
#include "service/protocol/base64.h"

enum { EXPANSION_MAX = 32768, VALUES_MAX = HTTP_KEYS_MAX + 64, KEYS_FIRST = 64 };

/* --- before it is parsed --- */

/* Bound the number and the depth of values before parsing, as each value takes several times its text in
 * memory. The count of commas and brackets is never too low. */
static enum err bound_values(const char *text, size_t length, struct error *e)
{
    size_t values = 0, depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        else if (quoted)
            continue;
        else if (c == ',')
            values++;
        else if (c == '[' || c == '{')
            values += ++depth > 0;
        else if ((c == ']' || c == '}') && depth > 0)
            depth--;
        if (depth > HTTP_BODY_DEPTH_MAX)
            return error_set(e, ERR_PARSE, "byte %zu: arrays and objects are nested more than %d deep", i,
                             HTTP_BODY_DEPTH_MAX);
        if (values > VALUES_MAX)
            return error_set(e, ERR_RANGE, "more than %d keys; send them in several requests", HTTP_KEYS_MAX);
    }
    return ERR_OK;
}

/* --- members --- */

struct parse {
    struct http_body *out;
    const struct member *member;
    struct error *e;
};

struct member {
    const char *name;
    enum err (*take)(const struct parse *p, const json_t *value);
    size_t to;           /* offset in struct http_body */
    int64_t least, most; /* bounds of an integer */
    unsigned kinds;      /* set of the kinds of bodies that may have this member */
    bool base64;         /* strings are bytes in base64 */
};

static void *target(const struct parse *p)
{
    return (char *)p->out + p->member->to;
}

static enum err refuse(const struct parse *p, const char *what)
{
    return error_set(p->e, ERR_RANGE, "'%s' %s", p->member->name, what);
}

/* Append @text, or the bytes that it encodes. */
static enum err take_bytes(const struct parse *p, const json_t *text, struct http_key *to)
{
    struct buffer *bytes = &p->out->bytes;
    const char *from = json_string_value(text);
    size_t length = json_string_length(text);
    to->offset = bytes->length;
    if (!p->member->base64)
        buffer_append(bytes, from, length);
    else if (!base64_decode(bytes, from, length))
        return refuse(p, "is not base64 (RFC 4648, padded)");
    if (buffer_failed(bytes))
        return error_set(p->e, ERR_NOMEM, "out of memory");
    to->length = bytes->length - to->offset;
    return ERR_OK;
}

static enum err take_keys(const struct parse *p, const json_t *value)
{
    struct http_body *out = p->out;
    size_t count = json_array_size(value);
    if (!json_is_array(value))
        return refuse(p, "is not an array of strings");
    if (out->keys != NULL)
        return refuse(p, "is given, but the keys are given in the other form, too");
    if (count > HTTP_KEYS_MAX)
        return error_set(p->e, ERR_RANGE, "%zu keys, more than %d; send them in several requests", count,
                         HTTP_KEYS_MAX);
    out->keys = calloc(count + 1, sizeof(*out->keys));
    if (out->keys == NULL)
        return error_set(p->e, ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < count; i++) {
        const json_t *key = json_array_get(value, i);
        if (!json_is_string(key))
            return error_set(p->e, ERR_RANGE, "'%s': item %zu is not a string", p->member->name, i);
        enum err code = take_bytes(p, key, &out->keys[i]);
        if (code != ERR_OK)
            return error_prefix(p->e, code, "item %zu", i);
    }
    out->key_count = count;
    return ERR_OK;
}

static enum err take_name(const struct parse *p, const json_t *value)
{
    if (!json_is_string(value) || json_string_length(value) == 0)
        return refuse(p, "is not a string, or is empty");
    if (p->out->name.length > 0)
        return refuse(p, "is given, but the name is given in the other form, too");
    return take_bytes(p, value, &p->out->name);
}

static enum err take_integer(const struct parse *p, const json_t *value)
{
    const struct member *m = p->member;
    json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < m->least || n > m->most)
        return error_set(p->e, ERR_RANGE, "'%s' is not an integer from %" PRIi64 " to %" PRIi64, m->name,
                         m->least, m->most);
    *(uint64_t *)target(p) = (uint64_t)n;
    return ERR_OK;
}

static enum err take_error_rate(const struct parse *p, const json_t *value)
{
    double rate = json_number_value(value);
    if (!json_is_number(value) || !(rate > 0 && rate < 1))
        return refuse(p, "is not a number above 0 and below 1");
    *(double *)target(p) = rate;
    return ERR_OK;
}

/* Take a list of node names, which have no commas. */
static enum err take_nodes(const struct parse *p, const json_t *value)
{
    struct buffer *bytes = &p->out->bytes;
    size_t count = json_array_size(value);
    if (!json_is_array(value) || count == 0)
        return refuse(p, "is not an array of at least one string");
    p->out->nodes.offset = bytes->length;
    for (size_t i = 0; i < count; i++) {
        const json_t *name = json_array_get(value, i);
        if (!json_is_string(name) || strlen(json_string_value(name)) != json_string_length(name))
            return refuse(p, "is not an array of strings");
        buffer_printf(bytes, "%s%s", i == 0 ? "" : ",", json_string_value(name));
    }
    p->out->nodes.length = bytes->length - p->out->nodes.offset;
    buffer_append(bytes, "", 1);
    return buffer_failed(bytes) ? error_set(p->e, ERR_NOMEM, "out of memory") : ERR_OK;
}

static enum err take_flag(const struct parse *p, const json_t *value)
{
    if (!json_is_boolean(value))
        return refuse(p, "is not true or false");
    *(bool *)target(p) = json_is_true(value);
    return ERR_OK;
}

#define TO(member) offsetof(struct http_body, member)

static const struct member members[] = {
    {"keys", take_keys, .kinds = HTTP_BODY_KEYS, .base64 = false},
    {"keys_base64", take_keys, .kinds = HTTP_BODY_KEYS, .base64 = true},
    {"name", take_name, .kinds = HTTP_BODY_CREATE, .base64 = false},
    {"name_base64", take_name, .kinds = HTTP_BODY_CREATE, .base64 = true},
    {"capacity", take_integer, .kinds = HTTP_BODY_CREATE | HTTP_BODY_REBUILD, .to = TO(capacity), .least = 1,
     .most = INT64_MAX},
    {"error_rate", take_error_rate, .kinds = HTTP_BODY_CREATE | HTTP_BODY_REBUILD, .to = TO(error_rate)},
    {"expansion", take_integer, .kinds = HTTP_BODY_CREATE, .to = TO(expansion), .least = 1,
     .most = EXPANSION_MAX},
    {"nonscaling", take_flag, .kinds = HTTP_BODY_CREATE, .to = TO(nonscaling)},
    {"nodes", take_nodes, .kinds = HTTP_BODY_REBUILD, .to = TO(nodes)},
    {"hold", take_flag, .kinds = HTTP_BODY_REBUILD, .to = TO(hold)},
    {"dry_run", take_flag, .kinds = HTTP_BODY_REBUILD, .to = TO(dry_run)},
    {"verify_full", take_flag, .kinds = HTTP_BODY_REBUILD | HTTP_BODY_VERIFY, .to = TO(verify_full)},
    {"rows_per_second_limit", take_integer, .kinds = HTTP_BODY_THROTTLE, .to = TO(rows_per_second),
     .least = 0, .most = INT64_MAX},
};

enum { MEMBERS = sizeof(members) / sizeof(members[0]) };

/* --- the whole body --- */

static enum err check_whole(const struct http_body *b, enum http_body_kind kind, const json_t *root,
                            struct error *e)
{
    if (kind == HTTP_BODY_KEYS && b->keys == NULL)
        return error_set(e, ERR_RANGE, "'keys' or 'keys_base64' is missing");
    if (kind == HTTP_BODY_CREATE && b->name.length == 0)
        return error_set(e, ERR_RANGE, "'name' or 'name_base64' is missing");
    if (kind == HTTP_BODY_THROTTLE && json_object_get(root, "rows_per_second_limit") == NULL)
        return error_set(e, ERR_RANGE, "'rows_per_second_limit' is missing");
    if (b->nonscaling && b->expansion != 0)
        return error_set(e, ERR_RANGE, "'nonscaling' filters cannot have an 'expansion'");
    return ERR_OK;
}

static enum err refuse_member(const char *name, enum http_body_kind kind, struct error *e)
{
    SCOPED(buffer_fini) struct buffer taken = {0};
    for (size_t i = 0; i < MEMBERS; i++)
        if ((members[i].kinds & kind) != 0)
            buffer_printf(&taken, "%s%s", taken.length == 0 ? "" : ", ", members[i].name);
    return error_set(e, ERR_RANGE, "'%.100s' is not a member that this route takes, which are: %s", name,
                     taken.length == 0 ? "none" : buffer_text(&taken));
}

static enum err take_object(struct http_body *out, enum http_body_kind kind, json_t *root, struct error *e)
{
    const char *name;
    json_t *value;
    if (!json_is_object(root))
        return error_set(e, ERR_RANGE, "the body is not an object");
    json_object_foreach(root, name, value)
    {
        size_t i = 0;
        while (i < MEMBERS && ((members[i].kinds & kind) == 0 || strcmp(members[i].name, name) != 0))
            i++;
        if (i == MEMBERS)
            return refuse_member(name, kind, e);
        enum err code = members[i].take(&(struct parse){.out = out, .member = &members[i], .e = e}, value);
        if (code != ERR_OK)
            return code;
    }
    return check_whole(out, kind, root, e);
}

enum err http_body_parse_tree(struct http_body *out, enum http_body_kind kind, const char *text,
                              size_t length, struct error *e)
{
    json_error_t why;
    if (length == 0) {
        text = "{}";
        length = 2;
    }
    enum err code = bound_values(text, length, e);
    if (code != ERR_OK)
        return code;
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    if (root == NULL && json_error_code(&why) == json_error_out_of_memory)
        return error_set(e, ERR_NOMEM, "out of memory");
    if (root == NULL)
        return error_set(e, ERR_PARSE, "line %d, column %d, byte %d: %s", why.line, why.column, why.position,
                         why.text);
    code = take_object(out, kind, root, e);
    json_decref(root);
    return code;
}

/* --- fast path: keys in the usual form --- */

struct plain {
    const char *text;
    size_t at, length;
};

static void skip_blanks(struct plain *p)
{
    for (; p->at < p->length; p->at++) {
        char c = p->text[p->at];
        if (c != ' ' && c != '\t' && c != '\n' && c != '\r')
            return;
    }
}

/* Take blanks, then the character @c, then blanks. */
static bool take_byte(struct plain *p, char c)
{
    skip_blanks(p);
    if (p->at == p->length || p->text[p->at] != c)
        return false;
    p->at++;
    skip_blanks(p);
    return true;
}

/* True if the string needs no unescaping. Eight bytes are tested at a time, as nearly all strings are
 * ASCII. */
static bool is_plain(const char *text, size_t length)
{
    const uint64_t each = UINT64_C(0x0101010101010101), high = each << 7;
    uint64_t word = 0, unusual = 0;
    size_t at = 0;
    for (; length - at >= sizeof(word); at += sizeof(word)) {
        memcpy(&word, text + at, sizeof(word));
        unusual |= (word | (word - each * ' ') | ((word ^ each * '\\') - each)) & high;
    }
    for (; at < length; at++)
        unusual |= (unsigned char)text[at] >= 0x80 || text[at] == '\\' || text[at] < ' ';
    if (unusual == 0)
        return true;
    for (at = 0; at < length; at++)
        if (text[at] == '\\' || (unsigned char)text[at] < ' ')
            return false;
    return utf8_valid(text, length);
}

/* Take a string that needs no unescaping. */
static bool take_plain(struct plain *p, struct http_key *to)
{
    if (p->at == p->length || p->text[p->at] != '"')
        return false;
    size_t from = p->at + 1;
    const char *end = memchr(p->text + from, '"', p->length - from);
    if (end == NULL)
        return false;
    *to = (struct http_key){.offset = from, .length = (size_t)(end - p->text) - from};
    p->at = from + to->length + 1;
    return is_plain(p->text + from, to->length);
}

/* Make room for one more key. */
static bool widen(struct http_body *out, size_t *room)
{
    if (out->key_count < *room)
        return true;
    size_t wider = *room == 0 ? KEYS_FIRST : *room * 2;
    struct http_key *keys = realloc(out->keys, wider * sizeof(*keys));
    if (keys == NULL)
        return false;
    out->keys = keys;
    *room = wider;
    return true;
}

/* Parse {"keys":["a","b"]}: keys without escapes, and no other member. The keys lie in a copy of the text.
 * False: the body has another form, or there is no memory; http_body_parse_tree() finds out which. */
static bool take_plain_keys(struct http_body *out, const char *text, size_t length)
{
    struct plain p = {.text = text, .length = length};
    size_t room = 0;
    bool more = true;
    struct http_key name = {0};
    if (!take_byte(&p, '{') || !take_plain(&p, &name) || name.length != 4 ||
        memcmp(text + name.offset, "keys", name.length) != 0 || !take_byte(&p, ':') || !take_byte(&p, '['))
        return false;
    for (; more; more = take_byte(&p, ','), out->key_count++)
        if (out->key_count == HTTP_KEYS_MAX || !widen(out, &room) ||
            !take_plain(&p, &out->keys[out->key_count]))
            return false;
    if (!take_byte(&p, ']') || !take_byte(&p, '}') || p.at != length)
        return false;
    buffer_append(&out->bytes, text, length);
    return !buffer_failed(&out->bytes);
}

enum err http_body_parse(struct http_body *out, enum http_body_kind kind, const char *text, size_t length,
                         struct error *e)
{
    if (kind == HTTP_BODY_KEYS && take_plain_keys(out, text, length))
        return ERR_OK;
    http_body_fini(out);
    return http_body_parse_tree(out, kind, text, length, e);
}

void http_body_fini(struct http_body *body)
{
    buffer_fini(&body->bytes);
    free(body->keys);
    *body = (struct http_body){0};
}
