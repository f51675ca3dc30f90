/* SPDX-License-Identifier: MIT */
/* The marker.
 *
 * The happy path is: ask Postgres where it is, then tell every master. Possible failure modes are: Postgres
 * is away (no mark anywhere, and none is needed: what is added meanwhile carries later transactions), a
 * master is away (the others have their mark), this user of Redis may not do it (said once; a healing then
 * compares all rows). */
#include "service/marker.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "base/mailbox.h"
#include "migrate/moment.h"
#include "service/config/config.h"
#include "shard/marks.h"

enum { IDLE_MS = 1000 };

_Static_assert((int)MOMENT_SERVER_MAX <= (int)MARK_SERVER_MAX, "a server's name fits into a mark");

struct marker {
    struct service *service;
    struct link *link;
    struct moments *moments; /* NULL: not connected */
    struct mailbox *mailbox;
    bool failing; /* it was said */
    atomic_bool stop;
    pthread_t thread;
};

static bool is_wanted(const struct config *c)
{
    for (size_t i = 0; i < c->filter_count && c->mark_interval_ms > 0; i++)
        if (c->filter[i].table[0] != '\0')
            return true;
    return false;
}

static enum err watch(void *arg, struct error *e)
{
    struct marker *m = arg;
    return atomic_load(&m->stop) ? error_set(e, ERR_CANCELLED, "the coordinator is stopping") : ERR_OK;
}

static enum err ask_database(struct marker *m, const struct config *c, struct moment *out, struct error *e)
{
    const struct source_watch w = {watch, m};
    enum err code = ERR_OK;
    if (m->moments == NULL)
        code = moments_open(&m->moments, c->dsn, (unsigned)c->postgres_timeout_ms, w, e);
    if (code == ERR_OK)
        code = moments_take(m->moments, out, e);
    if (code != ERR_OK) {
        moments_close(m->moments);
        m->moments = NULL;
    }
    return code;
}

/* Coordinators tick at the same pace: a mark that is a little young is no reason to leave out the next. */
static enum err tell_masters(struct marker *m, const struct config *c, const struct moment *now,
                             struct error *e)
{
    struct marks_outcome outcome;
    struct mark mark = {.ms = now->ms, .horizon = now->horizon, .next = now->next};
    memcpy(mark.server, now->server, sizeof(now->server));
    enum err code = marks_write(m->link, m->service->prefix, &mark, c->mark_interval_ms * 3 / 4,
                                marks_kept(c->mark_interval_ms, c->heal_margin_ms), &outcome, e);
    if (code == ERR_OK && outcome.written < outcome.masters)
        code = error_set(e, ERR_UNREACHABLE, "%u of %u masters: %.400s", outcome.masters - outcome.written,
                         outcome.masters, outcome.why.text);
    return code;
}

static void mark_once(struct marker *m, const struct config *c)
{
    struct moment now;
    struct error e = {.text = ""};
    enum err code = ask_database(m, c, &now, &e);
    if (code == ERR_OK)
        code = tell_masters(m, c, &now, &e);
    if (code == ERR_OK && m->failing)
        log_info("marks_written", "note=\"on every master again\"");
    else if (code != ERR_OK && code != ERR_CANCELLED && !m->failing)
        log_warn("marks_not_written",
                 "code=%s error=%s note=\"until this ends a healing would read more rows\"", error_name(code),
                 log_quote(e.text));
    m->failing = code != ERR_OK;
}

static void *run(void *arg)
{
    struct marker *m = arg;
    while (!atomic_load(&m->stop)) {
        const struct config *c = live_config_acquire(m->service->config);
        bool wanted = is_wanted(c);
        uint64_t pause = wanted ? c->mark_interval_ms : IDLE_MS;
        if (wanted)
            mark_once(m, c);
        config_release(c);
        mailbox_wait(m->mailbox, (int)pause);
    }
    return NULL;
}

static void marker_free(struct marker *m)
{
    moments_close(m->moments);
    link_free(m->link);
    mailbox_free(m->mailbox);
    free(m);
}

enum err marker_start(struct marker **out, struct service *s, struct error *e)
{
    struct marker *m = calloc(1, sizeof(*m));
    if (m == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    m->service = s;
    m->mailbox = mailbox_new();
    m->link = link_new(&s->nodes, s->redis_timeout_ms, "twinbloom-marker");
    if (m->mailbox == NULL || m->link == NULL || pthread_create(&m->thread, NULL, run, m) != 0) {
        marker_free(m);
        return error_set(e, ERR_NOMEM, "the thread that writes marks could not be started");
    }
    *out = m;
    return ERR_OK;
}

void marker_stop(struct marker *m)
{
    if (m == NULL)
        return;
    atomic_store(&m->stop, true);
    mailbox_wake(m->mailbox);
    (void)pthread_join(m->thread, NULL);
    marker_free(m);
}
