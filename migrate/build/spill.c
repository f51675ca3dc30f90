/* SPDX-License-Identifier: MIT */
/* The happy path is: writers gather hashes in one buffer per partition, and append full buffers to the file
 * of their round. To seal a file, the reader begins the next round. Each writer writes out its buffers and
 * moves to the new round at the end of its page; the reader moves a writer that is between two pages. When
 * all writers have moved, no writer uses the file of the last round any more.
 *
 * Possible failure modes are: the disk is full or broken (permanent: the caller starts over from its
 * checkpoint); a writer does not end its page. */
#include "migrate/build/spill.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include "base/clock.h"

enum { LINE_BYTES = 64, LOOK_US = 1000, PAGE_US = 60 * 1000 * 1000 };

struct spill_writer {
    _Alignas(LINE_BYTES) struct spill *spill;
    uint8_t *buffers;     /* one chunk per partition */
    bool in_page;         /* the writer changes it under the lock */
    pthread_mutex_t lock; /* guards the round; between two pages, all fields */
    uint64_t round;       /* its parity selects the file that writes go to */
};

struct spill {
    uint32_t partitions;
    unsigned writer_count;
    size_t buffer_bytes;
    uint32_t room; /* hashes that fit into a buffer */
    uint8_t *buffers;
    struct spill_writer *writers;
    struct spill_file *files[2];
    atomic_uint_least64_t round;
    bool sealing;                 /* the reader's: some writers have not moved to the round yet */
    pthread_mutex_t failure_lock; /* for whoever fails first */
    struct error text;
    _Atomic enum err failure; /* stored behind its text, which then stays */
};

/* --- construction --- */

static size_t buffer_bytes(uint32_t partitions, unsigned writers)
{
    size_t bytes = SPILL_CHUNK_BYTES_MAX;
    while (bytes > SPILL_BUFFER_BYTES_MIN && bytes * partitions * writers > SPILL_BUFFERS_BYTES)
        bytes /= 2;
    return bytes;
}

static enum err make_writers(struct spill *s, struct error *e)
{
    size_t each = s->partitions * s->buffer_bytes;
    s->buffers = calloc(s->writer_count, each);
    s->writers = aligned_alloc(LINE_BYTES, s->writer_count * sizeof(*s->writers));
    if (s->buffers == NULL || s->writers == NULL)
        return error_set(e, ERR_NOMEM, "spill: no memory for buffers");
    for (unsigned i = 0; i < s->writer_count; i++) {
        s->writers[i] = (struct spill_writer){.spill = s, .buffers = s->buffers + i * each};
        (void)pthread_mutex_init(&s->writers[i].lock, NULL);
    }
    return ERR_OK;
}

enum err spill_new(struct spill **out, const char *dir, uint32_t partitions, unsigned writers,
                   struct error *e)
{
    struct spill *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return error_set(e, ERR_NOMEM, "spill: out of memory");
    s->partitions = partitions;
    s->writer_count = writers;
    s->buffer_bytes = buffer_bytes(partitions, writers);
    s->room = (uint32_t)((s->buffer_bytes - sizeof(struct spill_chunk)) / sizeof(struct key_hash));
    (void)pthread_mutex_init(&s->failure_lock, NULL);
    enum err code = make_writers(s, e);
    for (unsigned i = 0; i < 2 && code == ERR_OK; i++)
        code = spill_file_new(&s->files[i], dir, partitions, e);
    if (code == ERR_OK)
        *out = s;
    else
        spill_free(s);
    return code;
}

enum err spill_plan(struct spill **out, struct partitions *p, const struct geometry *g, unsigned layers,
                    const struct build_options *o, unsigned writers, struct error *e)
{
    uint64_t bytes = 0;
    if (o->writers == 0 || o->writers > BUILD_WRITERS_MAX)
        return error_set(e, ERR_RANGE, "%u writers are not between 1 and %d", o->writers, BUILD_WRITERS_MAX);
    enum err code = partitions_plan(p, g, layers, o->memory, "build_memory", e);
    if (code != ERR_OK || p->count == 1)
        return code;
    for (unsigned i = 0; i < layers; i++)
        bytes += geometry_bytes(&g[i]);
    if (o->spill_dir == NULL || o->spill_dir[0] == '\0' || o->spill_bytes == 0)
        return error_set(e, ERR_CONFIG,
                         "%" PRIu64 " bytes of shards do not fit into build_memory (%" PRIu64
                         "), and there is no spill_dir",
                         bytes, o->memory);
    return spill_new(out, o->spill_dir, p->count, writers, e);
}

void spill_free(struct spill *s)
{
    if (s == NULL)
        return;
    for (unsigned i = 0; s->writers != NULL && i < s->writer_count; i++)
        (void)pthread_mutex_destroy(&s->writers[i].lock);
    for (unsigned i = 0; i < 2; i++)
        spill_file_free(s->files[i]);
    (void)pthread_mutex_destroy(&s->failure_lock);
    free(s->writers);
    free(s->buffers);
    free(s);
}

