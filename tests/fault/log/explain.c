/* SPDX-License-Identifier: MIT */
#include "tests/fault/log/explain.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shard/filter/block.h"
#include "shard/filter/hash.h"
#include "shard/view/log_view.h"
#include "tests/lib/process.h"

enum { KEY_TEXT = 24, COPY_MS = 30000 };

/* --- a key --- */

static struct key_hash hash_of(const struct log_view *v, uint64_t key)
{
    char text[KEY_TEXT];
    int n = snprintf(text, sizeof(text), "%" PRIu64, key);
    return hash_key(v->seed, text, (size_t)n);
}

/* The bytes of the hash in an entry. */
static void entry_bytes(struct key_hash h, uint8_t out[LOG_HASH_BYTES])
{
    for (unsigned i = 0; i < 8; i++) {
        out[i] = (uint8_t)(h.low >> 8 * i);
        out[8 + i] = (uint8_t)(h.high >> 8 * i);
    }
}

static void explain_lane(struct log_world *w, const struct log_view *v, struct key_hash h)
{
    struct error e = {""};
    struct lane lane;
    redisReply *r;
    uint8_t bytes[LOG_HASH_BYTES];
    unsigned n = log_lane_of(h, v->lane_count), found = 0;
    entry_bytes(h, bytes);
    if (log_view_lane_at(v, &w->names, sync_client_nodes(w->link), n, &lane, &e) != ERR_OK ||
        sync_client_command(w->link, lane.where, &r, &e, "XRANGE %b - +", lane.key.text, lane.key.length) !=
            ERR_OK) {
        (void)fprintf(stderr, "  lane %u: %s\n", n, e.text);
        return;
    }
    (void)fprintf(stderr, "  lane %u, %.*s: %zu entries", n, (int)lane.key.length, lane.key.text,
                  r->elements);
    for (size_t i = 0; i < r->elements; i++) {
        const redisReply *fields = r->element[i]->element[1];
        const redisReply *entry = fields->elements == 2 ? fields->element[1] : NULL;
        if (entry != NULL && memmem(entry->str, entry->len, bytes, sizeof(bytes)) != NULL)
            (void)fprintf(stderr, "%s%s", found++ == 0 ? ", the key is in " : " ",
                          r->element[i]->element[0]->str);
    }
    (void)fprintf(stderr, "%s\n", found == 0 ? ", none with the key" : "");
    freeReplyObject(r);
}

/* Print one line: whether a layer has the key's bits in Redis. */
static void explain_layer(struct log_world *w, const struct generation *g, unsigned layer, struct key_hash h)
{
    static const char *const answers[] = {"not all bits are set", "it is set", "the block is none",
                                          "refused"};
    const struct geometry *geometry = &g->layers[layer].geometry;
    struct error e = {""};
    struct placement placement;
    struct key_place place;
    struct key_name key;
    redisReply *r;
    uint16_t tag = hash_tag(w->names.incarnation, w->names.filter, w->names.filter_length, g->number);
    hash_place(geometry, hash_mix(h, g->seed), &place);
    names_log_shard(&w->names, (struct shard_id){g->number, layer, place.shard}, &key);
    uint32_t bytes = geometry->block_bits / 8, at = header_bytes(geometry) + place.block * bytes;
    enum err code = placement_resolve(&placement, &w->names, g, sync_client_nodes(w->link), &e);
    if (code == ERR_OK)
        code = sync_client_command(w->link, placement_where(&placement, layer, place.shard), &r, &e,
                                   "GETRANGE %b %u %u", key.text, key.length, at, at + bytes - 1);
    if (code != ERR_OK) {
        (void)fprintf(stderr, "    layer %u: %s\n", layer, e.text);
        return;
    }
    bool is_block = r->type == REDIS_REPLY_STRING;
    (void)fprintf(stderr, "    layer %u: %.*s, block %" PRIu32 " at byte %" PRIu32 ": %s\n", layer,
                  (int)key.length, key.text, place.block, at,
                  is_block ? answers[block_test(geometry, tag, &place, r->str, r->len)] : "no string");
    freeReplyObject(r);
}

static void explain_slot(struct log_world *w, const struct log_view *v, unsigned slot, struct key_hash h)
{
    const struct log_generation *g = &v->slot[slot];
    struct buffer position = {0};
    unsigned lane = log_lane_of(h, v->lane_count);
    if (g->shape.number == 0)
        return;
    log_position_format(&g->folded[lane].position, &position);
    (void)fprintf(stderr,
                  "  generation %" PRIu64 "%s%s, writer %" PRIu64
                  ", %u layers; folded in lane number %" PRIu64 " up to %.100s, %u layers had begun\n",
                  g->shape.number, slot == v->current ? ", is read" : "", g->shape.built ? "" : ", not built",
                  g->writer.number, g->shape.layer_count, g->folded[lane].lane_number, buffer_text(&position),
                  g->folded[lane].layers);
    buffer_fini(&position);
    for (unsigned layer = 0; layer < g->shape.layer_count; layer++)
        explain_layer(w, &g->shape, layer, h);
}

void explain_key(struct log_world *w, uint64_t key)
{
    const struct ledger *l = w->ledger;
    const struct log_view *v = log_world_view(w);
    uint8_t bytes[LOG_HASH_BYTES];
    (void)fprintf(stderr,
                  "key %" PRIu64 ": acknowledged first at %" PRIu64
                  " to worker %u, %u of %u adds acknowledged, %u times new\n",
                  key, l->first_ms[key], l->first_by[key], l->ended[key], l->begun[key], l->news[key]);
    if (v == NULL)
        return;
    w->names.incarnation = v->incarnation;
    struct key_hash h = hash_of(v, key);
    entry_bytes(h, bytes);
    (void)fprintf(stderr, "  in entries: ");
    for (unsigned i = 0; i < sizeof(bytes); i++)
        (void)fprintf(stderr, "%02x", bytes[i]);
    (void)fprintf(stderr, "\n  view %" PRIu64 "%s\n", v->version, v->degraded ? ", degraded" : "");
    explain_lane(w, v, h);
    explain_slot(w, v, 0, h);
    explain_slot(w, v, 1, h);
}

/* --- the files --- */

static void copy(const char *from, const char *to)
{
    struct error e = {""};
    char *output = NULL;
    int status = -1;
    const char *const argv[] = {"cp", "-r", from, to, NULL};
    if (process_run(argv, COPY_MS, &output, &status, &e) != ERR_OK || status != 0)
        (void)fprintf(stderr, "%s is not kept: %s\n", from, e.text);
    free(output);
}

void explain_keep(struct log_world *w)
{
    char directory[PATH_MAX], path[PATH_MAX + 16];
    struct error e = {""};
    if (process_make_directory(directory, "log_fault", &e) != ERR_OK) {
        (void)fprintf(stderr, "%s\n", e.text);
        return;
    }
    (void)snprintf(path, sizeof(path), "%s/notes", directory);
    FILE *to = fopen(path, "we");
    if (to != NULL) {
        ledger_print_notes(w->ledger, to);
        (void)fclose(to);
    }
    struct fault_servers *s = &w->servers;
    for (unsigned i = 0; i < s->count; i++) {
        temp_redis_stop(&s->redis[i]);
        copy(s->redis[i].directory, directory);
    }
    for (unsigned i = 0; i < s->cluster.count; i++) {
        temp_redis_stop(&s->cluster.node[i]);
        copy(s->cluster.node[i].directory, directory);
    }
    (void)fprintf(stderr, "kept: %s\n", directory);
}
