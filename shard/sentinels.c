/* SPDX-License-Identifier: MIT */
/* The happy path is: one sentinel is connected to, twice: it is asked for the address of each master, and its
 * +switch-master is listened to. Possible failure modes are: a sentinel that is away (the next one), one that
 * does not know the master (said once), one that is cut off from the others and names the old master (whoever
 * connects there finds that it is none, or nobody, and wants to know again: after a while the next sentinel
 * is asked). What is announced is not believed but asked for. */
#include "shard/sentinels.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/number.h"
#include "shard/node_connection.h"

enum {
    PAUSE_MS = 50,   /* between two rounds of questions, at the least */
    ASK_MS = 1000,   /* nobody announces anything: asked all the same */
    DOUBTS_MAX = 20, /* rounds that somebody wanted and that brought nothing new: the next sentinel */
    AWAY_MS = 200    /* before the next sentinel is tried */
};

struct master {
    char name[NODE_NAME_MAX]; /* as the sentinels have it */
    char host[NODE_NAME_MAX]; /* "": not known */
    uint16_t port;
    unsigned version;
    bool complained;
};

struct sentinels {
    struct nodes asked;
    unsigned timeout_ms;
    pthread_t thread;
    pthread_mutex_t lock; /* of host, port and version of the masters */
    atomic_bool ends, wanted;
    int wake;
    unsigned turn, doubts;
    unsigned count;
    struct master master[GENERATION_NODES_MAX];
};

static const char prefix[] = "sentinel:";

/* --- configuration --- */

/* Each name as a URL, for nodes_parse(). False: no room. */
static bool as_urls(char *out, size_t size, const char *names)
{
    static const char blanks[] = " \t\r\n";
    size_t used = 0;
    for (const char *at = names;;) {
        at += strspn(at, blanks);
        size_t n = strcspn(at, ",");
        bool url = memmem(at, n, "://", 3) != NULL;
        int written = snprintf(out + used, size - used, "%s%s%.*s", used == 0 ? "" : ",",
                               url ? "" : "redis://", (int)n, at);
        if (written < 0 || (used += (size_t)written) >= size)
            return false;
        at += n;
        if (*at == '\0')
            return true;
        at++;
    }
}

enum err sentinels_parse(struct nodes *masters, struct nodes *asked, const char *urls, const char *names,
                         struct error *e)
{
    char text[8192];
    enum err code = nodes_parse(asked, urls, e);
    if (code != ERR_OK)
        return error_prefix(e, code, "sentinel");
    for (unsigned i = 0; i < asked->count; i++) {
        asked->node[i].watches = true;
        if (asked->node[i].path[0] != '\0' || asked->node[i].database != 0)
            return error_set(e, ERR_PARSE, "sentinel %u: neither a socket nor a database", i + 1);
    }
    if (names[strspn(names, " \t")] == '\0')
        return error_set(e, ERR_PARSE, "master: the sentinels' name of a master is missing");
    if (!as_urls(text, sizeof(text), names))
        return error_set(e, ERR_PARSE, "master: the list is too long");
    code = nodes_parse(masters, text, e);
    if (code != ERR_OK)
        return error_prefix(e, code, "master");
    for (unsigned i = 0; i < masters->count; i++) {
        struct node *n = &masters->node[i];
        if (n->path[0] != '\0' || strlen(n->host) + sizeof(prefix) > sizeof(n->name))
            return error_set(e, ERR_PARSE, "master: node %u is a path, or its name is too long", i + 1);
        for (unsigned j = 0; j < i; j++)
            if (strcmp(n->host, masters->node[j].host) == 0)
                return error_set(e, ERR_PARSE, "master: %s is listed twice", n->host);
        memcpy(n->name, prefix, sizeof(prefix) - 1);
        memcpy(n->name + sizeof(prefix) - 1, n->host, strlen(n->host) + 1);
        n->sentinel = true;
    }
    return ERR_OK;
}

/* --- what is known --- */

