/* SPDX-License-Identifier: MIT */
#include "shard/block_command.h"

#include <string.h>

#include "base/number.h"

static char *put_text(char *p, const char *text, size_t n)
{
    memcpy(p, text, n);
    return p + n;
}

#define PUT_LITERAL(p, literal) put_text((p), (literal), sizeof(literal) - 1)

static char *put_bulk(char *p, const char *bytes, size_t n)
{
    *p++ = '$';
    p = number_write(p, n);
    p = PUT_LITERAL(p, "\r\n");
    p = put_text(p, bytes, n);
    return PUT_LITERAL(p, "\r\n");
}

static char *put_number(char *p, uint64_t n)
{
    char digits[20];
    return put_bulk(p, digits, (size_t)(number_write(digits, n) - digits));
}

void block_command_format(struct block_command *c, enum block_command_kind kind, const struct names *names,
                          uint64_t epoch, uint64_t generation, unsigned layer, const struct geometry *g,
                          const struct key_place *place)
{
    struct key_name name;
    names_shard(names, (struct shard_id){.generation = generation, .layer = layer, .shard = place->shard},
                epoch, &name);
    char *p = c->text;
    if (kind == BLOCK_READ) {
        uint64_t bytes = g->block_bits / 8;
        p = PUT_LITERAL(p, "*4\r\n$8\r\nGETRANGE\r\n");
        p = put_bulk(p, name.text, name.length);
        p = put_number(p, place->block * bytes);
        p = put_number(p, place->block * bytes + bytes - 1);
    } else {
        uint64_t base = (uint64_t)place->block * g->block_bits;
        *p++ = '*';
        p = number_write(p, 5 + 4u * g->hashes);
        p = PUT_LITERAL(p, "\r\n$8\r\nBITFIELD\r\n");
        p = put_bulk(p, name.text, name.length);
        p = PUT_LITERAL(p, "$3\r\nGET\r\n$3\r\nu16\r\n");
        p = put_number(p, base);
        for (uint32_t i = 0; i < g->hashes; i++) {
            p = PUT_LITERAL(p, "$3\r\nSET\r\n$2\r\nu1\r\n");
            p = put_number(p, base + place->bits[i]);
            p = PUT_LITERAL(p, "$1\r\n1\r\n");
        }
    }
    *p = '\0';
    c->length = (size_t)(p - c->text);
}

enum block_answer block_command_read(enum block_command_kind kind, const struct geometry *g, uint16_t tag,
                                     const struct key_place *place, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ERROR)
        return strncmp(reply->str, "WRONGTYPE", 9) == 0 ? BLOCK_BAD : BLOCK_REFUSED;
    if (kind == BLOCK_READ)
        return reply->type == REDIS_REPLY_STRING ? block_test(g, tag, place, reply->str, (size_t)reply->len)
                                                 : BLOCK_BAD;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 1 + (size_t)g->hashes)
        return BLOCK_BAD;
    for (size_t i = 0; i < reply->elements; i++)
        if (reply->element[i]->type != REDIS_REPLY_INTEGER)
            return BLOCK_BAD;
    if (reply->element[0]->integer != tag)
        return BLOCK_BAD;
    for (size_t i = 1; i < reply->elements; i++)
        if (reply->element[i]->integer == 0)
            return BLOCK_ABSENT;
    return BLOCK_PRESENT;
}
