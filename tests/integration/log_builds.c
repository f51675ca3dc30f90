/* SPDX-License-Identifier: MIT */
#include "tests/integration/log_builds.h"
#include "tests/integration/lane_append.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/info.h"
#include "shard/resident/load.h"
#include "shard/view/shards.h"

struct servers log_servers;
struct names log_names;
char log_directory[PATH_MAX];

static const uint8_t writer[LOG_WRITER_BYTES] = "the main thread";
static struct sync_client *own;
static struct lane lane;
static struct log_position end; /* the end of the lane that the main thread has read */
static uint64_t sequence;

int log_start(void **state)
{
    (void)state;
    struct error e = {""};
    must(process_make_directory(log_directory, "build", &e), e);
    if (servers_start(&log_servers, 2) != 0)
        return -1;
    own = sync_client_new(&log_servers.nodes, SYNC_CLIENT_MS, NULL);
    return own == NULL ? -1 : 0;
}

int log_stop(void **state)
{
    (void)state;
    sync_client_free(own);
    assert_int_equal(rmdir(log_directory), 0);
    return servers_stop(&log_servers);
}

/* --- the filter --- */

struct key_hash log_key(uint64_t number)
{
    return hash_key(LOG_SEED, &number, sizeof(number));
}

static void view_key(struct key_name *out)
{
    names_filter_key(&log_names, "view", out);
}

void log_set_field(const char *name, const char *value)
{
    struct key_name key;
    view_key(&key);
    (void)servers_integer(&log_servers, 0, "HSET %b %s %s", key.text, key.length, name, value);
}

const char *log_field(const char *name)
{
    struct key_name key;
    view_key(&key);
    return servers_text(&log_servers, 0, "HGET %b %s", key.text, key.length, name);
}

static void put_field(void *arg, const char *name, const char *value)
{
    (void)arg;
    log_set_field(name, value);
}

const struct log_view *log_stored(void)
{
    static struct log_view v;
    struct error e = {""};
    must(log_view_load(own, &log_names, &v, &e), e);
    return &v;
}

struct generation log_shape(void)
{
    struct error e = {""};
    struct generation g = {.number = LOG_OLD,
                           .seed = 77,
                           .built = true,
                           .capacity = LOG_BUILD_KEYS,
                           .error_rate = 0.01,
                           .layer_count = 1};
    nodes_pin(&log_servers.nodes, &g);
    g.layers[0] = (struct layer){.capacity = LOG_BUILD_KEYS, .error_rate = 0.01, .token = 1};
    must(geometry_plan(&g.layers[0].geometry, LOG_BUILD_KEYS, 0.01, 4096, &e), e);
    assert_true(g.layers[0].geometry.shards > 4);
    return g;
}

static void make_lane(uint64_t number)
{
    struct error e = {""};
    lane_key(&lane.key, &log_names, 0, number);
    lane.where = nodes_key(&log_servers.nodes, lane.key.text, lane.key.length);
    must(lane_make(own, &lane, writer, ++sequence, &end, &e), e);
}

static void trust_all(struct trusted *out)
{
    struct client *c;
    for (unsigned i = 0; (c = servers_each(&log_servers, i)) != NULL; i++) {
        redisReply *r = client_command(c, "INFO replication");
        assert_non_null(r);
        out->id[out->count++] = info_id(r->str, r->len, "master_replid");
        freeReplyObject(r);
    }
}

/* Make the generation @g. Its shards are empty, and its position is the lane's anchor. */
static void make_old(const struct generation *g)
{
    struct fold f;
    struct error e = {""};
    struct fold_bound needed, over_hold;
    uint64_t later;
    fold_init(&f, own, &log_names, LOG_OLD);
    must(fold_draw(&f, 1, &e), e);
    must(shards_make(own, &log_names, g, 0, f.token, &later, NULL, &e), e);
    must(fold_store(&f, 0, 1, lane.era, &end, 1, false, &needed, &over_hold, &e), e);
    fold_fini(&f);
}

int log_setup(void **state)
{
    (void)state;
    struct error e = {""};
    servers_flush(&log_servers);
    sync_client_forget(own);
    must(names_init(&log_names, PREFIX, "f", 1, &e), e);
    log_names.incarnation = INCARNATION;
    make_lane(1);
    struct log_view *v = calloc(1, sizeof(*v));
    assert_non_null(v);
    *v = (struct log_view){.incarnation = INCARNATION,
                           .version = 1,
                           .seed = LOG_SEED,
                           .last_generation = LOG_OLD,
                           .lane_count = 1,
                           .lane = {{1, lane.era}}};
    trust_all(&v->eras);
    v->slot[0].shape = log_shape();
    log_view_format(v, put_field, NULL);
    make_old(&v->slot[0].shape);
    free(v);
    return 0;
}

