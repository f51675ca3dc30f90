/* SPDX-License-Identifier: MIT */
#include "migrate/build/spill_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { EXTENTS_MIN = 64 };

static const uint32_t NONE = UINT32_MAX; /* no extent */

_Static_assert(SPILL_CHUNK_BYTES_MAX <= SPILL_EXTENT_BYTES, "a chunk lies in one extent");
_Static_assert(sizeof(struct spill_chunk) == 24, "no holes that a checksum would cover");

/* A piece of the file, used by one partition: number i begins at i * SPILL_EXTENT_BYTES. */
struct extent {
    uint32_t next; /* next extent of the partition; NONE: this is the last one */
    uint32_t used; /* bytes; the rest is a hole */
};

struct run {
    uint32_t first, last; /* extents; NONE: the run is empty */
};

struct spill_file {
    int fd;
    char *dir;
    uint32_t partitions;
    struct run *runs;
    pthread_mutex_t lock; /* guards the fields below while writers append */
    struct extent *extents;
    uint32_t extent_count, extent_room;
    atomic_uint_least64_t live, bytes;
    uint8_t *page; /* SPILL_EXTENT_BYTES; a buffer for reading */
};

/* --- the file --- */

/* For a file system without O_TMPFILE: make a file, and unlink its name at once. */
static int open_named(const char *dir)
{
    char *path = NULL;
    if (asprintf(&path, "%s/twinbloom-spill-XXXXXX", dir) < 0)
        return -1;
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0 && unlink(path) != 0) {
        int why = errno;
        (void)close(fd);
        errno = why;
        fd = -1;
    }
    free(path);
    return fd;
}

static enum err open_file(struct spill_file *f, struct error *e)
{
    f->fd = open(f->dir, O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (f->fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL))
        f->fd = open_named(f->dir);
    if (f->fd >= 0)
        return ERR_OK;
    bool transient = errno == EMFILE || errno == ENFILE || errno == ENOSPC || errno == EIO;
    return error_set(e, transient ? ERR_IO : ERR_CONFIG, "spill_dir %s: %s", f->dir, strerror(errno));
}

enum err spill_file_new(struct spill_file **out, const char *dir, uint32_t partitions, struct error *e)
{
    struct spill_file *f = calloc(1, sizeof(*f));
    if (f == NULL)
        return error_set(e, ERR_NOMEM, "spill: out of memory");
    f->fd = -1;
    f->partitions = partitions;
    (void)pthread_mutex_init(&f->lock, NULL);
    f->dir = strdup(dir);
    f->runs = malloc(partitions * sizeof(*f->runs));
    f->page = malloc(SPILL_EXTENT_BYTES);
    if (f->dir == NULL || f->runs == NULL || f->page == NULL) {
        spill_file_free(f);
        return error_set(e, ERR_NOMEM, "spill: out of memory");
    }
    for (uint32_t i = 0; i < partitions; i++)
        f->runs[i] = (struct run){NONE, NONE};
    enum err code = open_file(f, e);
    if (code == ERR_OK)
        *out = f;
    else
        spill_file_free(f);
    return code;
}

void spill_file_free(struct spill_file *f)
{
    if (f == NULL)
        return;
    if (f->fd >= 0)
        (void)close(f->fd);
    (void)pthread_mutex_destroy(&f->lock);
    free(f->extents);
    free(f->page);
    free(f->runs);
    free(f->dir);
    free(f);
}

uint64_t spill_file_live(const struct spill_file *f)
{
    return atomic_load(&f->live);
}

uint64_t spill_file_bytes(const struct spill_file *f)
{
    return atomic_load(&f->bytes);
}

static uint64_t extent_at(uint32_t extent)
{
    return (uint64_t)extent * SPILL_EXTENT_BYTES;
}

/* --- writing --- */

static bool add_extent(struct spill_file *f, struct run *run)
{
    if (f->extent_count == f->extent_room) {
        uint32_t room = f->extent_room == 0 ? EXTENTS_MIN : f->extent_room * 2;
        struct extent *more = realloc(f->extents, room * sizeof(*more));
        if (more == NULL)
            return false;
        f->extents = more;
        f->extent_room = room;
    }
    uint32_t extent = f->extent_count++;
    f->extents[extent] = (struct extent){.next = NONE};
    if (run->last == NONE)
        run->first = extent;
    else
        f->extents[run->last].next = extent;
    run->last = extent;
    return true;
}

/* Reserve space for @bytes of @partition; *@offset: where. False: no memory. */
static bool reserve(struct spill_file *f, uint32_t partition, uint32_t bytes, uint64_t *offset)
{
    struct run *run = &f->runs[partition];
    HOLD(&f->lock);
    bool room = run->last != NONE && f->extents[run->last].used + bytes <= SPILL_EXTENT_BYTES;
    bool done = room || add_extent(f, run);
    if (done) {
        struct extent *extent = &f->extents[run->last];
        *offset = extent_at(run->last) + extent->used;
        extent->used += bytes;
    }
    return done;
}

