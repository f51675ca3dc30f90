/* SPDX-License-Identifier: MIT */
/* BF.LOADCHUNK and TB.LOAD. shard/generations/loading.c describes what is in Redis meanwhile. */
#include <inttypes.h>
#include <stdlib.h>
#include "base/log.h"
#include "base/random.h"
#include "expansion/job/memory.h"
#include "service/admin/admin.h"
#include "service/protocol/field.h"
#include "service/filters/log_load.h"
#include "shard/generations/loading.h"

enum { MISSING_SHOWN = 8, RANGES_MAX = 10000 };

static const char bad_data[] = "ERR received bad data";
static const char invalid_offset[] = "ERR invalid offset - no link found";
static const char no_dump[] =
    "ERR received bad data: this is no piece of a Twinbloom dump (a dump of RedisBloom cannot be loaded)";
static const char old_dump[] = "ERR received bad data: an earlier version made the dump (form 1 or 2): "
                               "rebuild the filter from its table, or add its keys again";
static const char too_big[] = "ERR invalid chunk - Too big for current filter";

/* State of one BF.LOADCHUNK. */
struct load {
    struct admin *a;
    struct admin_call *call;
    struct handle *f;
    struct reply *r;
    struct error *e;
    struct loading loading;
};

/* Answer with @reply. Returns ERR_OK. */
static enum err refuse(struct load *l, const char *reply)
{
    log_info("load_refused", "filter=%s reply=%s reason=%s", log_quote(l->f->names.filter), log_quote(reply),
             log_quote(l->e->text));
    reply_error(l->r, "%s", reply);
    return ERR_OK;
}

/* --- completion: all chunks have come --- */

