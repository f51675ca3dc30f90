/* SPDX-License-Identifier: MIT */
#include "service/filters/log_shards.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "migrate/verify/log_input.h"
#include "shard/view/view_load.h"

struct log_shards {
    struct log_view view;
    struct log_input input;
    const struct generation *g; /* the generation, in the view */
};

enum err log_shards_open(struct log_shards **out, struct sync_client *l, const struct names *names,
                         uint64_t generation, struct error *e)
{
    struct log_shards *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    const unsigned slot = generation % 2;
    s->g = &s->view.slot[slot].shape;
    enum err code = log_view_load(l, names, &s->view, e);
    if (code == ERR_OK && (s->view.incarnation != names->incarnation || s->g->number != generation))
        code = error_set(e, ERR_CONFLICT, "the filter has no generation %" PRIu64 " any more", generation);
    if (code == ERR_OK)
        code = log_input_init(&s->input, l, names, &s->view, slot, e);
    if (code == ERR_OK)
        *out = s;
    else
        log_shards_close(s);
    return code;
}

void log_shards_close(struct log_shards *s)
{
    if (s != NULL)
        log_input_fini(&s->input);
    free(s);
}

const struct log_view *log_shards_view(const struct log_shards *s)
{
    return &s->view;
}

enum err log_shards_read(struct log_shards *s, unsigned layer, uint32_t first, uint32_t count, uint8_t *out,
                         struct error *e)
{
    const struct geometry *g = &s->g->layers[layer].geometry;
    const struct bitmap *b = s->input.resident->layer[layer];
    enum err code = log_input_read(&s->input, layer, first, count, e);
    size_t block_bytes = g->block_bits / 8;
    if (code == ERR_OK)
        memcpy(out, b->words + (size_t)first * b->shard_words, (size_t)count * b->shard_bytes);
    log_input_drop(&s->input, layer, first, count);
    for (uint64_t i = 0; i < (uint64_t)count * g->blocks && code == ERR_OK; i++)
        memset(out + i * block_bytes, 0, BLOCK_TAG_BITS / 8);
    return code;
}

/* --- counting --- */

double log_shards_keys(const struct geometry *g, const uint8_t *shard)
{
    uint64_t set = 0, word;
    uint32_t bytes = geometry_shard_bytes(g);
    for (uint32_t i = 0; i < bytes; i += (uint32_t)sizeof(word)) {
        memcpy(&word, shard + i, sizeof(word));
        set += (unsigned)__builtin_popcountll(word);
    }
    struct geometry one = *g;
    one.shards = 1;
    return geometry_keys(&one, 1 - (double)set / (g->blocks * (double)(g->block_bits - BLOCK_TAG_BITS)));
}

/* Count runs of shards: every run, or every few. */
static enum err count_layer(struct log_shards *s, unsigned layer, uint64_t every, uint64_t deadline_us,
                            uint8_t *bytes, double *keys, struct error *e)
{
    const struct geometry *g = &s->g->layers[layer].geometry;
    uint32_t shard_bytes = geometry_shard_bytes(g), most = LOG_SHARDS_RUN / shard_bytes;
    uint64_t looked = 0;
    for (uint64_t first = 0; first < g->shards; first += every * most) {
        uint32_t left = g->shards - (uint32_t)first, count = left < most ? left : most;
        if (clock_mono_us() > deadline_us)
            return error_set(e, ERR_TIMEOUT, "counting took too long");
        enum err code = log_shards_read(s, layer, (uint32_t)first, count, bytes, e);
        if (code != ERR_OK)
            return code;
        for (uint32_t i = 0; i < count; i++)
            *keys += log_shards_keys(g, bytes + (size_t)i * shard_bytes);
        looked += count;
    }
    *keys *= (double)g->shards / (double)looked;
    return ERR_OK;
}

enum err log_shards_count(struct log_shards *s, uint64_t deadline_us, double *keys, struct error *e)
{
    uint64_t every = (generation_bytes(s->g) + LOG_SHARDS_SAMPLE - 1) / LOG_SHARDS_SAMPLE;
    uint8_t *bytes = malloc(LOG_SHARDS_RUN);
    enum err code = bytes == NULL ? error_set(e, ERR_NOMEM, "out of memory") : ERR_OK;
    for (unsigned i = 0; i < s->g->layer_count && code == ERR_OK; i++) {
        keys[i] = 0;
        code = count_layer(s, i, every, deadline_us, bytes, &keys[i], e);
    }
    free(bytes);
    return code;
}