static struct master *find(struct sentinels *s, const struct node *n)
{
    for (unsigned i = 0; i < s->count; i++)
        if (strcmp(s->master[i].name, n->host) == 0)
            return &s->master[i];
    return NULL;
}

static void wake(struct sentinels *s)
{
    static const uint64_t one = 1;
    ssize_t n;
    do
        n = write(s->wake, &one, sizeof(one));
    while (n < 0 && errno == EINTR);
}

bool sentinels_address(struct sentinels *s, const struct node *n, char host[NODE_NAME_MAX], uint16_t *port,
                       unsigned *version)
{
    struct master *m = find(s, n);
    if (m == NULL)
        return false;
    (void)pthread_mutex_lock(&s->lock);
    memcpy(host, m->host, NODE_NAME_MAX);
    *port = m->port;
    *version = m->version;
    (void)pthread_mutex_unlock(&s->lock);
    if (!atomic_exchange(&s->wanted, true))
        wake(s);
    return host[0] != '\0';
}

bool sentinels_moved(struct sentinels *s, const struct node *n, unsigned version)
{
    struct master *m = find(s, n);
    if (m == NULL)
        return false;
    (void)pthread_mutex_lock(&s->lock);
    bool moved = m->version != version;
    (void)pthread_mutex_unlock(&s->lock);
    return moved;
}

/* True where that is news. */
static bool learn(struct sentinels *s, struct master *m, const char *host, uint16_t port)
{
    if (strcmp(m->host, host) == 0 && m->port == port)
        return false;
    log_info("sentinel_master", "master=%s host=%s port=%u", m->name, host, port);
    (void)pthread_mutex_lock(&s->lock);
    (void)snprintf(m->host, sizeof(m->host), "%s", host);
    m->port = port;
    m->version++;
    (void)pthread_mutex_unlock(&s->lock);
    m->complained = false;
    return true;
}

/* --- the thread --- */

static enum err send_words(struct node_connection *c, size_t count, const char *const *words, struct error *e)
{
    struct buffer b = {0};
    size_t lengths[3];
    for (size_t i = 0; i < count; i++)
        lengths[i] = strlen(words[i]);
    buffer_command(&b, count, words, lengths);
    enum err code = buffer_failed(&b) ? error_set(e, ERR_NOMEM, "out of memory")
                                      : node_connection_append(c, b.data, b.length, e);
    buffer_fini(&b);
    return code;
}

static bool is_address(const redisReply *r)
{
    return r->type == REDIS_REPLY_ARRAY && r->elements == 2 && r->element[0]->type == REDIS_REPLY_STRING &&
           r->element[1]->type == REDIS_REPLY_STRING && (size_t)r->element[0]->len < NODE_NAME_MAX &&
           r->element[0]->len > 0;
}

static enum err ask_one(struct sentinels *s, struct node_connection *c, struct master *m, bool *news,
                        struct error *e)
{
    const char *const words[] = {"SENTINEL", "get-master-addr-by-name", m->name};
    redisReply *reply = NULL;
    uint64_t port;
    enum err code = send_words(c, 3, words, e);
    if (code == ERR_OK)
        code = node_connection_reply(c, &reply, e);
    if (code != ERR_OK)
        return code;
    if (is_address(reply) && number_u64(reply->element[1]->str, (size_t)reply->element[1]->len, &port) &&
        port > 0 && port <= UINT16_MAX) {
        *news |= learn(s, m, reply->element[0]->str, (uint16_t)port);
    } else {
        if (!m->complained)
            log_warn("sentinel_refused", "master=%s error=\"%s\"", m->name,
                     reply->type == REDIS_REPLY_ERROR ? "refused" : "the sentinel does not know it");
        m->complained = true;
    }
    freeReplyObject(reply);
    return ERR_OK;
}

static enum err ask_all(struct sentinels *s, struct node_connection *c, struct error *e)
{
    bool news = false, wanted = atomic_exchange(&s->wanted, false);
    enum err code = ERR_OK;
    for (unsigned i = 0; i < s->count && code == ERR_OK; i++)
        code = ask_one(s, c, &s->master[i], &news, e);
    s->doubts = news ? 0 : s->doubts + wanted;
    return code;
}

