/* SPDX-License-Identifier: MIT */
#include "shard/view/view_load.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/random.h"
#include "shard/log/lane_sync.h"
#include "shard/redis/ahead.h"

enum { FIELDS_MAX = 1024 };

/* --- kept fields --- */

static void keep_text(struct buffer *kept, const char *text, size_t length)
{
    uint32_t n = (uint32_t)length;
    buffer_append(kept, &n, sizeof(n));
    buffer_append(kept, text, length);
}

static void keep(struct buffer *kept, const redisReply *reply)
{
    buffer_clear(kept);
    for (size_t i = 0; i < reply->elements; i++)
        keep_text(kept, reply->element[i]->str, reply->element[i]->len);
}

static const char *kept_text(const char **at, size_t *length)
{
    const char *text = *at + sizeof(uint32_t);
    uint32_t n;
    memcpy(&n, *at, sizeof(n));
    *length = n;
    *at = text + n;
    return text;
}

enum err log_view_again(struct log_view *out, const struct buffer *kept, struct error *e)
{
    struct view_field fields[FIELDS_MAX];
    size_t count = 0;
    const char *at = kept->data;
    while (at != kept->data + kept->length) {
        struct view_field *f = &fields[count++];
        f->name = kept_text(&at, &f->name_length);
        f->value = kept_text(&at, &f->value_length);
    }
    return log_view_parse(out, fields, count, e);
}

/* --- loading --- */

enum err log_view_another(const struct names *names, struct error *e)
{
    return error_set(e, ERR_FENCED, "the view of filter \"%.*s\" is another one by now",
                     (int)names->filter_length, names->filter);
}

static enum err take(struct log_view *out, const redisReply *reply, struct error *e)
{
    struct view_field fields[FIELDS_MAX];
    size_t count = 0;
    if (reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "WRONGTYPE", 9) == 0)
        return error_set(e, ERR_WRONG_TYPE, "it is not a hash");
    bool is_hash = reply->type == REDIS_REPLY_ARRAY && reply->elements % 2 == 0;
    for (size_t i = 0; is_hash && i < reply->elements; i++)
        is_hash = reply->element[i]->type == REDIS_REPLY_STRING;
    if (!is_hash)
        return error_set(e, ERR_PARSE, "the reply is not a hash");
    if (reply->elements > (size_t)2 * FIELDS_MAX)
        return error_set(e, ERR_PARSE, "it has more than %d fields", FIELDS_MAX);
    for (size_t i = 0; i < reply->elements; i += 2)
        fields[count++] = (struct view_field){.name = reply->element[i]->str,
                                              .name_length = reply->element[i]->len,
                                              .value = reply->element[i + 1]->str,
                                              .value_length = reply->element[i + 1]->len};
    return log_view_parse(out, fields, count, e);
}

/* Complete the error of a view that cannot be parsed: name the key, and say what to do. */
static enum err tell_what_to_do(struct error *e, const char *key)
{
    const struct error why = e == NULL ? (struct error){""} : *e;
    return error_set(e, ERR_PARSE, "key %.200s in Redis: view is damaged: %.300s. Write the field as it was",
                     key, why.text);
}

static const char load_command[] = "HGETALL %s";

static enum err load(struct sync_client *l, const struct names *names, const char *what, struct log_view *out,
                     struct buffer *kept, struct error *e)
{
    unsigned home = sync_client_home(l, names);
    struct key_name key;
    SCOPED(scope_reply) redisReply *reply = NULL;
    names_filter_key(names, what, &key);
    enum err code = sync_client_ask(l, home, &reply, e, load_command, key.text);
    if (code != ERR_OK)
        return code;
    code = take(out, reply, e);
    if (reply->type == REDIS_REPLY_ERROR && code != ERR_WRONG_TYPE)
        code = sync_client_refusal(l, home, reply, e);
    else if (code == ERR_WRONG_TYPE)
        code = error_prefix(e, code, "%s", key.text);
    else if (code == ERR_PARSE)
        code = tell_what_to_do(e, key.text);
    if (code == ERR_OK && kept != NULL) {
        keep(kept, reply);
        if (buffer_failed(kept))
            code = error_set(e, ERR_NOMEM, "out of memory");
    }
    return code;
}

enum err log_view_load(struct sync_client *l, const struct names *names, struct log_view *out,
                       struct error *e)
{
    return load(l, names, "view", out, NULL, e);
}

enum err log_view_load_kept(struct sync_client *l, const struct names *names, struct log_view *out,
                            struct buffer *kept, struct error *e)
{
    return load(l, names, "view", out, kept, e);
}

void log_view_ask_ahead(struct sync_client *l, unsigned user, const struct names *names)
{
    struct key_name key;
    names_filter_key(names, "view", &key);
    ahead_ask(l, user, sync_client_home(l, names), load_command, key.text);
}

enum err log_view_load_leftover(struct sync_client *l, const struct names *names, struct log_view *out,
                                struct error *e)
{
    return load(l, names, "leftover", out, NULL, e);
}

/* --- telling --- */

void log_view_notify(struct sync_client *l, const struct names *names)
{
    uint8_t writer[LOG_WRITER_BYTES];
    struct log_view *v = calloc(1, sizeof(*v));
    if (v == NULL || log_view_load(l, names, v, NULL) != ERR_OK || v->incarnation != names->incarnation) {
        free(v);
        return;
    }
    random_id(writer); /* of no process: so no two notices are the same entry */
    for (unsigned i = 0; i < v->lane_count; i++) {
        struct lane lane;
        enum err code = log_view_lane_at(v, names, sync_client_nodes(l), i, &lane, NULL);
        if (code == ERR_OK)
            code = lane_notice(l, &lane, writer, NULL);
        (void)code; /* readers of that lane learn of the change later */
    }
    free(v);
}