struct spill_writer *spill_writer(struct spill *s, unsigned index)
{
    return &s->writers[index];
}

/* --- failures --- */

static enum err failure(const struct spill *s, struct error *e)
{
    enum err code = atomic_load(&s->failure);
    return code == ERR_OK ? ERR_OK : error_set(e, code, "%s", s->text.text);
}

static void fail(struct spill *s, enum err code, const struct error *e)
{
    HOLD(&s->failure_lock);
    if (atomic_load(&s->failure) == ERR_OK) {
        s->text = *e;
        atomic_store(&s->failure, code);
    }
}

/* --- writers --- */

static inline struct spill_chunk *buffer_at(const struct spill_writer *w, uint32_t partition)
{
    return (void *)(w->buffers + partition * w->spill->buffer_bytes);
}

static void write_out(struct spill_writer *w, uint32_t partition)
{
    struct spill *s = w->spill;
    struct spill_chunk *chunk = buffer_at(w, partition);
    struct error e = {""};
    if (atomic_load(&s->failure) == ERR_OK) {
        enum err code = spill_file_append(s->files[w->round % 2], partition, chunk, &e);
        if (code != ERR_OK)
            fail(s, code, &e);
    }
    chunk->count = 0;
}

void spill_put(struct spill_writer *w, uint32_t partition, struct key_hash h)
{
    if (!w->in_page) {
        HOLD(&w->lock);
        w->in_page = true;
    }
    struct spill_chunk *chunk = buffer_at(w, partition);
    chunk->hashes[chunk->count++] = h;
    if (chunk->count == w->spill->room)
        write_out(w, partition);
}

/* Called with the lock held: by the writer, or between two pages by the reader. */
static void go_over(struct spill_writer *w)
{
    struct spill *s = w->spill;
    uint64_t round = atomic_load(&s->round);
    if (w->round == round)
        return;
    for (uint32_t i = 0; i < s->partitions; i++)
        if (buffer_at(w, i)->count > 0)
            write_out(w, i);
    w->round = round;
}

enum err spill_page_end(struct spill_writer *w, struct error *e)
{
    HOLD(&w->lock);
    go_over(w);
    w->in_page = false;
    return failure(w->spill, e);
}

/* --- the reader --- */

struct spill_file *spill_sealed(const struct spill *s)
{
    return s->files[(atomic_load(&s->round) + 1) % 2];
}

static bool has_gone_over(struct spill_writer *w)
{
    HOLD(&w->lock);
    if (!w->in_page)
        go_over(w);
    return w->round == atomic_load(&w->spill->round);
}

static enum err wait_for(struct spill *s, unsigned writer, struct periodic *periodic, struct error *e)
{
    uint64_t deadline = clock_mono_us() + PAGE_US;
    while (!has_gone_over(&s->writers[writer])) {
        enum err code = periodic_call(periodic, e);
        if (code != ERR_OK)
            return code;
        if (clock_mono_us() > deadline)
            return error_set(e, ERR_TIMEOUT, "writer %u has not ended its page for %d s", writer,
                             PAGE_US / 1000000);
        clock_sleep_us(LOOK_US);
    }
    return ERR_OK;
}

enum err spill_seal(struct spill *s, struct periodic *periodic, struct error *e)
{
    enum err code = ERR_OK;
    if (!s->sealing && spill_file_live(spill_sealed(s)) == 0) {
        (void)atomic_fetch_add(&s->round, 1);
        s->sealing = true;
    }
    for (unsigned i = 0; s->sealing && code == ERR_OK && i < s->writer_count; i++)
        code = wait_for(s, i, periodic, e);
    if (code != ERR_OK)
        return code;
    s->sealing = false;
    return failure(s, e);
}

bool spill_is_sealed(const struct spill *s)
{
    return s->sealing || spill_file_live(spill_sealed(s)) > 0;
}

static enum err drain_sealed(struct spill *s, spill_partition_fn *fn, void *arg, struct error *e)
{
    enum err code = ERR_OK;
    for (uint32_t i = 0; i < s->partitions && code == ERR_OK; i++) {
        if (!spill_file_holds(spill_sealed(s), i))
            continue;
        code = fn(arg, i, e);
        if (code == ERR_OK)
            spill_file_forget(spill_sealed(s), i);
    }
    return code;
}

enum err spill_drain(struct spill *s, struct periodic *periodic, spill_partition_fn *fn, void *arg,
                     struct error *e)
{
    enum err code = ERR_OK;
    for (int rounds = spill_is_sealed(s) ? 2 : 1; rounds > 0 && code == ERR_OK; rounds--) {
        code = spill_seal(s, periodic, e);
        if (code == ERR_OK)
            code = drain_sealed(s, fn, arg, e);
    }
    return code;
}

uint64_t spill_bytes(const struct spill *s)
{
    return spill_file_bytes(s->files[0]) + spill_file_bytes(s->files[1]);
}
