/* SPDX-License-Identifier: MIT */
/* The happy path is: connect to one sentinel, and ask it for the address of each master again and again.
 * Possible failure modes are: a sentinel that is down (logged once; try the next one), one that does not know
 * the master (logged once), one that is cut off from the others and names the old master (whoever connects
 * there finds no master, or nobody, and wants the address again: after a while the next sentinel is asked).
 */
#include "shard/redis/sentinel_watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/number.h"
#include "shard/redis/nodes/sentinels_internal.h"
#include "shard/redis/sync_connection.h"

enum {
    ASK_MS = 100,    /* the pause between two rounds of questions */
    DOUBTS_MAX = 10, /* rounds that somebody wanted and that brought nothing new; then the next sentinel is
                      * asked */
    AWAY_MS = 200    /* the pause before the next sentinel is tried */
};

struct sentinel_watch {
    struct sentinels *sentinels; /* borrowed */
    struct nodes asked;
    unsigned timeout_ms;
    pthread_t thread;
    atomic_bool ends;
    unsigned turn; /* the sentinel that is asked */
    unsigned doubts;
    bool complained[GENERATION_NODES_MAX]; /* by master: it was logged that the sentinels do not know it */
    bool down[GENERATION_NODES_MAX]; /* by sentinel: it was logged, and none of its answers came since */
};

static bool is_address(const redisReply *r)
{
    return r->type == REDIS_REPLY_ARRAY && r->elements == 2 && r->element[0]->type == REDIS_REPLY_STRING &&
           r->element[1]->type == REDIS_REPLY_STRING && (size_t)r->element[0]->len < NODE_NAME_MAX &&
           r->element[0]->len > 0;
}

static bool learn(struct sentinels *s, struct sentinel_master *m, const char *host, uint16_t port)
{
    if (strcmp(m->host, host) == 0 && m->port == port)
        return false;
    log_info("sentinel_master", "master=%s host=%s port=%u", m->name, host, port);
    HOLD(&s->lock);
    (void)snprintf(m->host, sizeof(m->host), "%s", host);
    m->port = port;
    m->version++;
    return true;
}

static enum err ask_one(struct sentinel_watch *w, struct sync_connection *c, unsigned i, bool *news,
                        struct error *e)
{
    const char *name = w->sentinels->master[i].name;
    const char *const words[] = {"SENTINEL", "get-master-addr-by-name", name};
    redisReply *reply = NULL;
    uint64_t port;
    enum err code = sync_connection_append_words(c, 3, words, e);
    if (code == ERR_OK)
        code = sync_connection_reply(c, &reply, e);
    if (code != ERR_OK)
        return code;
    if (is_address(reply) && number_u64(reply->element[1]->str, (size_t)reply->element[1]->len, &port) &&
        port > 0 && port <= UINT16_MAX) {
        if (learn(w->sentinels, &w->sentinels->master[i], reply->element[0]->str, (uint16_t)port)) {
            *news = true;
            w->complained[i] = false;
        }
    } else {
        if (!w->complained[i])
            log_warn("sentinel_refused", "master=%s error=\"%s\"", name,
                     reply->type == REDIS_REPLY_ERROR ? "refused" : "the sentinel does not know it");
        w->complained[i] = true;
    }
    freeReplyObject(reply);
    return ERR_OK;
}

static enum err ask_all(struct sentinel_watch *w, struct sync_connection *c, struct error *e)
{
    bool news = false, wanted = atomic_exchange(&w->sentinels->wanted, false);
    enum err code = ERR_OK;
    for (unsigned i = 0; i < w->sentinels->count && code == ERR_OK; i++)
        code = ask_one(w, c, i, &news, e);
    w->doubts = news ? 0 : w->doubts + wanted;
    return code;
}

static void pause_ms(struct sentinel_watch *w, unsigned ms)
{
    uint64_t until = clock_mono_us() + ms * 1000ull;
    while (!atomic_load(&w->ends) && clock_mono_us() < until)
        clock_sleep_us(10 * 1000);
}

static enum err stay_with(struct sentinel_watch *w, struct sync_connection *asked, struct error *e)
{
    enum err code = ERR_OK;
    w->doubts = 0;
    while (code == ERR_OK && !atomic_load(&w->ends) && w->doubts < DOUBTS_MAX) {
        code = ask_all(w, asked, e);
        if (code == ERR_OK) {
            w->down[w->turn] = false;
            pause_ms(w, ASK_MS);
        }
    }
    return code;
}

static void *run(void *arg)
{
    struct sentinel_watch *w = arg;
    while (!atomic_load(&w->ends)) {
        struct sync_connection *asked = NULL;
        struct error e = {""};
        const struct node *n = &w->asked.node[w->turn];
        enum err code = sync_connection_open(&asked, &w->asked, n, "twinbloom-sentinels", w->timeout_ms,
                                             w->timeout_ms, &e);
        if (code == ERR_OK)
            code = stay_with(w, asked, &e);
        sync_connection_close(asked);
        if (code != ERR_OK && !w->down[w->turn])
            log_warn("sentinel_down", "node=%s code=%s error=%s", n->name, error_name(code),
                     log_quote(e.text));
        if (code != ERR_OK) {
            w->down[w->turn] = true;
            pause_ms(w, AWAY_MS);
        }
        w->turn = (w->turn + 1) % w->asked.count;
    }
    return NULL;
}

enum err sentinel_watch_start(struct sentinel_watch **out, struct sentinels *s, const struct nodes *asked,
                              unsigned timeout_ms, struct error *e)
{
    struct sentinel_watch *w = calloc(1, sizeof(*w));
    if (w == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    w->sentinels = s;
    w->asked = *asked;
    w->timeout_ms = timeout_ms;
    if (pthread_create(&w->thread, NULL, run, w) != 0) {
        free(w);
        return error_set(e, ERR_NOMEM, "no thread for the sentinels");
    }
    *out = w;
    return ERR_OK;
}

void sentinel_watch_stop(struct sentinel_watch *w)
{
    if (w == NULL)
        return;
    atomic_store(&w->ends, true);
    (void)pthread_join(w->thread, NULL);
    free(w);
}
