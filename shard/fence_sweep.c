/* SPDX-License-Identifier: MIT */
/* Shards that outlived the view they belonged to. */
#include "shard/fence_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/number.h"
#include "shard/hash.h"
#include "shard/script.h"

enum { SWEEP_PASSES = 10 };

static const char *skip_digits(const char *p)
{
    while (*p >= '0' && *p <= '9')
        p++;
    return p;
}

/* True for "<generation>.<layer>.<shard>}:<incarnation>.": what follows "P:{F." in the name of a shard of F
 * itself, and not in one of a filter whose name merely begins with "F.". */
static bool is_shard_suffix(const char *text)
{
    for (int part = 0; part < 3; part++) {
        const char *end = skip_digits(text);
        if (end == text || *end != (part < 2 ? '.' : '}'))
            return false;
        text = end + 1;
    }
    return *text == ':' && strspn(text + 1, "0123456789abcdef") == 16 && text[17] == '.';
}

void fence_put_literally(struct buffer *pattern, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (strchr("*?[]\\^", text[i]) != NULL)
            buffer_append(pattern, "\\", 1);
        buffer_append(pattern, &text[i], 1);
    }
}

enum err fence_find_names(struct fence *f, unsigned where, struct buffer *found, struct error *e)
{
    struct buffer pattern = {0};
    fence_put_literally(&pattern, f->names.prefix, f->names.prefix_length);
    buffer_puts(&pattern, ":{");
    fence_put_literally(&pattern, f->names.filter, f->names.filter_length);
    buffer_puts(&pattern, ".*}:*");
    char cursor[32] = "0";
    enum err code = ERR_OK;
    do {
        redisReply *reply;
        code = link_command(f->link, where, &reply, e, "SCAN %s MATCH %b COUNT 1000 TYPE string", cursor,
                            buffer_text(&pattern), pattern.length);
        if (code != ERR_OK)
            break;
        (void)snprintf(cursor, sizeof(cursor), "%s", reply->element[0]->str);
        for (size_t i = 0; i < reply->element[1]->elements; i++) {
            const redisReply *name = reply->element[1]->element[i];
            size_t length = (size_t)name->len;
            if (!is_shard_suffix(name->str + f->names.prefix_length + f->names.filter_length + 3))
                continue;
            buffer_append(found, &length, sizeof(length));
            buffer_append(found, name->str, length);
        }
        freeReplyObject(reply);
    } while (code == ERR_OK && strcmp(cursor, "0") != 0);
    if (code == ERR_OK && (buffer_failed(found) || buffer_failed(&pattern)))
        code = error_set(e, ERR_NOMEM, "out of memory");
    buffer_fini(&pattern);
    return code;
}

/* While the mutex is ours nobody publishes a view, so what was found until now is of dead incarnations only:
 * a creator that is stopped here and wakes up much later does no harm. */
static enum err still_ours(struct fence *f, const char *mutex, struct error *e)
{
    struct key_name name;
    redisReply *reply;
    names_filter_key(&f->names, "expansion_flag", &name);
    enum err code = link_command(f->link, fence_home(f), &reply, e, "GET %b", name.text, name.length);
    if (code != ERR_OK)
        return code;
    if (reply->type != REDIS_REPLY_STRING || strcmp(reply->str, mutex) != 0)
        code = error_set(e, ERR_MUTEX_LOST, "the mutex %s was lost", mutex);
    freeReplyObject(reply);
    return code;
}

/* The incarnation of a filter that is being loaded, which no view has had; "" where there is none. Asked
 * after the shards were found: if the record says `loading` now, it did when they were made, and they are not
 * of a view that was lost. */
static enum err loading_incarnation(struct fence *f, char out[17], struct error *e)
{
    struct key_name name;
    redisReply *reply;
    out[0] = '\0';
    names_filter_key(&f->names, "load", &name);
    enum err code =
        link_command(f->link, fence_home(f), &reply, e, "HMGET %b state incarnation", name.text, name.length);
    if (code != ERR_OK)
        return code;
    if (reply->elements == 2 && reply->element[0]->type == REDIS_REPLY_STRING &&
        reply->element[1]->type == REDIS_REPLY_STRING && strcmp(reply->element[0]->str, "loading") == 0)
        (void)snprintf(out, 17, "%s", reply->element[1]->str);
    freeReplyObject(reply);
    return code;
}

/* True for "P:{F.g.l.i}:<incarnation>.": what is looked at is a shard's name. */
static bool is_of(const char *shard, size_t length, const char *incarnation)
{
    const char *brace = memchr(shard, '}', length);
    return incarnation[0] != '\0' && strncmp(brace + 2, incarnation, 16) == 0;
}

unsigned fence_shard_where(const struct fence *f, unsigned found_on, const char *shard, size_t length)
{
    const struct nodes *nodes = link_nodes(f->link);
    return nodes->cluster == NULL ? found_on : nodes_key(nodes, shard, length);
}

