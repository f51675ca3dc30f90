/* SPDX-License-Identifier: MIT */
#include "tests/integration/lanes.h"

#include "base/info.h"

const uint8_t lanes_writer[LOG_WRITER_BYTES] = "another writer!";

size_t lanes_entry(uint8_t out[LOG_ENTRY_BYTES_MAX], uint64_t sequence, unsigned count)
{
    struct key_hash keys[LOG_KEYS_MAX];
    for (unsigned i = 0; i < count; i++)
        keys[i] = (struct key_hash){.high = sequence, .low = i};
    return log_entry_encode(out, lanes_writer, sequence, keys, count);
}

enum err lanes_apply(void *arg, const struct tail_record *record, struct error *e)
{
    struct lanes_met *met = arg;
    (void)e;
    assert_true(met->count < LANES_MET_MAX);
    met->sequence[met->count++] = record->entry.sequence;
    return ERR_OK;
}

unsigned lanes_times(const struct lanes_met *met, uint64_t sequence)
{
    unsigned times = 0;
    for (unsigned i = 0; i < met->count; i++)
        times += met->sequence[i] == sequence;
    return times;
}

uint64_t lanes_era(struct client *c)
{
    redisReply *r = client_command(c, "INFO replication");
    assert_non_null(r);
    uint64_t era = info_id(r->str, r->len, "master_replid");
    freeReplyObject(r);
    assert_true(era != 0);
    return era;
}

int64_t lanes_number(struct client *c, const char *command, const struct lane *lane)
{
    struct error e = {""};
    int64_t number = -1;
    must(client_integer(c, &number, &e, "%s %b", command, lane->key.text, lane->key.length), e);
    return number;
}