long long log_count_keys(const char *pattern)
{
    long long n = 0;
    struct client *c;
    for (unsigned i = 0; (c = servers_each(&log_servers, i)) != NULL; i++) {
        redisReply *r = client_command(c, "KEYS " PREFIX ":{f%s", pattern);
        assert_true(r != NULL && r->type == REDIS_REPLY_ARRAY);
        n += (long long)r->elements;
        freeReplyObject(r);
    }
    return n;
}

/* --- the lane --- */

enum err log_pass_over(void *arg, const struct tail_record *record, struct error *e)
{
    (void)arg;
    (void)record;
    (void)e;
    return ERR_OK;
}

void log_add_hashes(const struct key_hash *keys, unsigned count)
{
    uint8_t bytes[LOG_ENTRY_BYTES_MAX];
    struct error e = {""};
    enum tail_state tail = TAIL_EMPTY;
    size_t length = log_entry_encode(bytes, writer, ++sequence, keys, count);
    must(lane_append(own, &lane, &end, bytes, length, log_pass_over, NULL, &tail, &e), e);
    assert_string_equal(tail_state_name(tail), tail_state_name(TAIL_COMPLETE));
}

/* The hashes of the keys [first, last). Release them with free(). */
static struct key_hash *hashes_of(uint64_t first, uint64_t last)
{
    struct key_hash *keys = calloc(last - first, sizeof(*keys));
    assert_non_null(keys);
    for (uint64_t i = first; i < last; i++)
        keys[i - first] = log_key(i);
    return keys;
}

void log_add(uint64_t first, unsigned count)
{
    struct key_hash *keys = hashes_of(first, first + count);
    log_add_hashes(keys, count);
    free(keys);
}

void log_lane(struct lane *out, struct log_position *at)
{
    *out = lane;
    *at = end;
}

void log_replace_lane(void)
{
    char text[64];
    make_lane(log_stored()->lane[0].number + 1);
    (void)snprintf(text, sizeof(text), "%" PRIu64 ":%016" PRIx64, log_stored()->lane[0].number + 1, lane.era);
    log_set_field("lanes", text);
}

void log_lose_lane(void)
{
    assert_int_equal(servers_integer(&log_servers, 0, "DEL %b", lane.key.text, lane.key.length), 1);
}

void log_trim(void)
{
    assert_true(servers_integer(&log_servers, 0, "XTRIM %b MAXLEN 1", lane.key.text, lane.key.length) > 0);
}

/* --- builds --- */

void log_open(struct log_process *p, const struct nodes *nodes)
{
    struct error e = {""};
    *p = (struct log_process){.link = sync_client_new(nodes, SYNC_CLIENT_MS, NULL)};
    assert_non_null(p->link);
    must(builder_new(&p->builder, p->link, &log_names, &e), e);
}

void log_close(struct log_process *p)
{
    build_free(p->build);
    builder_free(p->builder);
    sync_client_free(p->link);
    *p = (struct log_process){0};
}

void log_bits(struct log_process *p, uint64_t memory, work_fn *poll, void *arg)
{
    struct error e = {""};
    build_free(p->build);
    p->build = NULL;
    const struct build_options o = {.memory = memory,
                                    .writers = 2,
                                    .spill_dir = log_directory,
                                    .spill_bytes = 1 << 30,
                                    .poll = {poll, arg}};
    must(build_new(&p->build, p->builder, &o, &e), e);
    assert_int_equal(build_partitions(p->build) > 1, memory == LOG_SPILLS);
}

void log_begin(struct log_process *p, uint64_t memory)
{
    struct error e = {""};
    struct generation shape = log_shape();
    log_open(p, &log_servers.nodes);
    must(builder_begin(p->builder, &shape, "", &e), e);
    must(builder_start(p->builder, &e), e);
    log_bits(p, memory, NULL, NULL);
}

void log_rows(struct log_process *p, uint64_t first, uint64_t last)
{
    struct error e = {""};
    for (uint64_t i = first; i < last; i++) {
        build_put(p->build, 0, log_key(i));
        if ((i + 1) % LOG_PAGE == 0 || i + 1 == last)
            must(build_page_end(p->build, 0, &e), e);
    }
}

void log_checkpoint(struct log_process *p, const char *rows)
{
    struct error e = {""};
    must(build_checkpoint(p->build, rows, strlen(rows), &e), e);
}

