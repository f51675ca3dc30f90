/* SPDX-License-Identifier: MIT */
/* Entries and positions of a lane: no bytes may crash the decoder. An accepted one is encoded to the same
 * bytes. */
#include <stdlib.h>
#include <string.h>

#include "shard/log/position.h"
#include "tests/fuzz/fuzz.h"

static void try_entry(const uint8_t *bytes, size_t size)
{
    struct log_entry entry;
    struct error e = {""};
    struct key_hash keys[LOG_KEYS_MAX];
    uint8_t again[LOG_ENTRY_BYTES_MAX];
    if (log_entry_decode(&entry, bytes, size, &e) != ERR_OK) {
        fuzz_check(e.text[0] != '\0');
        return;
    }
    fuzz_check(entry.count <= LOG_KEYS_MAX);
    for (unsigned i = 0; i < entry.count; i++)
        keys[i] = log_entry_hash(&entry, i);
    if (entry.kind == LOG_FULL)
        fuzz_check(log_entry_encode_full(again, entry.sequence) == size);
    else if (entry.kind == LOG_LAYER)
        fuzz_check(log_entry_encode_layer(again, entry.sequence, entry.layer) == size);
    else if (entry.kind == LOG_REMOVAL)
        fuzz_check(log_entry_encode_removal(again, entry.writer, entry.sequence) == size);
    else
        fuzz_check(log_entry_encode(again, entry.writer, entry.sequence, keys, entry.count) == size);
    fuzz_check(memcmp(again, bytes, size) == 0);
}

static void try_position(const char *text, size_t size)
{
    struct log_position p, again;
    struct buffer out = {0};
    struct error e = {""};
    if (log_position_parse(&p, text, size, &e) == ERR_OK) {
        log_position_format(&p, &out);
        fuzz_check(log_position_parse(&again, out.data, out.length, &e) == ERR_OK);
        fuzz_check(log_position_is(&p, again.id, again.bytes, again.length));
    }
    buffer_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *bytes = malloc(size > 0 ? size : 1); /* exact size */
    fuzz_check(bytes != NULL);
    if (size > 0)
        memcpy(bytes, data, size);
    try_entry(bytes, size);
    try_position((const char *)bytes, size);
    free(bytes);
    return 0;
}
