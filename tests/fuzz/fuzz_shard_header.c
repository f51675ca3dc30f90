/* SPDX-License-Identifier: MIT */
/* Headers of shards: no bytes may crash the decoder. An accepted header is encoded to the same bytes. */
#include <stdlib.h>
#include <string.h>

#include "shard/resident/header.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *bytes = malloc(size > 0 ? size : 1); /* exact size */
    uint8_t again[UINT16_MAX / 8 + HEADER_BYTES];
    struct header h;
    struct error e = {""};
    fuzz_check(bytes != NULL);
    if (size > 0)
        memcpy(bytes, data, size);
    if (header_decode(&h, bytes, size, "s", &e) != ERR_OK) {
        fuzz_check(e.text[0] != '\0');
    } else if (h.block_bits >= BLOCK_BITS_MIN) {
        header_encode(&h, again);
        fuzz_check(memcmp(again, bytes, HEADER_BYTES) == 0);
        fuzz_check(header_check(&h, &h, "s", &e) == ERR_OK);
    }
    free(bytes);
    return 0;
}