static enum err write_all(struct spill_file *f, const uint8_t *from, size_t left, uint64_t offset,
                          struct error *e)
{
    while (left > 0) {
        ssize_t n = pwrite(f->fd, from, left, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG))
            return error_set(e, ERR_IO, "spill_dir %s: no space for more (%s)", f->dir, strerror(errno));
        if (n <= 0)
            return error_set(e, ERR_IO, "spill_dir %s: writing: %s", f->dir,
                             n < 0 ? strerror(errno) : "nothing was written");
        from += n;
        left -= (size_t)n;
        offset += (uint64_t)n;
    }
    return ERR_OK;
}

static size_t chunk_bytes(const struct spill_chunk *chunk)
{
    return sizeof(*chunk) + chunk->count * sizeof(chunk->hashes[0]);
}

static uint64_t checksum_of(const struct spill_chunk *chunk)
{
    return XXH3_64bits((const uint8_t *)chunk + sizeof(chunk->checksum),
                       chunk_bytes(chunk) - sizeof(chunk->checksum));
}

enum err spill_file_append(struct spill_file *f, uint32_t partition, struct spill_chunk *chunk,
                           struct error *e)
{
    size_t bytes = chunk_bytes(chunk);
    chunk->partition = partition;
    if (!reserve(f, partition, (uint32_t)bytes, &chunk->offset))
        return error_set(e, ERR_NOMEM, "spill: out of memory");
    chunk->checksum = checksum_of(chunk);
    enum err code = write_all(f, (const uint8_t *)chunk, bytes, chunk->offset, e);
    if (code != ERR_OK)
        return code;
    (void)atomic_fetch_add(&f->live, bytes);
    (void)atomic_fetch_add(&f->bytes, bytes);
    return ERR_OK;
}

/* --- reading --- */

static enum err read_all(struct spill_file *f, uint8_t *to, size_t left, uint64_t offset, struct error *e)
{
    while (left > 0) {
        ssize_t n = pread(f->fd, to, left, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return error_set(e, ERR_IO, "spill_dir %s: reading: %s", f->dir,
                             n < 0 ? strerror(errno) : "the file is shorter than it was written");
        to += n;
        left -= (size_t)n;
        offset += (uint64_t)n;
    }
    return ERR_OK;
}

/* True if @chunk, with @left bytes left in its extent, is what was written at @offset. */
static bool is_whole(const struct spill_chunk *chunk, size_t left, uint32_t partition, uint64_t offset)
{
    return left >= sizeof(*chunk) && chunk->partition == partition && chunk->offset == offset &&
           chunk->count <= (left - sizeof(*chunk)) / sizeof(chunk->hashes[0]) &&
           chunk->checksum == checksum_of(chunk);
}

static enum err read_extent(struct spill_file *f, uint32_t partition, uint32_t extent, spill_hashes_fn *fn,
                            void *arg, struct error *e)
{
    size_t used = f->extents[extent].used;
    enum err code = read_all(f, f->page, used, extent_at(extent), e);
    for (size_t at = 0; code == ERR_OK && at < used;) {
        const struct spill_chunk *chunk = (const void *)(f->page + at);
        uint64_t offset = extent_at(extent) + at;
        if (!is_whole(chunk, used - at, partition, offset))
            return error_set(e, ERR_IO,
                             "spill_dir %s: what is read back at byte %" PRIu64 " is not what was written",
                             f->dir, offset);
        code = fn(arg, chunk->hashes, chunk->count, e);
        at += chunk_bytes(chunk);
    }
    return code;
}

bool spill_file_holds(const struct spill_file *f, uint32_t partition)
{
    return f->runs[partition].first != NONE;
}

enum err spill_file_read(struct spill_file *f, uint32_t partition, spill_hashes_fn *fn, void *arg,
                         struct error *e)
{
    enum err code = ERR_OK;
    for (uint32_t i = f->runs[partition].first; i != NONE && code == ERR_OK; i = f->extents[i].next)
        code = read_extent(f, partition, i, fn, arg, e);
    return code;
}

/* --- forgetting --- */

void spill_file_forget(struct spill_file *f, uint32_t partition)
{
    struct run *run = &f->runs[partition];
    for (uint32_t i = run->first; i != NONE; i = f->extents[i].next) {
        uint32_t used = f->extents[i].used;
        (void)atomic_fetch_sub(&f->live, used);
        if (fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)extent_at(i),
                      SPILL_EXTENT_BYTES) == 0)
            (void)atomic_fetch_sub(&f->bytes, used);
    }
    *run = (struct run){NONE, NONE};
    if (atomic_load(&f->live) > 0)
        return;
    f->extent_count = 0;
    if (ftruncate(f->fd, 0) == 0)
        atomic_store(&f->bytes, 0);
}
