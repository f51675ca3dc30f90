/* SPDX-License-Identifier: MIT */
/* A dump's header and chunks: no bytes may crash the decoder. An accepted header is encoded to the same
 * bytes, its values are within bounds, and its chunks cover its shards. The first byte of the input decides
 * whether the checksum is corrected, so that the checks behind it are reached, too. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "shard/filter/dump.h"
#include "tests/fuzz/fuzz.h"

static void check_chunks(const struct dump_header *h)
{
    uint64_t shards = 0, covered = 0;
    for (unsigned i = 0; i < h->layer_count; i++)
        shards += h->layers[i].geometry.shards;
    for (uint32_t n = 1; n <= h->chunks; n++) {
        struct dump_run run;
        uint32_t number;
        fuzz_check(dump_run_at(h, n, &run) && run.count > 0);
        fuzz_check(run.bytes + DUMP_CHUNK_HEADER <= h->chunk_bytes);
        fuzz_check(dump_chunk_of(h, run.layer, run.first) == n);
        fuzz_check(dump_chunk_of(h, run.layer, run.first + run.count - 1) == n);
        fuzz_check(dump_position(h, n) < UINT64_C(1) << 53);
        fuzz_check(dump_position_chunk(h, dump_position(h, n), &number) && number == n);
        covered += run.count;
        if (n == 1000) /* a dump may have millions */
            return;
    }
    fuzz_check(covered == shards);
}

static void try_header(const uint8_t *bytes, size_t size)
{
    struct dump_header h;
    struct error e = {{0}};
    if (dump_header_decode(&h, bytes, size, &e) != ERR_OK) {
        fuzz_check(e.text[0] != '\0');
        return;
    }
    struct buffer again = {0};
    dump_header_encode(&h, &again);
    fuzz_check(again.length == size && memcmp(again.data, bytes, size) == 0);
    buffer_fini(&again);
    check_chunks(&h);
}

static void try_chunk(const uint8_t *bytes, size_t size)
{
    struct dump_chunk c;
    struct error e = {{0}};
    if (dump_chunk_decode(&c, bytes, size, &e) != ERR_OK)
        return;
    fuzz_check(c.run.bytes == size - DUMP_CHUNK_HEADER && c.shards == bytes + DUMP_CHUNK_HEADER);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    size_t length = size - 1;
    uint8_t *bytes = malloc(length > 0 ? length : 1); /* exact size */
    fuzz_check(bytes != NULL);
    if (length > 0)
        memcpy(bytes, data + 1, length);
    if ((data[0] & 1) != 0 && length >= 8) {
        XXH64_hash_t sum = XXH3_64bits(bytes, length - 8);
        memcpy(bytes + length - 8, &sum, sizeof(sum));
    }
    if ((data[0] & 2) != 0 && length >= DUMP_CHUNK_HEADER) {
        uint64_t head = XXH3_64bits(bytes, DUMP_CHUNK_HEADER - 8);
        XXH64_hash_t sum = XXH3_64bits_withSeed(bytes + DUMP_CHUNK_HEADER, length - DUMP_CHUNK_HEADER, head);
        memcpy(bytes + DUMP_CHUNK_HEADER - 8, &sum, sizeof(sum));
    }
    try_header(bytes, length);
    try_chunk(bytes, length);
    free(bytes);
    return 0;
}