/* Whatever is announced is a reason to ask. */
static enum err take_announced(struct node_connection *c, struct error *e)
{
    redisReply *reply;
    enum err code;
    do {
        code = node_connection_poll(c, &reply, e);
        if (reply == NULL)
            break;
        freeReplyObject(reply);
    } while (code == ERR_OK);
    return code;
}

static void pause_ms(struct sentinels *s, unsigned ms)
{
    uint64_t until = clock_mono_us() + ms * 1000ull;
    while (!atomic_load(&s->ends) && clock_mono_us() < until)
        clock_sleep_us(10 * 1000);
}

static void wait_for_news(struct sentinels *s, struct node_connection *listener)
{
    uint64_t ignored;
    struct pollfd fds[] = {{.fd = node_connection_fd(listener), .events = node_connection_events(listener)},
                           {.fd = s->wake, .events = POLLIN}};
    (void)poll(fds, 2, ASK_MS);
    if (fds[1].revents != 0)
        (void)!read(s->wake, &ignored, sizeof(ignored));
}

static enum err stay_with(struct sentinels *s, struct node_connection *asked,
                          struct node_connection *listener, struct error *e)
{
    static const char *const words[] = {"SUBSCRIBE", "+switch-master"};
    enum err code = send_words(listener, 2, words, e);
    s->doubts = 0;
    while (code == ERR_OK && !atomic_load(&s->ends) && s->doubts < DOUBTS_MAX) {
        code = take_announced(listener, e);
        if (code == ERR_OK)
            code = ask_all(s, asked, e);
        if (code != ERR_OK)
            break;
        pause_ms(s, PAUSE_MS);
        wait_for_news(s, listener);
    }
    return code;
}

static void *run(void *arg)
{
    struct sentinels *s = arg;
    while (!atomic_load(&s->ends)) {
        struct node_connection *asked = NULL, *listener = NULL;
        struct error e = {""};
        const struct node *n = &s->asked.node[s->turn++ % s->asked.count];
        enum err code = node_connection_open(&asked, &s->asked, n, "twinbloom-sentinels", s->timeout_ms,
                                             s->timeout_ms, &e);
        if (code == ERR_OK)
            code = node_connection_open(&listener, &s->asked, n, "twinbloom-sentinels", s->timeout_ms,
                                        s->timeout_ms, &e);
        if (code == ERR_OK)
            code = stay_with(s, asked, listener, &e);
        node_connection_close(listener);
        node_connection_close(asked);
        if (code != ERR_OK) {
            log_warn("sentinel_down", "node=%s code=%s error=%s", n->name, error_name(code),
                     log_quote(e.text));
            pause_ms(s, AWAY_MS);
        }
    }
    return NULL;
}

enum err sentinels_start(struct sentinels **out, const struct nodes *asked, const struct nodes *masters,
                         unsigned timeout_ms, struct error *e)
{
    struct sentinels *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    s->asked = *asked;
    s->timeout_ms = timeout_ms;
    s->count = masters->count;
    for (unsigned i = 0; i < masters->count; i++)
        memcpy(s->master[i].name, masters->node[i].host, NODE_NAME_MAX);
    (void)pthread_mutex_init(&s->lock, NULL);
    s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->wake < 0 || pthread_create(&s->thread, NULL, run, s) != 0) {
        if (s->wake >= 0)
            (void)close(s->wake);
        (void)pthread_mutex_destroy(&s->lock);
        free(s);
        return error_set(e, ERR_NOMEM, "no thread for the sentinels");
    }
    *out = s;
    return ERR_OK;
}

void sentinels_stop(struct sentinels *s)
{
    if (s == NULL)
        return;
    atomic_store(&s->ends, true);
    wake(s);
    (void)pthread_join(s->thread, NULL);
    (void)close(s->wake);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}
