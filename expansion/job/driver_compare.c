/* SPDX-License-Identifier: MIT */
/* Full verification: readers hash every row of the source, and the hashes are compared with the generation's
 * shards, which are read completely. If some are missing, the source is read once more to find their keys. */
#include <inttypes.h>
#include <stdlib.h>
#include "base/clock.h"
#include "base/log.h"
#include "expansion/job/driver_internal.h"
#include "migrate/verify/compare.h"
#include "shard/filter/hash.h"

struct sink {
    struct compare *compare;
    uint64_t seed, mix;
};

static void on_row(void *arg, unsigned i, const char *key, size_t length)
{
    struct sink *s = arg;
    compare_put(s->compare, i, hash_mix(hash_key(s->seed, key, length), s->mix));
}

static enum err on_page(void *arg, unsigned i, struct error *e)
{
    struct sink *s = arg;
    return compare_page_end(s->compare, i, e);
}

static bool is_full(const void *arg)
{
    const struct sink *s = arg;
    return compare_is_full(s->compare);
}

/* All rows of the source, in the fastest order here; for blocks those of d->parts. */
static struct readers_work all_rows(const struct driver *d)
{
    if (d->o->scan_blocks)
        return (struct readers_work){.blocks = true, .tables = (unsigned)d->part_count, .parts = d->parts};
    return (struct readers_work){.tables = source_tables(d->source)};
}

/* Until the readers have ended, or (*@ended is false) an operator pauses the job. */
static enum err look_after(struct driver *d, struct sink *s, bool *ended, struct error *e)
{
    uint64_t seen = 0;
    for (;;) {
        enum err ended_with;
        struct readers_progress p;
        *ended = driver_readers_ended(d, &ended_with, e);
        readers_progress(d->readers, &p);
        d->pace.rows += p.rows - seen;
        seen = p.rows;
        if (*ended)
            return ended_with;
        /* While the files are full, no page begins. */
        enum err code = compare_is_full(s->compare) ? compare_finish(s->compare, e) : ERR_OK;
        if (code == ERR_OK)
            code = driver_look(d, "", e);
        driver_pace_readers(d);
        if (code != ERR_OK || d->control.paused)
            return code;
    }
}

static enum err read_and_compare(struct driver *d, struct compare *compare, uint64_t seed, uint64_t mix,
                                 bool *ended, struct error *e)
{
    struct sink sink = {.compare = compare, .seed = seed, .mix = mix};
    const struct readers_options calls = {.row = on_row, .page = on_page, .is_full = is_full, .arg = &sink};
    enum err code = driver_readers_start(d, all_rows(d), &calls, e);
    if (code == ERR_OK)
        code = look_after(d, &sink, ended, e);
    driver_readers_stop(d);
    return code == ERR_OK && *ended ? compare_finish(compare, e) : code;
}

/* --- missing keys --- */

struct wanted {
    uint64_t seed, mix;
    const struct key_hash *hashes; /* sorted */
    size_t count;
    driver_keys_fn *fn;
    void *arg;
};

static enum err pick(void *arg, size_t count, const char *const *keys, const size_t *lengths, struct error *e)
{
    const struct wanted *w = arg;
    enum err code = ERR_OK;
    for (size_t i = 0; i < count && code == ERR_OK; i++) {
        struct key_hash h = hash_mix(hash_key(w->seed, keys[i], lengths[i]), w->mix);
        if (bsearch(&h, w->hashes, w->count, sizeof(h), key_hash_compare) != NULL)
            code = w->fn(w->arg, 1, &keys[i], &lengths[i], e);
    }
    return code;
}

/* @in is initialised. *@ended is false if a pause has ended it: it begins again, as what it holds needs the
 * process's right to build, which the driver takes after all that may pause. */
static enum err compare_with(struct driver *d, struct log_input *in, uint64_t seed, driver_keys_fn *missing,
                             void *arg, struct driver_compared *out, bool *ended, struct error *e)
{
    const struct build_options o = driver_build_options(d);
    struct compare *compare = NULL;
    struct wanted w = {.seed = seed, .mix = in->generation->seed, .fn = missing, .arg = arg};
    uint64_t began = clock_mono_us();
    enum err code = driver_replayed(d, e);
    if (code == ERR_OK && d->o->scan_blocks)
        code = driver_parts(d, d->source, e);
    if (code == ERR_OK)
        code = driver_take_build(d, e);
    if (code == ERR_OK)
        code = compare_new(&compare, in, &o, e);
    if (code == ERR_OK)
        code = compare_load(compare, e);
    if (code == ERR_OK)
        code = read_and_compare(d, compare, w.seed, w.mix, ended, e);
    if (code == ERR_OK && *ended) {
        log_input_fini(in); /* of what needs the right to build nothing is left */
        w.hashes = compare_missing(compare, &w.count);
        *out = (struct driver_compared){
            .rows = compare_tested(compare), .missing = compare_missing_total(compare), .handed = w.count};
        log_info("compare_done", "filter=%s rows=%" PRIu64 " missing=%" PRIu64 " duration_ms=%.3f",
                 log_quote(d->o->filter), out->rows, out->missing, (double)(clock_mono_us() - began) / 1e3);
        if (w.count > 0)
            code = driver_read(d, all_rows(d), pick, &w, e);
    }
    compare_free(compare);
    return code;
}

enum err driver_compare(struct driver *d, driver_keys_fn *missing, void *arg, struct driver_compared *out,
                        struct error *e)
{
    enum err code = ERR_OK;
    for (bool ended = false; code == ERR_OK && !ended;) {
        SCOPED(log_input_fini) struct log_input in = {.resident = NULL};
        uint64_t seed;
        code = driver_input(d, &in, &seed, e);
        if (code == ERR_OK)
            code = driver_input_failed(d, compare_with(d, &in, seed, missing, arg, out, &ended, e), e);
    }
    return code;
}
