/* SPDX-License-Identifier: MIT */
/* Bodies of HTTP requests: no bytes may crash the parser. The keys of an accepted body lie within its bytes.
 * A refusal has a text. That text, like any bytes, is encoded as valid JSON. The first byte of the input
 * selects the kind of body. */
#include <string.h>

#include <jansson.h>

#include "service/http/message/http_body.h"
#include "service/protocol/json.h"
#include "tests/fuzz/fuzz.h"

static void check_key(const struct http_body *b, struct http_key key)
{
    fuzz_check(key.offset <= b->bytes.length && key.length <= b->bytes.length - key.offset);
}

static void check_taken(const struct http_body *b, enum http_body_kind kind)
{
    fuzz_check(b->key_count <= HTTP_KEYS_MAX && (kind != HTTP_BODY_KEYS || b->keys != NULL));
    for (size_t i = 0; i < b->key_count; i++)
        check_key(b, b->keys[i]);
    check_key(b, b->name);
    fuzz_check(kind != HTTP_BODY_CREATE || b->name.length > 0);
    fuzz_check(b->error_rate >= 0 && b->error_rate < 1);
}

/* A body of the usual form is parsed without a JSON tree. The result must be the same as with one. */
static void check_same(const struct http_body *b, enum err code, enum http_body_kind kind, const char *text,
                       size_t length)
{
    struct http_body tree = {0};
    struct error e;
    fuzz_check(http_body_parse_tree(&tree, kind, text, length, &e) == code);
    fuzz_check(code != ERR_OK || tree.key_count == b->key_count);
    for (size_t i = 0; code == ERR_OK && i < b->key_count; i++)
        fuzz_check(
            tree.keys[i].length == b->keys[i].length &&
            (b->keys[i].length == 0 || memcmp(tree.bytes.data + tree.keys[i].offset,
                                              b->bytes.data + b->keys[i].offset, b->keys[i].length) == 0));
    http_body_fini(&tree);
}

static void check_written(const char *bytes, size_t length)
{
    struct buffer out = {0};
    buffer_puts(&out, "[");
    json_put_text(&out, bytes, length);
    buffer_puts(&out, ",");
    json_put_bytes(&out, bytes, length);
    buffer_puts(&out, "]");
    json_t *root = json_loadb(out.data, out.length, JSON_ALLOW_NUL, NULL);
    fuzz_check(root != NULL && json_array_size(root) == 2);
    const json_t *exact = json_array_get(root, 1);
    fuzz_check(json_is_object(exact) ||
               (json_string_length(exact) == length && memcmp(json_string_value(exact), bytes, length) == 0));
    json_decref(root);
    buffer_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    enum http_body_kind kind = (enum http_body_kind)(1u << data[0] % 6);
    const char *text = (const char *)data + 1;
    size_t length = size - 1;
    struct http_body body = {0};
    struct error e = {.text = ""};
    enum err code = http_body_parse(&body, kind, text, length, &e);
    fuzz_check(code == ERR_OK || code == ERR_PARSE || code == ERR_RANGE);
    check_same(&body, code, kind, text, length);
    if (code == ERR_OK)
        check_taken(&body, kind);
    else
        fuzz_check(e.text[0] != '\0');
    check_written(e.text, strlen(e.text));
    check_written(text, length);
    http_body_fini(&body);
    return 0;
}