/* --- whether there are any --- */

/* "<generation>.<layer>.<shard>}:<incarnation>.e<epoch>": the shard's tag; false: no view has had that name.
 */
static bool tag_of_name(const struct fence *f, const char *suffix, size_t length, uint16_t *tag)
{
    const char *dot = memchr(suffix, '.', length), *brace = memchr(suffix, '}', length);
    uint64_t generation, incarnation;
    if (dot == NULL || brace == NULL)
        return false;
    size_t before = (size_t)(brace - suffix) + 2;
    if (length < before + 18 || brace[18] != '.' || brace[19] != 'e' ||
        !number_u64(suffix, (size_t)(dot - suffix), &generation) ||
        !number_hex64(brace + 2, 16, &incarnation))
        return false;
    *tag = hash_tag(incarnation, f->names.filter, f->names.filter_length, generation);
    return true;
}

static enum err look_at_one(struct fence *f, unsigned found_on, const char *name, size_t length, bool *is,
                            struct error *e)
{
    uint16_t tag;
    redisReply *reply;
    size_t before = f->names.prefix_length + f->names.filter_length + 3;
    *is = false;
    if (!tag_of_name(f, name + before, length - before, &tag))
        return ERR_OK;
    enum err code = link_command(f->link, fence_shard_where(f, found_on, name, length), &reply, e,
                                 "GETRANGE %b 0 1", name, length);
    if (code != ERR_OK) /* refused: a tombstone by now */
        return code == ERR_REFUSED ? ERR_OK : code;
    *is = reply->len == 2 && (uint8_t)reply->str[0] == tag >> 8 && (uint8_t)reply->str[1] == (tag & 0xff);
    freeReplyObject(reply);
    return ERR_OK;
}

enum err fence_has_survivors(struct fence *f, bool *any, struct error *e)
{
    unsigned count;
    *any = false;
    enum err code = link_masters(f->link, &count, e);
    for (unsigned i = 0; code == ERR_OK && i < count && !*any; i++) {
        struct buffer found = {0};
        unsigned where = link_master(f->link, i);
        code = fence_find_names(f, where, &found, e);
        for (size_t at = 0, length; code == ERR_OK && !*any && at < found.length; at += length) {
            memcpy(&length, found.data + at, sizeof(length));
            at += sizeof(length);
            code = look_at_one(f, where, (const char *)found.data + at, length, any, e);
        }
        buffer_fini(&found);
    }
    return code;
}

/* --- the sweep --- */

static enum err sweep_node(struct fence *f, unsigned where, const char *mutex, uint64_t *swept,
                           struct error *e)
{
    struct buffer found = {0};
    char spared[17];
    enum err code = fence_find_names(f, where, &found, e);
    if (code == ERR_OK && found.length > 0)
        code = loading_incarnation(f, spared, e);
    if (code == ERR_OK && found.length > 0)
        code = still_ours(f, mutex, e);
    for (size_t at = 0; code == ERR_OK && at < found.length;) {
        size_t length;
        long long was;
        memcpy(&length, found.data + at, sizeof(length));
        at += sizeof(length) + length;
        if (is_of(found.data + at - length, length, spared))
            continue;
        script_begin(&f->call, embedded_tombstone);
        script_bytes(&f->call, found.data + at - length, length);
        f->call.keys = 1;
        script_number(&f->call, f->tombstone_ms);
        code = script_run(&f->call, f->link, fence_shard_where(f, where, found.data + at - length, length),
                          &was, e);
        *swept += 1;
    }
    buffer_fini(&found);
    return code;
}

/* One pass over all nodes, which are asked for anew: a cluster changes. */
static enum err sweep_pass(struct fence *f, const char *mutex, uint64_t *swept, struct error *e)
{
    unsigned count;
    enum err code = link_masters(f->link, &count, e);
    for (unsigned i = 0; code == ERR_OK && i < count; i++)
        code = sweep_node(f, link_master(f->link, i), mutex, swept, e);
    return code;
}

/* Walk until nothing is found twice in a row: a shard that a paused driver renames while SCAN passes by may
 * be missed once, and without a view it is not renamed a second time. So may one that moves, in a cluster,
 * from a node that was not looked at yet to one that was; to be missed twice it had to move there, back, and
 * there again within two passes. */
enum err fence_sweep(struct fence *f, const char *mutex, uint64_t *swept, struct error *e)
{
    unsigned empty = 0;
    *swept = 0;
    for (int pass = 0; empty < 2; pass++) {
        uint64_t found = 0;
        if (pass == SWEEP_PASSES)
            return error_set(e, ERR_CONFLICT, "shards of a lost view keep appearing");
        enum err code = sweep_pass(f, mutex, &found, e);
        if (code != ERR_OK)
            return code;
        empty = found == 0 ? empty + 1 : 0;
        *swept += found;
    }
    return ERR_OK;
}
