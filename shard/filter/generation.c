/* SPDX-License-Identifier: MIT */
#include "shard/filter/generation.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/span.h"

/* The text being written. GENERATION_TEXT_MAX bytes hold any generation within its bounds. */
struct writer {
    char *at;
    char *end;
};

static void put(struct writer *w, const char *format, ...) PRINTF_LIKE(2, 3);

static void put(struct writer *w, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(w->at, (size_t)(w->end - w->at), format, ap);
    va_end(ap);
    assert(n >= 0 && n < w->end - w->at);
    w->at += n;
}

size_t generation_text(const struct generation *g, char out[GENERATION_TEXT_MAX])
{
    struct writer w = {out, out + GENERATION_TEXT_MAX};
    put(&w,
        "number=%" PRIu64 " seed=%016" PRIx64 " built=%d capacity=%" PRIu64 " rate=%.17g nodes=", g->number,
        g->seed, g->built, g->capacity, g->error_rate);
    for (unsigned i = 0; i < g->node_count; i++)
        put(&w, "%s%s", i == 0 ? "" : ",", g->nodes[i]);
    put(&w, " layers=");
    for (unsigned i = 0; i < g->layer_count; i++) {
        const struct layer *l = &g->layers[i];
        put(&w, "%s%u:%u:%u:%u:%" PRIu64 ":%.17g:%" PRIu64, i == 0 ? "" : ";", l->geometry.shards,
            l->geometry.blocks, l->geometry.block_bits, l->geometry.hashes, l->capacity, l->error_rate,
            l->token);
    }
    return (size_t)(w.at - out);
}

/* Cut off the next word, which must be "@key=value", and give its value. */
static bool cut_value(struct span *rest, const char *key, struct span *value)
{
    size_t n = strlen(key);
    *value = (struct span){NULL, 0};
    if (!span_cut(rest, ' ', value) || value->length <= n || memcmp(value->at, key, n) != 0 ||
        value->at[n] != '=')
        return false;
    value->at += n + 1;
    value->length -= n + 1;
    return true;
}

/* The length to print with "%.*s". */
static int shown(struct span text)
{
    return text.length < 80 ? (int)text.length : 80;
}

static enum err refuse(struct error *e, const char *key, struct span value, const char *expected)
{
    return value.at == NULL ? error_set(e, ERR_PARSE, "%s= is missing", key)
                            : error_set(e, ERR_PARSE, "%s= must be %s; here is \"%.*s\"", key, expected,
                                        shown(value), value.at);
}

static bool cut_u32(struct span *rest, uint32_t *out)
{
    uint64_t value;
    if (!span_cut_u64(rest, ':', &value) || value > UINT32_MAX)
        return false;
    *out = (uint32_t)value;
    return true;
}

static bool rate_parse(struct span text, double *out)
{
    return number_double(text.at, text.length, out) && *out > 0 && *out < 1;
}

static bool layer_parse(struct span text, struct layer *l)
{
    struct span rate;
    return cut_u32(&text, &l->geometry.shards) && cut_u32(&text, &l->geometry.blocks) &&
           cut_u32(&text, &l->geometry.block_bits) && cut_u32(&text, &l->geometry.hashes) &&
           span_cut_u64(&text, ':', &l->capacity) && span_cut(&text, ':', &rate) &&
           rate_parse(rate, &l->error_rate) && span_cut_u64(&text, ':', &l->token) && text.at == NULL;
}

static enum err layers_parse(struct generation *g, struct span text, struct error *e)
{
    struct span piece;
    for (g->layer_count = 0; span_cut(&text, ';', &piece); g->layer_count++) {
        if (g->layer_count == GENERATION_LAYERS_MAX)
            return error_set(e, ERR_PARSE, "more than %d layers", GENERATION_LAYERS_MAX);
        struct layer *l = &g->layers[g->layer_count];
        if (!layer_parse(piece, l))
            return error_set(e, ERR_PARSE,
                             "layer %u is \"%.*s\": expected "
                             "shards:blocks:block_bits:hashes:capacity:error_rate:token",
                             g->layer_count, shown(piece), piece.at);
        if (geometry_check(&l->geometry, e) != ERR_OK)
            return error_prefix(e, ERR_PARSE, "layer %u", g->layer_count);
    }
    return ERR_OK;
}

