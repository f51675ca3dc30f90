/* SPDX-License-Identifier: MIT */
/* BF.SCANDUMP. No state is kept between calls: the position names the chunk and the dump.
 *
 * Why a dump holds every key that was acknowledged before the dump began: such a key is in its layer's
 * shards when a chunk of that layer is read, or else in the lanes behind what the shards hold. From there it
 * is put into that layer (log_shards_read()). A cutover in between shows in the generation's number. Which
 * layers there are is read behind a check: where the metadata node went back to before a layer, that waits
 * until the lanes' writers have answered, and have put the layer back. */
#include <stdlib.h>
#include "base/clock.h"
#include "base/random.h"
#include "service/admin/admin.h"
#include "service/filters/log_shards.h"
#include "shard/filter/dump.h"

enum { RETRY_US = 20000 };

static const char begin_again[] = "the filter was rebuilt during the dump: begin again with 0";

static void reply_piece(struct reply *r, uint64_t next, const void *bytes, size_t length)
{
    reply_array(r, 2);
    reply_integer(r, (int64_t)next);
    reply_bulk(r, bytes, length);
}

static const char degraded[] =
    "keys of the filter may be lost, until it is healed: a dump would not have them";

/* Open the shards that are dumped. ERR_LOST: also if they may lack keys. */
static enum err open_whole(struct admin *a, struct log_shards **out, struct error *e)
{
    enum err code = log_shards_open(out, a->redis, &a->handle.names, view_current(&a->view)->number, e);
    return code == ERR_OK && log_shards_view(*out)->degraded ? error_set(e, ERR_LOST, "%s", degraded) : code;
}

static enum err begin_header(struct admin *a, struct dump_header *out, struct error *e)
{
    struct log_shards *s = NULL;
    enum err code = dump_header_of(out, &a->view, view_current(&a->view)->layer_count, e);
    if (code != ERR_OK)
        return code;
    code = open_whole(a, &s, e);
    if (code == ERR_OK)
        out->seed = log_shards_view(s)->seed;
    out->nonce = random_u64();
    log_shards_close(s);
    return code;
}

static enum err send_header(struct admin *a, struct reply *r, struct error *e)
{
    const struct generation *g = view_current(&a->view);
    struct dump_header header;
    SCOPED(buffer_fini) struct buffer bytes = {0};
    enum err code = begin_header(a, &header, e);
    for (unsigned i = 0; code == ERR_OK && i < g->layer_count; i++) {
        header.layers[i].items = admin_layer_keys(&a->view, i);
        if (header.layers[i].items > DUMP_ITEMS_MAX)
            header.layers[i].items = DUMP_ITEMS_MAX;
    }
    if (code != ERR_OK)
        return code;
    dump_header_encode(&header, &bytes);
    reply_piece(r, dump_position(&header, 1), buffer_text(&bytes), bytes.length);
    r->out->failed |= buffer_failed(&bytes);
    return ERR_OK;
}

/* Read @run to @out. After a failure that a change of the view may explain, load the view again.
 * ERR_CONFLICT: another generation is in use now. */
static enum err read_run(struct admin *a, const struct dump_header *h, const struct dump_run *run,
                         uint8_t *out, struct error *e)
{
    uint64_t deadline = clock_mono_us() + (uint64_t)a->config->redis_timeout_ms * 1000;
    for (;;) {
        struct log_shards *s = NULL;
        struct dump_header now;
        enum err code = open_whole(a, &s, e);
        if (code == ERR_OK)
            code = log_shards_read(s, run->layer, run->first, run->count, out, e);
        log_shards_close(s);
        bool is_passing = code == ERR_LOST || code == ERR_CONFLICT || code == ERR_FENCED;
        if (!is_passing || clock_mono_us() >= deadline)
            return is_passing ? ERR_LOST : code;
        clock_sleep_us(RETRY_US);
        code = handle_load(&a->handle, &a->view, e);
        if (code == ERR_OK &&
            (dump_header_of(&now, &a->view, h->layer_count, e) != ERR_OK || now.id != h->id))
            code = ERR_CONFLICT;
        if (code != ERR_OK)
            return code;
    }
}

static enum err send_chunk(struct admin *a, struct reply *r, const struct dump_header *h, uint32_t number,
                           struct error *e)
{
    struct dump_run run;
    if (!dump_run_at(h, number, &run)) {
        reply_piece(r, 0, "", 0);
        return ERR_OK;
    }
    size_t length = DUMP_CHUNK_HEADER + run.bytes;
    uint8_t *chunk = malloc(length);
    enum err code = chunk == NULL ? error_set(e, ERR_NOMEM, "out of memory")
                                  : read_run(a, h, &run, chunk + DUMP_CHUNK_HEADER, e);
    if (code == ERR_OK) {
        dump_chunk_encode(h, number, &run, chunk);
        reply_piece(r, dump_position(h, number + 1), chunk, length);
    } else if (code == ERR_CONFLICT) {
        code = error_set(e, ERR_FENCED, "%s", begin_again);
    }
    free(chunk);
    return code;
}

/* True if @position belongs to a dump of the view's generation; sets @h and the number of the chunk. */
static bool is_of_dump(const struct admin *a, uint64_t position, struct dump_header *h, uint32_t *number,
                       struct error *e)
{
    if (dump_header_of(h, &a->view, dump_position_layers(position), e) != ERR_OK)
        return false;
    dump_position_nonce(h, position);
    return dump_position_chunk(h, position, number);
}

/* The header contains the number of keys; without it the loaded filter would not know that it is full. */
static enum err count_and_load(struct admin *a, struct admin_call *call, struct error *e)
{
    uint64_t items;
    enum err code = admin_load_items(a, call, &items, e);
    if (code == ERR_OK)
        code = handle_load(&a->handle, &a->view, e);
    if (code == ERR_OK)
        a->view.keys[a->view.current] = items;
    return code;
}

enum err admin_scandump(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    enum err code = admin_open(a, call, e);
    if (code == ERR_OK && call->position == 0 && call->position_given && !a->view.degraded)
        code = count_and_load(a, call, e);
    if (code != ERR_OK)
        return code;
    uint64_t position = (uint64_t)call->position;
    struct dump_header header;
    uint32_t number;
    if (!call->position_given)
        reply_error(r, "Second argument must be numeric");
    else if (!view_current(&a->view)->built)
        reply_failure(r, ERR_CONFLICT, "the filter is not built yet: there is nothing to dump");
    else if (position == 0)
        return send_header(a, r, e);
    else if (!is_of_dump(a, position, &header, &number, e))
        reply_failure(r, ERR_FENCED, "%s", begin_again);
    else
        return send_chunk(a, r, &header, number, e);
    return ERR_OK;
}