/* Name the chunks that must be sent again, and forget that they have come. */
static enum err ask_again(struct load *l, const uint8_t *there, struct error *e)
{
    struct loading *g = &l->loading;
    uint32_t *missing = malloc(((size_t)g->header.chunks + 1) * sizeof(*missing));
    if (missing == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    size_t count = 0;
    SCOPED(buffer_fini) struct buffer shown = {0};
    for (uint32_t i = 1; i <= g->header.chunks; i++)
        if (!there[i])
            missing[count++] = i;
    for (size_t i = 0; i < count && i < MISSING_SHOWN; i++)
        buffer_printf(&shown, " %" PRIu64, dump_position(&g->header, missing[i] + 1));
    enum err code = count == 0 ? ERR_OK : loading_note(l->f, g, missing, count, false, e);
    if (code == ERR_OK && count > 0)
        code = error_set(e, ERR_LOST, "%zu chunks were lost: send again those of%s%s", count,
                         buffer_text(&shown), count > MISSING_SHOWN ? " ..." : "");
    free(missing);
    return code;
}

static enum err all_there(struct load *l, struct error *e)
{
    size_t chunks = l->loading.header.chunks;
    uint8_t *there = calloc(chunks + 1, 1);
    if (there == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    for (size_t i = 1; i <= chunks; i++)
        there[i] = 1;
    enum err code = loading_look(l->f, &l->loading, there, e);
    if (code == ERR_OK)
        code = ask_again(l, there, e);
    free(there);
    return code;
}

static enum err publish(struct load *l, struct mutex *mutex, struct error *e)
{
    struct admin *a = l->a;
    const struct loading *g = &l->loading;
    const struct admin_call *call = l->call;
    const struct work work = {.fn = filter_hold_mutex, .arg = mutex};
    struct filter_naming naming = {.handle = l->f, .as_new = true};
    struct placement on;
    struct error ignored;
    struct log_view *v = malloc(sizeof(*v));
    if (v == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    /* Loads under way count for nobody, so that other filters may have been made since this one began. */
    enum err code = admin_quota(a, call, QUOTA_LOADED, memory_of_generation(&g->shape), e);
    if (code == ERR_OK)
        code = service_claim(a->service, a->redis, e);
    if (code == ERR_OK)
        code = filter_make_way(a->service, &naming, call->filter, call->filter_length, &a->view, &work, e);
    l->f->names.incarnation = g->incarnation;
    if (code == ERR_OK)
        code = all_there(l, e);
    if (code == ERR_OK)
        code = placement_choose(&on, &a->service->nodes, "", e);
    if (code == ERR_OK)
        code = log_load_publish(&naming, g, &on, (uint32_t)a->config->shard_bytes, v, &work, e);
    free(v);
    if (code != ERR_OK)
        return code;
    log_info("filter_loaded", "filter=%s capacity=%" PRIu64 " layers=%u memory_bytes=%" PRIu64,
             log_quote(l->f->names.filter), g->header.capacity, g->header.layer_count,
             memory_of_generation(&g->shape));
    if (loading_discard(l->f, g, &ignored) != ERR_OK)
        log_warn("shards_not_deleted", "filter=%s note=\"what was loaded expires by itself\"",
                 log_quote(l->f->names.filter));
    return ERR_OK;
}

/* Reply OK if chunks are still missing, or if all have come and the filter exists. */
static enum err go_on(struct load *l)
{
    if (l->loading.arrived >= l->loading.header.chunks) { /* complete */
        struct mutex *mutex = NULL;
        const struct mutex_options options =
            filter_mutex_options(l->a->service, l->a->config, l->call->filter, l->call->filter_length);
        enum err code = mutex_acquire(&mutex, &options, options.redis_timeout_ms, l->e);
        if (code == ERR_OK)
            code = publish(l, mutex, l->e);
        mutex_release(mutex);
        if (code != ERR_OK)
            return code;
    }
    reply_simple(l->r, "OK");
    return ERR_OK;
}

/* --- the header --- */

/* Check the memory for each layer on top of earlier ones: they are made beside the stored chunks. */
static enum err check_memory(struct load *l, struct error *e)
{
    SCOPED(scope_free) struct plan_node *nodes = NULL;
    unsigned count = 0;
    char warning[256];
    const struct dump_header *h = &l->loading.header;
    struct placement all;
    enum err code = placement_choose(&all, &l->a->service->nodes, "", e);
    if (code == ERR_OK)
        code = memory_of_filter(&l->a->handle, NULL, &all, &nodes, &count, e);
    for (unsigned i = 0; i < h->layer_count && code == ERR_OK; i++) {
        const struct geometry *g = &h->layers[i].geometry;
        const struct plan plan = {.capacity = h->layers[i].capacity,
                                  .geometry = *g,
                                  .memory_new = geometry_memory(g) + geometry_memory_log(g)};
        code = plan_fits(&plan, nodes, count, warning, e);
        for (unsigned n = 0; n < count; n++)
            nodes[n].used += nodes[n].after;
    }
    return code;
}

/* Take the header of a new dump: remains of another dump are deleted. */
static enum err begin(struct load *l, const struct dump_header *h, const struct loading *before)
{
    SCOPED(scope_reply) redisReply *reply = NULL;
    enum err code = sync_client_filter_command(l->a->redis, &l->f->names, "token", "INCR %b", &reply, l->e);
    if (code != ERR_OK)
        return code;
    uint64_t token = (uint64_t)reply->integer;
    l->loading = (struct loading){.dump = h->id, .incarnation = random_u64(), .header = *h};
    loading_shape(&l->loading.shape, h, &l->a->service->nodes, token);
    code = check_memory(l, l->e);
    if (code == ERR_OK)
        code = admin_quota(l->a, l->call, QUOTA_MAKE, memory_of_generation(&l->loading.shape), l->e);
    if (code == ERR_OK)
        code = loading_begin(l->f, &l->loading, l->e);
    if (code == ERR_OK)
        log_info("load_started", "filter=%s dump=%016" PRIx64 " chunks=%u memory_bytes=%" PRIu64,
                 log_quote(l->f->names.filter), h->id, h->chunks, generation_bytes(&l->loading.shape));
    struct error ignored;
    if (code == ERR_OK && before != NULL && loading_discard(l->f, before, &ignored) != ERR_OK)
        log_warn("shards_not_deleted",
                 "filter=%s note=\"shards of a dump that was given up expire by themselves\"",
                 log_quote(l->f->names.filter));
    return code;
}

/* A load that was interrupted, and whose nodes are still configured. What lies on others expires. */
static bool is_under_way(struct load *l)
{
    struct placement placement;
    struct error ignored;
    if (l->loading.done)
        return false;
    if (placement_resolve(&placement, &l->f->names, &l->loading.shape, &l->a->service->nodes, &ignored) ==
        ERR_OK)
        return true;
    (void)!loading_end(l->f, &ignored);
    return false;
}

static enum err take_header(struct load *l)
{
    struct dump_header header;
    uint32_t number;
    const struct buffer *data = &l->call->data;
    bool configured = config_find(l->a->config, l->call->filter, l->call->filter_length) != NULL;
    enum err code = configured ? ERR_OK : handle_load(l->f, &l->a->view, l->e);
    if (code != ERR_NOT_FOUND)
        return code == ERR_OK ? ERR_EXISTS : code;
    code = dump_header_decode(&header, data->data, data->length, l->e);
    if (code != ERR_OK)
        return refuse(l, code == ERR_FORMAT ? old_dump : bad_data);
    if (!dump_position_chunk(&header, (uint64_t)l->call->position, &number) || number != 1)
        return refuse(l, invalid_offset);
    code = loading_read(l->f, &l->loading, l->e);
    bool under_way = code == ERR_OK && is_under_way(l);
    const struct dump_header *had = &l->loading.header;
    if (under_way && had->id == header.id && had->nonce == header.nonce) {
        code = loading_begin(l->f, &l->loading, l->e); /* renew its expiry */
    } else if (code == ERR_OK || code == ERR_NOT_FOUND || code == ERR_PARSE) {
        const struct loading before = l->loading;
        code = begin(l, &header, under_way ? &before : NULL);
    }
    return code == ERR_OK ? go_on(l) : code;
}

/* --- chunks --- */

/* NULL: @chunk is the one at that position. */
static const char *wrong(const struct load *l, const struct dump_chunk *chunk)
{
    const struct loading *g = &l->loading;
    struct dump_run run;
    uint32_t next;
    if (chunk->id != g->dump || !dump_position_chunk(&g->header, (uint64_t)l->call->position, &next) ||
        next != chunk->number + 1 || !dump_run_at(&g->header, chunk->number, &run) ||
        chunk->run.layer != run.layer || chunk->run.first != run.first)
        return invalid_offset;
    if (chunk->run.count > run.count || chunk->run.bytes > run.bytes)
        return too_big;
    return chunk->run.count == run.count && chunk->run.bytes == run.bytes ? NULL : bad_data;
}

/* Read the view's incarnation. ERR_NOT_FOUND: there is no view. */
static enum err incarnation_there(struct load *l, uint64_t *out)
{
    uint64_t now = l->f->names.incarnation;
    enum err code = handle_load(l->f, &l->a->view, l->e);
    *out = l->f->names.incarnation;
    l->f->names.incarnation = now;
    return code;
}

static enum err store_chunk(struct load *l, const struct dump_chunk *chunk)
{
    /* Inside the call's own buffer. */
    uint8_t *shards = (uint8_t *)l->call->data.data + DUMP_CHUNK_HEADER;
    enum err code = loading_write(l->f, &l->loading, &chunk->run, shards, l->e);
    if (code == ERR_PARSE)
        return refuse(l, bad_data);
    if (code == ERR_OK)
        code = loading_note(l->f, &l->loading, &chunk->number, 1, true, l->e);
    return code == ERR_OK ? go_on(l) : code;
}

static enum err take_chunk(struct load *l)
{
    struct dump_chunk chunk;
    const struct buffer *data = &l->call->data;
    uint64_t there = 0;
    enum err code = loading_read(l->f, &l->loading, l->e);
    enum err view = code == ERR_OK || code == ERR_NOT_FOUND ? incarnation_there(l, &there) : code;
    if (code == ERR_NOT_FOUND && view == ERR_NOT_FOUND && !dump_is_chunk(data->data, data->length)) {
        (void)error_set(l->e, ERR_PARSE, "this is neither the header nor a chunk of a dump");
        return refuse(l, no_dump);
    }
    if (view == ERR_OK && (code != ERR_OK || !l->loading.done || l->loading.incarnation != there))
        return ERR_EXISTS; /* another load or command has made it */
    if (code != ERR_OK || (view != ERR_OK && view != ERR_NOT_FOUND) || (l->loading.done && view != ERR_OK))
        return code != ERR_OK ? code : view;
    const char *error = NULL;
    if (dump_chunk_decode(&chunk, data->data, data->length, l->e) != ERR_OK)
        error = data->length > DUMP_CHUNK_LIMIT ? too_big : bad_data;
    else if (l->loading.done)
        error = chunk.id == l->loading.dump ? NULL : invalid_offset;
    else
        error = wrong(l, &chunk);
    if (error != NULL)
        return refuse(l, error);
    if (!l->loading.done)
        return store_chunk(l, &chunk);
    reply_simple(l->r, "OK"); /* the reply to its last chunk was lost */
    return ERR_OK;
}

static admin_fn complete_load; /* the second half of a BF.LOADCHUNK */

static enum err run(struct admin *a, struct admin_call *call, struct reply *r, struct error *e,
                    enum err (*take)(struct load *l))
{
    struct load *l = calloc(1, sizeof(*l));
    if (l == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    *l = (struct load){.a = a, .call = call, .f = &a->handle, .r = r, .e = e};
    enum err code = names_init(&l->f->names, a->config->prefix, call->filter, call->filter_length, e);
    if (code == ERR_OK)
        code = take(l);
    if (code == ERR_ASIDE) /* the chunk is stored */
        call->fn = complete_load;
    free(l);
    return code;
}

enum err admin_loadchunk(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    return run(a, call, r, e, dump_is_header(call->data.data, call->data.length) ? take_header : take_chunk);
}

static enum err take_nothing(struct load *l)
{
    enum err code = loading_read(l->f, &l->loading, l->e);
    return code == ERR_OK ? go_on(l) : code;
}

static enum err complete_load(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    return run(a, call, r, e, take_nothing);
}

/* --- TB.LOAD --- */

/* Add the missing chunks as pairs of first and last position. If there are too many pairs, the last one
 * reaches to the end: sending a chunk twice is harmless. */
static void missing_field(struct fields *f, const struct dump_header *h, const uint8_t *there)
{
    struct fields pairs;
    fields_begin(&pairs, f->reply.protocol);
    for (uint32_t i = 1; i <= h->chunks; i++) {
        if (there[i])
            continue;
        uint32_t last = i;
        while (last < h->chunks && (!there[last + 1] || pairs.count + 2 == 2 * RANGES_MAX))
            last++;
        reply_integer(&pairs.reply, (int64_t)dump_position(h, i + 1));
        reply_integer(&pairs.reply, (int64_t)dump_position(h, last + 1));
        pairs.count += 2;
        i = last;
    }
    field_list(f, "missing", &pairs);
}

static enum err status_fields(struct fields *f, struct admin *a, const struct admin_call *call,
                              struct loading *l, struct error *e)
{
    enum err code = names_init(&a->handle.names, a->config->prefix, call->filter, call->filter_length, e);
    if (code == ERR_OK)
        code = loading_read(&a->handle, l, e);
    if (code != ERR_OK && code != ERR_NOT_FOUND)
        return code;
    field_text(f, "state", code == ERR_NOT_FOUND ? "none" : l->done ? "done" : "loading");
    if (code == ERR_NOT_FOUND || l->done)
        return ERR_OK;
    uint8_t *there = calloc((size_t)l->header.chunks + 1, 1);
    if (there == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    code = loading_arrived(&a->handle, l, there, e);
    if (code == ERR_OK) {
        field_number(f, "chunks", l->header.chunks);
        field_number(f, "arrived", l->arrived);
        missing_field(f, &l->header, there);
    }
    free(there);
    return code;
}

enum err admin_load_status(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    struct loading l;
    SCOPED(fields_drop) struct fields f;
    fields_begin(&f, r->protocol);
    enum err code = status_fields(&f, a, call, &l, e);
    if (code == ERR_OK)
        fields_end(&f, r);
    return code;
}
