/* SPDX-License-Identifier: MIT */
/* Filters as keys: EXISTS, TYPE, SCAN, KEYS, DBSIZE, RANDOMKEY. Names are those in P:filters, without filters
 * that have no view or are deleted. */
#include <stdlib.h>
#include <string.h>
#include "base/glob.h"
#include "base/random.h"
#include "service/admin/admin.h"

enum { LOOKS_IN_FLIGHT = 256 };

static enum err send_look(struct admin *a, const struct argument *name, bool *sent, unsigned *where,
                          struct error *e)
{
    struct key_name key;
    struct error ignored;
    *sent = names_init(&a->handle.names, a->config->prefix, name->bytes, name->length, &ignored) == ERR_OK;
    if (!*sent) /* too long for a filter's name */
        return ERR_OK;
    names_filter_key(&a->handle.names, "view", &key);
    const char *const argv[] = {"HGET", key.text, "deleting"};
    const size_t lengths[] = {4, key.length, 8};
    *where = handle_home(&a->handle);
    return sync_client_append(a->redis, *where, 3, argv, lengths, e);
}

static enum err read_look(struct admin *a, unsigned where, bool *is, struct error *e)
{
    SCOPED(scope_reply) redisReply *reply = NULL;
    enum err code = sync_client_reply(a->redis, where, &reply, e);
    if (code != ERR_OK)
        return code;
    *is = reply->type == REDIS_REPLY_STRING && strcmp(reply->str, "0") == 0;
    if (reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "WRONGTYPE", 9) != 0)
        code = sync_client_refusal(a->redis, where, reply, e);
    return code;
}

/* is[i]: names[i] is a filter. */
static enum err look(struct admin *a, const struct argument *names, size_t count, bool *is, struct error *e)
{
    unsigned where[LOOKS_IN_FLIGHT];
    for (size_t first = 0; first < count; first += LOOKS_IN_FLIGHT) {
        size_t end = count - first < LOOKS_IN_FLIGHT ? count : first + LOOKS_IN_FLIGHT;
        enum err code = ERR_OK;
        for (size_t i = first; i < end && code == ERR_OK; i++)
            code = send_look(a, &names[i], &is[i], &where[i - first], e);
        if (code == ERR_OK)
            code = sync_client_send_role(a->redis, NODE_HOME, e);
        for (size_t i = first; i < end && code == ERR_OK; i++)
            if (is[i])
                code = read_look(a, where[i - first], &is[i], e);
        if (code == ERR_OK)
            code = sync_client_read_role(a->redis, NODE_HOME, e);
        if (code != ERR_OK) {
            sync_client_forget(a->redis);
            return code;
        }
    }
    return ERR_OK;
}

/* Copy the names of @reply that match the pattern, are visible and are filters to *@out, which the caller
 * frees. */
static enum err keep_filters(struct admin *a, const struct admin_call *call, const redisReply *reply,
                             struct argument **out, size_t *count, struct error *e)
{
    size_t n = reply->elements;
    bool all = (call->flags & (LIST_COUNT | LIST_ANY)) != 0;
    bool *is = calloc(n + 1, sizeof(*is));
    *out = calloc(n + 1, sizeof(**out));
    *count = 0;
    if (is == NULL || *out == NULL) {
        free(is);
        return error_set(e, ERR_NOMEM, "out of memory");
    }
    size_t fit = 0;
    for (size_t i = 0; i < n; i++) {
        const struct argument name = {.bytes = reply->element[i]->str,
                                      .length = (size_t)reply->element[i]->len};
        if ((all || glob_match_case(call->filter, call->filter_length, name.bytes, name.length)) &&
            admin_call_shows(call, name.bytes, name.length))
            (*out)[fit++] = name;
    }
    enum err code = look(a, *out, fit, is, e);
    for (size_t i = 0; i < fit; i++)
        if (is[i])
            (*out)[(*count)++] = (*out)[i];
    free(is);
    return code;
}

static void reply_names(struct reply *r, const struct argument *names, size_t count)
{
    reply_array(r, count);
    for (size_t i = 0; i < count; i++)
        reply_bulk(r, names[i].bytes, names[i].length);
}

/* --- commands with names --- */

enum err admin_exists(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    bool *is = calloc(call->names.count + 1, sizeof(*is));
    int64_t count = 0;
    if (is == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    enum err code = look(a, call->names.name, call->names.count, is, e);
    for (size_t i = 0; code == ERR_OK && i < call->names.count; i++)
        count += is[i];
    if (code == ERR_OK)
        reply_integer(r, count);
    free(is);
    return code;
}

enum err admin_type(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    const struct argument name = {.bytes = call->filter, .length = call->filter_length};
    bool is = false;
    enum err code = look(a, &name, 1, &is, e);
    if (code == ERR_OK)
        reply_simple(r, is ? "MBbloom--" : "none");
    return code;
}

/* --- commands about all names --- */

/* SSCAN of P:filters. The pattern, call->filter, is matched here, because a slow match would block all of
 * Redis. */
static enum err scan(struct admin *a, struct admin_call *call, uint64_t cursor, uint64_t count,
                     redisReply **out)
{
    if (call->filter_length > GLOB_PATTERN_MAX) {
        (void)error_set(&call->error, ERR_RANGE, "the pattern is too long: at most %d bytes are allowed",
                        GLOB_PATTERN_MAX);
        return ERR_RANGE;
    }
    enum err code =
        sync_client_command(a->redis, nodes_filters(sync_client_nodes(a->redis), a->config->prefix), out,
                            &call->error, "SSCAN %s:filters %llu COUNT %llu", a->config->prefix,
                            (unsigned long long)cursor, (unsigned long long)count);
    if (code == ERR_OK && ((*out)->elements != 2 || (*out)->element[1]->type != REDIS_REPLY_ARRAY))
        code = error_set(&call->error, ERR_REFUSED, "unexpected reply to SSCAN");
    return code;
}

enum err admin_scan(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    SCOPED(scope_reply) redisReply *page = NULL;
    struct argument *names = NULL;
    size_t count = 0;
    enum err code = scan(a, call, call->cursor, call->count, &page);
    if (code == ERR_OK)
        code = keep_filters(a, call, page->element[1], &names, &count, e);
    if (code == ERR_OK) {
        reply_array(r, 2);
        reply_bulk(r, page->element[0]->str, (size_t)page->element[0]->len);
        reply_names(r, names, (call->flags & SCAN_OTHER_TYPE) != 0 ? 0 : count);
    }
    free(names);
    return code;
}

enum err admin_list(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    /* Read all names with one command, so that no name comes twice. */
    static const uint64_t all_at_once = 1000 * 1000 * 1000;
    SCOPED(scope_reply) redisReply *page = NULL;
    struct argument *names = NULL;
    size_t count = 0;
    enum err code = scan(a, call, 0, all_at_once, &page);
    if (code == ERR_OK)
        code = keep_filters(a, call, page->element[1], &names, &count, e);
    const struct argument *any = count == 0 ? NULL : &names[random_u64() % count];
    if (code != ERR_OK)
        ;
    else if (call->flags == LIST_COUNT)
        reply_integer(r, (int64_t)count);
    else if (call->flags != LIST_ANY)
        reply_names(r, names, count);
    else if (any == NULL)
        reply_null(r);
    else
        reply_bulk(r, any->bytes, any->length);
    free(names);
    return code;
}