static bool node_name_ok(struct span name)
{
    if (name.length == 0 || name.length >= NODE_NAME_MAX)
        return false;
    for (size_t i = 0; i < name.length; i++)
        if (name.at[i] <= ' ' || name.at[i] > '~' || name.at[i] == ';')
            return false;
    return true;
}

static enum err nodes_of(struct generation *g, struct span text, struct error *e)
{
    struct span piece;
    for (g->node_count = 0; span_cut(&text, ',', &piece); g->node_count++) {
        if (g->node_count == GENERATION_NODES_MAX)
            return error_set(e, ERR_PARSE, "more than %d nodes", GENERATION_NODES_MAX);
        if (!node_name_ok(piece))
            return error_set(e, ERR_PARSE, "node %u is \"%.*s\": expected an address of 1 to %d characters",
                             g->node_count, shown(piece), piece.at, NODE_NAME_MAX - 1);
        memcpy(g->nodes[g->node_count], piece.at, piece.length);
        g->nodes[g->node_count][piece.length] = '\0';
    }
    return ERR_OK;
}

enum err generation_parse(struct generation *out, const char *text, size_t length, struct error *e)
{
    if (length >= GENERATION_TEXT_MAX)
        return error_set(e, ERR_PARSE, "the text of a generation has %zu bytes, more than %d", length,
                         GENERATION_TEXT_MAX - 1);
    struct span rest = {text, length};
    struct span value = {NULL, 0};
    if (!cut_value(&rest, "number", &value) || !number_u64(value.at, value.length, &out->number) ||
        out->number == 0)
        return refuse(e, "number", value, "a whole number, 1 or more");
    if (!cut_value(&rest, "seed", &value) || !number_hex64(value.at, value.length, &out->seed))
        return refuse(e, "seed", value, "a hexadecimal number");
    if (!cut_value(&rest, "built", &value) || value.length != 1 || (*value.at != '0' && *value.at != '1'))
        return refuse(e, "built", value, "0 or 1");
    out->built = *value.at == '1';
    if (!cut_value(&rest, "capacity", &value) || !number_u64(value.at, value.length, &out->capacity))
        return refuse(e, "capacity", value, "a whole number");
    if (!cut_value(&rest, "rate", &value) || !rate_parse(value, &out->error_rate))
        return refuse(e, "rate", value, "a number between 0 and 1");
    if (!cut_value(&rest, "nodes", &value))
        return refuse(e, "nodes", value, "addresses");
    enum err err = nodes_of(out, value, e);
    if (err != ERR_OK)
        return err;
    if (!cut_value(&rest, "layers", &value))
        return refuse(e, "layers", value, "layers");
    err = layers_parse(out, value, e);
    if (err == ERR_OK && rest.at != NULL)
        return error_set(e, ERR_PARSE, "\"%.*s\" follows the layers", shown(rest), rest.at);
    return err;
}

uint64_t generation_next_token(const struct generation *g)
{
    return g->layers[g->layer_count - 1].token + 1;
}

uint64_t generation_shards(const struct generation *g)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < g->layer_count; i++)
        sum += g->layers[i].geometry.shards;
    return sum;
}

uint64_t generation_bytes(const struct generation *g)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < g->layer_count; i++)
        sum += geometry_bytes(&g->layers[i].geometry);
    return sum;
}

double generation_rate(const struct generation *g, uint64_t keys)
{
    double log_clean = 0; /* log of P(no layer is wrong): keeps digits that 1 - (1 - p) would round away */
    for (unsigned i = 0; i < g->layer_count; i++) {
        const struct layer *l = &g->layers[i];
        uint64_t here = i + 1 == g->layer_count || keys < l->capacity ? keys : l->capacity;
        log_clean += log1p(-geometry_rate(&l->geometry, here));
        keys -= here;
    }
    return -expm1(log_clean);
}
