/* SPDX-License-Identifier: MIT */
#include "shard/unsure.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/number.h"

void unsure_clear(struct unsure *u)
{
    *u = (struct unsure){0};
}

void unsure_begin(struct unsure *u, uint64_t generation, uint32_t shards)
{
    *u = (struct unsure){.generation = generation, .shards = shards};
}

void unsure_add(struct unsure *u, uint32_t shard)
{
    uint8_t bit = (uint8_t)(1u << shard % 8);
    u->count += (u->bits[shard / 8] & bit) == 0;
    u->bits[shard / 8] |= bit;
}

bool unsure_same(const struct unsure *a, const struct unsure *b)
{
    return a->generation == b->generation && a->epoch == b->epoch && a->shards == b->shards &&
           a->count == b->count && memcmp(a->bits, b->bits, sizeof(a->bits)) == 0;
}

/* --- the text --- */

static unsigned digit_of(const struct unsure *u, uint32_t at)
{
    return u->bits[at / 2] >> at % 2 * 4 & 15u;
}

size_t unsure_text(const struct unsure *u, char out[UNSURE_TEXT_MAX])
{
    out[0] = '\0';
    if (u->generation == 0)
        return 0;
    size_t n = (size_t)snprintf(out, UNSURE_TEXT_MAX, "%" PRIu64 ":%" PRIu64 ":%" PRIu64 ":%" PRIu32 ":",
                                u->generation, u->epoch, u->token, u->shards);
    for (uint32_t i = 0; i < (u->shards + 3) / 4; i++)
        out[n++] = "0123456789abcdef"[digit_of(u, i)];
    out[n] = '\0';
    return n;
}

static bool take_number(const char **at, const char *end, uint64_t *out)
{
    const char *stop = memchr(*at, ':', (size_t)(end - *at));
    if (stop == NULL || !number_u64(*at, (size_t)(stop - *at), out) || *out == 0)
        return false;
    *at = stop + 1;
    return true;
}

static bool take_digits(struct unsure *u, const char *at, const char *end)
{
    if ((size_t)(end - at) != (u->shards + 3) / 4)
        return false;
    for (uint32_t i = 0; i < u->shards; i++) {
        uint64_t digit;
        if (!number_hex64(at + i / 4, 1, &digit))
            return false;
        if (digit >> i % 4 & 1)
            unsure_add(u, i);
        if (i + 1 == u->shards && digit >> i % 4 > 1)
            return false;
    }
    return u->count > 0;
}

bool unsure_parse(struct unsure *out, const char *text, size_t length)
{
    const char *at = text, *end = text + length;
    uint64_t shards;
    unsure_clear(out);
    if (length == 0)
        return true;
    if (!take_number(&at, end, &out->generation) || !take_number(&at, end, &out->epoch) ||
        !take_number(&at, end, &out->token) || !take_number(&at, end, &shards) || shards > UNSURE_SHARDS_MAX)
        return false;
    out->shards = (uint32_t)shards;
    return take_digits(out, at, end);
}

/* --- for people --- */

void unsure_describe(const uint8_t *is, uint32_t shards, unsigned most, struct buffer *out)
{
    unsigned ranges = 0;
    for (uint32_t i = 0, last; i < shards; i = last + 1) {
        last = i;
        if (is[i] == 0)
            continue;
        if (ranges == most) {
            buffer_puts(out, ",...");
            break;
        }
        while (last + 1 < shards && is[last + 1] != 0)
            last++;
        buffer_printf(out, "%s%" PRIu32, ranges++ == 0 ? "shards " : ",", i);
        if (last > i)
            buffer_printf(out, "-%" PRIu32, last);
    }
    if (ranges > 0)
        buffer_printf(out, " of %" PRIu32, shards);
}
