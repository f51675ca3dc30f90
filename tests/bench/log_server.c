/* SPDX-License-Identifier: MIT */
#include "log_bench.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/clock.h"
#include "base/info.h"
#include "shard/request/log_filter_state.h"
#include "shard/fold/due.h"
#include "shard/generations/make.h"
#include "shard/view/view_load.h"

enum { LOADED_SECONDS = 60, FOLD_US = 1000000, TEND_MS = 100 };

void must(enum err code, const struct error *e)
{
    if (code == ERR_OK)
        return;
    (void)fprintf(stderr, "bench_log: %s: %s\n", error_name(code), e->text);
    exit(2);
}

void *allocate(size_t bytes)
{
    void *at = calloc(1, bytes);
    if (at == NULL)
        must(ERR_NOMEM, &(struct error){"out of memory"});
    return at;
}

double thread_cpu(pthread_t thread)
{
    struct timespec t = {0};
    clockid_t clock;
    if (pthread_getcpuclockid(thread, &clock) != 0 || clock_gettime(clock, &t) != 0)
        must(ERR_IO, &(struct error){"no clock of a thread"});
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* --- a server --- */

void server_start(struct server *s, const char *module)
{
    struct error e = {""};
    const char *const with_module[] = {"--loadmodule", module, NULL};
    *s = (struct server){0};
    must(temp_redis_start(&s->redis, module == NULL ? NULL : with_module, &e), &e);
    must(nodes_parse(&s->nodes, s->redis.url, &e), &e);
    s->link = sync_client_new(&s->nodes, REPLY_MS, NULL);
    s->context = redisConnect("127.0.0.1", s->redis.port);
    if (s->link == NULL || s->context == NULL || s->context->err != 0)
        must(ERR_UNREACHABLE, &(struct error){"Redis is away"});
}

void server_stop(struct server *s)
{
    sync_client_free(s->link);
    redisFree(s->context);
    temp_redis_fini(&s->redis);
}

double server_cpu(struct server *s)
{
    struct error e = {""};
    double seconds = 0;
    must(measure_redis_cpu(s->context, &seconds, &e), &e);
    return seconds;
}

static redisReply *command(struct server *s, const char *format, va_list args)
{
    redisReply *r = redisvCommand(s->context, format, args);
    if (r == NULL || r->type == REDIS_REPLY_ERROR) {
        (void)fprintf(stderr, "bench_log: %s: %s\n", format, r == NULL ? s->context->errstr : r->str);
        exit(2);
    }
    return r;
}

long long server_integer(struct server *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    redisReply *r = command(s, format, args);
    va_end(args);
    long long value = r->integer;
    freeReplyObject(r);
    return value;
}

void server_ok(struct server *s, const char *command)
{
    (void)server_integer(s, command);
}

double server_call_us(struct server *s, const char *command)
{
    char field[64];
    size_t n = 0;
    double us = 0;
    (void)snprintf(field, sizeof(field), "cmdstat_%s", command);
    redisReply *r = redisCommand(s->context, "INFO commandstats");
    const char *text = r == NULL ? NULL : info_value(r->str, r->len, field, &n);
    const char *at = text == NULL ? NULL : strstr(text, "usec_per_call=");
    if (at != NULL)
        us = strtod(at + strlen("usec_per_call="), NULL);
    freeReplyObject(r);
    return us;
}

/* --- filters --- */

void filter_make(struct server *s, const char *name, uint64_t capacity, struct made *out)
{
    struct placement placement;
    struct error e = {""};
    struct log_view *v = allocate(sizeof(*v));
    const struct make_options o = {.capacity = capacity,
                                   .error_rate = ERROR_RATE,
                                   .lanes = 1,
                                   .placement = &placement,
                                   .shard_bytes = SHARD_BYTES_DEFAULT};
    must(names_init(&out->names, "tb", name, strlen(name), &e), &e);
    must(placement_choose(&placement, &s->nodes, "", &e), &e);
    must(log_make(s->link, &out->names, &o, v, NULL, &e), &e);
    const struct generation *g = &v->slot[v->current].shape;
    out->geometry = g->layers[0].geometry;
    out->generation = g->number;
    out->tag = hash_tag(out->names.incarnation, out->names.filter, out->names.filter_length, out->generation);
    free(v);
}

/* Fill a shard with random bits, and set its tags. */
static void fill_at_random(const struct made *f, uint64_t *random, uint8_t *bytes, size_t length)
{
    size_t block_bytes = f->geometry.block_bits / 8;
    for (size_t i = 0; i < length; i += sizeof(*random)) {
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        memcpy(bytes + i, random, sizeof(*random));
    }
    for (size_t at = 0; at < length; at += block_bytes) {
        bytes[at] = (uint8_t)(f->tag >> 8);
        bytes[at + 1] = (uint8_t)f->tag;
    }
}

void member_begin(struct log_member *m, struct server *s, const struct made *f, bool folds)
{
    struct error e = {""};
    const struct log_member_options o = {.nodes = &s->nodes,
                                         .names = &f->names,
                                         .memory = UINT64_MAX,
                                         .timeout_ms = REPLY_MS,
                                         .retain_us = LOG_RETAIN_US_DEFAULT,
                                         .look_interval_us = TEND_MS * 1000,
                                         .fold_interval_us = FOLD_US,
                                         .folds = folds};
    must(log_member_open(m, &o, &e), &e);
}

bool member_has_loaded(struct log_member *m)
{
    struct log_filter *f = m->filter;
    struct resident_status s = {0};
    (void)pthread_rwlock_rdlock(&f->lock);
    if (f->state == FILTER_OPEN && f->slot[f->current] != NULL)
        resident_status(f->slot[f->current]->resident, &s);
    (void)pthread_rwlock_unlock(&f->lock);
    return s.shards > 0 && s.resident == s.shards;
}

void member_open(struct log_member *m, struct server *s, const struct made *f, bool folds)
{
    uint64_t until = clock_mono_us() + UINT64_C(1000000) * LOADED_SECONDS;
    member_begin(m, s, f, folds);
    while (!member_has_loaded(m)) {
        if (clock_mono_us() > until)
            must(ERR_TIMEOUT, &(struct error){"the filter is not loaded"});
        clock_sleep_us(1000);
    }
}

/* True: the stored position is that of the lane's last entry. */
static bool is_folded(struct server *s, const struct made *f, struct log_view *v)
{
    struct error e = {""};
    char last[LOG_ID_TEXT_MAX] = "";
    char folded[LOG_ID_TEXT_MAX];
    struct lane lane;
    must(log_view_load(s->link, &f->names, v, &e), &e);
    must(log_view_lane_at(v, &f->names, &s->nodes, 0, &lane, &e), &e);
    redisReply *r = redisCommand(s->context, "XREVRANGE %b + - COUNT 1", lane.key.text, lane.key.length);
    if (r != NULL && r->type == REDIS_REPLY_ARRAY && r->elements == 1)
        (void)snprintf(last, sizeof(last), "%s", r->element[0]->element[0]->str);
    freeReplyObject(r);
    (void)log_id_format(v->slot[v->current].folded[0].position.id, folded);
    return strcmp(last, folded) == 0;
}

void member_wait_folded(struct log_member *m, struct server *s, const struct made *f)
{
    struct log_view *v = allocate(sizeof(*v));
    (void)m;
    while (!is_folded(s, f, v))
        clock_sleep_us(50000);
    free(v);
}

/* Have the filter's first fold made: shards that were never folded are not read. */
static void fold_first(struct server *s, const struct made *f)
{
    struct log_member m;
    struct keys keys;
    struct drive add = {.member = &m, .keys = &keys, .count = 1, .batch = 1, .outstanding = 1, .adds = true};
    keys_make(&keys, 0, 1);
    member_open(&m, s, f, true);
    drive_run(&add, s);
    member_wait_folded(&m, s, f);
    log_member_close(&m);
    keys_free(&keys);
}

void filter_fill(struct server *s, const struct made *f)
{
    fold_first(s, f);
    size_t length = geometry_shard_bytes(&f->geometry);
    uint8_t *bytes = allocate(length);
    uint64_t random = UINT64_C(0x9e3779b97f4a7c15);
    for (uint32_t shard = 0; shard < f->geometry.shards; shard++) {
        struct key_name key;
        names_log_shard(&f->names, (struct shard_id){.generation = f->generation, .shard = shard}, &key);
        fill_at_random(f, &random, bytes, length);
        (void)server_integer(s, "SETRANGE %b %u %b", key.text, key.length, f->geometry.block_bits / 8, bytes,
                             length);
    }
    free(bytes);
}

/* --- a process --- */

/* --- figures --- */

void figure_add(struct figure *f, double own, double raw, double module)
{
    samples_add(&f->own, own);
    if (raw > 0)
        samples_add(&f->raw, raw);
    if (module > 0)
        samples_add(&f->module, module);
}

/* Print the median of the rounds' ratios. */
static void print_ratio(const struct samples *own, const struct samples *other, const char *unit,
                        const char *name)
{
    struct samples ratio = {0};
    for (unsigned i = 0; i < other->count; i++)
        samples_add(&ratio, own->value[i] / other->value[i]);
    if (other->count > 0)
        (void)printf("          %s: %.3f %s; the above is %.2f times as much\n", name, samples_median(other),
                     unit, samples_median(&ratio));
}

void figure_print(const struct figure *f, const char *what, const char *unit, bool at_most, double limit)
{
    table_target(what, samples_median(&f->own), unit, at_most, limit);
    print_ratio(&f->own, &f->raw, unit, "plain Redis");
    print_ratio(&f->own, &f->module, unit, "RedisBloom");
    (void)fflush(stdout);
}
