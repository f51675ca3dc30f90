/* SPDX-License-Identifier: MIT */
#include "service/filters/sources.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/number.h"

struct sources {
    struct mailbox *controller; /* is woken */
    struct mailbox *mailbox;
    pthread_t thread;
    atomic_bool stop;
    /* The last time that the database was completely unreachable. */
    uint64_t away_at;
    struct source_facts away;
};

struct source_look {
    struct sources *by;
    const struct config *config; /* held */
    const struct config_filter *filter;
    uint64_t asked_at;
    bool known;
    struct source_facts facts;
    atomic_bool ended;
};

struct source_config sources_config(const struct config *c, const struct config_filter *f)
{
    return (struct source_config){
        .dsn = c->dsn, .table = f->table, .id_column = f->id_column, .key = f->key, .where = f->where};
}

static enum err end_at_stop(void *arg, struct error *e)
{
    const struct sources *t = arg;
    return atomic_load(&t->stop) ? error_set(e, ERR_CANCELLED, "the coordinator is stopping") : ERR_OK;
}

static void look_at_table(struct sources *t, const struct source_look *l, struct source_facts *out)
{
    struct source_config config = sources_config(l->config, l->filter);
    config.watch = (struct source_watch){end_at_stop, t};
    SCOPED(source_drop) struct source *source = NULL;
    char horizon[SOURCE_HORIZON_MAX] = "";
    *out = (struct source_facts){.code = ERR_OK};
    out->code = source_open(&source, &config, (unsigned)l->config->postgres_timeout_ms, &out->error);
    if (out->code == ERR_UNREACHABLE || out->code == ERR_TIMEOUT) {
        t->away = *out;
        t->away_at = clock_mono_us();
    }
    if (out->code == ERR_OK)
        out->code = source_check(source, &out->error);
    if (out->code == ERR_OK)
        out->code = source_rows_look(source, &out->rows, &out->error);
    if (out->code == ERR_OK)
        out->code = source_horizon(source, horizon, &out->error);
    if (out->code == ERR_OK)
        out->code = source_history(source, &out->history, &out->error);
    if (out->code == ERR_OK && !number_u64(horizon, strlen(horizon), &out->given))
        out->given = 0;
}

/* Runs in the thread. There is one database. A look that was requested before the database was found away
 * would find the same, so many filters wait no longer than one. */
static void run_look(void *arg)
{
    struct source_look *l = arg;
    struct sources *t = l->by;
    if (l->asked_at < t->away_at)
        l->facts = t->away;
    else
        look_at_table(t, l, &l->facts);
    l->facts.at_ms = clock_wall_us() / 1000;
    bool news = (l->facts.code == ERR_OK) != l->known;
    struct mailbox *controller = t->controller;
    atomic_store(&l->ended, true); /* from here on the controller owns it */
    if (news)
        mailbox_wake(controller);
}

static void *run(void *arg)
{
    struct sources *t = arg;
    while (!atomic_load(&t->stop))
        mailbox_wait(t->mailbox, -1);
    return NULL;
}

static void sources_free(struct sources *t)
{
    mailbox_free(t->mailbox);
    free(t);
}

enum err sources_start(struct sources **out, struct mailbox *controller, struct error *e)
{
    struct sources *t = calloc(1, sizeof(*t));
    if (t == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    t->controller = controller;
    t->mailbox = mailbox_new();
    if (t->mailbox == NULL || pthread_create(&t->thread, NULL, run, t) != 0) {
        sources_free(t);
        return error_set(e, ERR_NOMEM, "the thread that looks at tables could not be started");
    }
    *out = t;
    return ERR_OK;
}

void sources_stop(struct sources *t)
{
    if (t == NULL)
        return;
    atomic_store(&t->stop, true);
    mailbox_wake(t->mailbox);
    (void)pthread_join(t->thread, NULL);
    sources_free(t);
}

struct source_look *sources_look(struct sources *t, const struct config *config,
                                 const struct config_filter *filter, bool known)
{
    struct source_look *l = calloc(1, sizeof(*l));
    if (l == NULL)
        return NULL;
    l->by = t;
    l->config = config_hold(config);
    l->filter = filter;
    l->known = known;
    l->asked_at = clock_mono_us();
    if (mailbox_post(t->mailbox, run_look, l) == ERR_OK)
        return l;
    source_look_free(l);
    return NULL;
}

bool source_look_ended(const struct source_look *l, struct source_facts *out)
{
    bool ended = atomic_load(&l->ended);
    if (ended)
        *out = l->facts;
    return ended;
}

void source_look_free(struct source_look *l)
{
    if (l != NULL)
        config_release(l->config);
    free(l);
}
