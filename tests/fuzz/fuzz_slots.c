/* SPDX-License-Identifier: MIT */
/* Replies of cluster nodes about their slots: no reply may crash the parser. An accepted map is consistent,
 * and every accepted redirection has a valid slot, host and port. */
#include <string.h>

#include <hiredis/hiredis.h>

#include "shard/filter/slots.h"
#include "tests/fuzz/fuzz.h"

static void check_host(const char *host)
{
    fuzz_check(memchr(host, '\0', NODE_NAME_MAX) != NULL && host[0] != '\0');
    for (const char *p = host; *p != '\0'; p++)
        fuzz_check(*p > ' ' && *p <= '~');
}

static void check_map(const struct slot_map *m)
{
    unsigned slots[SLOT_NODES_MAX] = {0};
    fuzz_check(m->count <= SLOT_NODES_MAX);
    for (unsigned i = 0; i < SLOTS; i++) {
        fuzz_check(m->owner[i] == SLOT_UNOWNED || m->owner[i] < m->count);
        if (m->owner[i] != SLOT_UNOWNED)
            slots[m->owner[i]]++;
    }
    for (unsigned i = 0; i < m->count; i++) {
        const struct slot_node *n = &m->node[i];
        check_host(n->host);
        check_host(n->name);
        fuzz_check(n->port != 0 && n->slots == slots[i] && !(n->replica && n->slots > 0));
        fuzz_check(slot_map_find(m, n->host, n->port) == i);
    }
}

static void try_map(const redisReply *reply, bool tls)
{
    static struct slot_map m, copy;
    struct error e = {""};
    enum err code = slot_map_parse(&m, reply, "asked", tls, &e);
    if (code != ERR_OK) {
        fuzz_check(m.count == 0 && m.node == NULL);
        return;
    }
    check_map(&m);
    fuzz_check(slot_map_copy(&copy, &m) == ERR_OK);
    for (unsigned slot = 0; slot < SLOTS; slot++)
        fuzz_check(!slot_map_has_moved(&m, &copy, slot));
    if (slot_map_patch(&copy, 77, "10.0.0.1", 7000) == ERR_OK)
        check_map(&copy);
    slot_map_fini(&copy);
    slot_map_fini(&m);
}

static void try_error(const char *text, size_t length)
{
    struct slot_redirect to;
    if (!slots_parse_redirect(&to, text, length, "asked"))
        return;
    fuzz_check(to.slot < SLOTS && to.port != 0);
    check_host(to.host);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redisReader *reader = redisReaderCreate();
    fuzz_check(reader != NULL);
    void *reply = NULL;
    if (redisReaderFeed(reader, (const char *)data, size) == REDIS_OK)
        while (redisReaderGetReply(reader, &reply) == REDIS_OK && reply != NULL) {
            const redisReply *r = reply;
            try_map(r, false);
            try_map(r, true);
            if (r->type == REDIS_REPLY_ERROR) {
                try_error(r->str, (size_t)r->len);
                (void)(slots_error_passes(r->str) && slots_error_wants_map(r->str));
            }
            freeReplyObject(reply);
            reply = NULL;
        }
    redisReaderFree(reader);
    try_error((const char *)data, size);
    fuzz_check(slots_of_key((const char *)data, size) < SLOTS);
    return 0;
}