void log_cuts_over(struct log_process *p)
{
    struct error e = {""};
    must(build_cutover(p->build, false, &e), e);
    assert_int_equal(log_stored()->slot[log_stored()->current].shape.number, p->builder->shape.number);
}

bool log_resumes(struct log_process *p, char rows[32])
{
    struct error e = {""};
    struct buffer added = {0};
    log_open(p, &log_servers.nodes);
    must(builder_resume(p->builder, &added, &e), e);
    (void)snprintf(rows, 32, "%s", buffer_text(&added));
    buffer_fini(&added);
    return p->builder->anew;
}

void log_starts(struct log_process *p, uint64_t memory)
{
    struct error e = {""};
    must(builder_start(p->builder, &e), e);
    log_bits(p, memory, NULL, NULL);
}

bool log_reads_old(void)
{
    return log_stored()->slot[log_stored()->current].shape.number == LOG_OLD;
}

/* --- a process that loads what Redis has --- */

struct reader {
    struct budget budget;
    struct resident *resident;
};

/* Load all shards. Returns how many of them could be loaded. */
static uint32_t load(struct reader *r, const struct generation *g)
{
    struct placement placement;
    struct error e = {""};
    budget_init(&r->budget, UINT64_MAX);
    must(resident_new(&r->resident, g->seed, 1, &r->budget, &e), e);
    must(resident_add_layer(r->resident, &g->layers[0].geometry,
                            hash_tag(log_names.incarnation, "f", 1, g->number), &e),
         e);
    must(placement_resolve(&placement, &log_names, g, &log_servers.nodes, &e), e);
    struct load l = {.resident = r->resident,
                     .names = &log_names,
                     .placement = &placement,
                     .generation = g->number,
                     .writer = {.number = UINT64_MAX},
                     .made = g->layers[0].token,
                     .eras = &log_stored()->eras,
                     .count = g->layers[0].geometry.shards};
    must(load_begin(&l, &e), e);
    load_and_wait(&l, own);
    uint32_t whole = load_end(&l);
    load_cancel(&l);
    return whole;
}

static void load_all(struct reader *r, const struct generation *g)
{
    assert_int_equal(load(r, g), g->layers[0].geometry.shards);
}

uint32_t log_count_shards(const struct generation *g)
{
    struct reader r;
    uint32_t whole = load(&r, g);
    resident_free(r.resident);
    return whole;
}

static uint64_t count_missing(struct reader *r, const struct key_hash *keys, size_t count)
{
    uint64_t n = 0;
    for (size_t i = 0; i < count; i++) {
        uint8_t answer;
        resident_look(r->resident, &keys[i], 1, &answer);
        n += answer != RESIDENT_PRESENT;
    }
    resident_free(r->resident);
    return n;
}

static enum err apply(void *arg, const struct tail_record *record, struct error *e)
{
    struct reader *r = arg;
    struct key_hash keys[LOG_KEYS_MAX];
    uint8_t added[LOG_KEYS_MAX];
    for (unsigned i = 0; i < record->entry.count; i++)
        keys[i] = log_entry_hash(&record->entry, i);
    return resident_apply(r->resident, 0, record->id, keys, record->entry.count, added, e);
}

uint64_t log_missing_in(const struct generation *g, uint64_t first, uint64_t last)
{
    struct key_hash *keys = hashes_of(first, last);
    struct reader r;
    load_all(&r, g);
    uint64_t n = count_missing(&r, keys, last - first);
    free(keys);
    return n;
}

/* Read the view's `folded` before the shards. */
uint64_t log_missing_hashes(const struct key_hash *keys, size_t count)
{
    const struct log_view *v = log_stored();
    const struct log_generation *g = &v->slot[v->current];
    struct log_position at = g->folded[0].position;
    struct reader r;
    struct error e = {""};
    enum tail_state tail = TAIL_MORE;
    assert_true(g->shape.built && log_view_is_folded(v, g, 0));
    load_all(&r, &g->shape);
    while (tail == TAIL_MORE)
        must(lane_read(own, &lane, &at, apply, &r, &tail, &e), e);
    assert_string_equal(tail_state_name(tail), tail_state_name(TAIL_COMPLETE));
    return count_missing(&r, keys, count);
}

uint64_t log_missing(uint64_t first, uint64_t last)
{
    struct key_hash *keys = hashes_of(first, last);
    uint64_t n = log_missing_hashes(keys, last - first);
    free(keys);
    return n;
}
