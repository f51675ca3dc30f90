/* SPDX-License-Identifier: MIT */
#include "tests/fault/log/builder.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "migrate/build/build.h"
#include "shard/generations/grace.h"
#include "shard/view/view_load.h"
#include "tests/fault/log/lease.h"

enum {
    TIMEOUT_MS = 3000,
    PAGE = 1000,
    PAGES = 10, /* between checkpoints */
    MEMORY = 1 << 30,
    STARTS_MAX = 200, /* of one build, PAUSE_US apart */
    PAUSE_US = 10000,
    SHARD_BYTES = 32768
};

struct turn {
    const struct builder_options *o;
    struct sync_client *link;
    struct log_view *view;
    struct builder *builder;
    struct build *build;
    uint64_t row; /* the next row to read */
};

static enum err load_view(struct turn *t, struct error *e)
{
    return log_view_load(t->link, t->o->names, t->view, e);
}

/* --- rows --- */

/* Wait until all adds that are under way now have ended. */
static void settle(const struct ledger *l)
{
    for (unsigned i = 0; i < WORKERS; i++) {
        uint64_t turn = atomic_load(&l->turn[i]);
        while (turn % 2 == 1 && atomic_load(&l->turn[i]) == turn && !atomic_load(&l->stop))
            clock_sleep_us(1000);
    }
}

static enum err put_page(struct turn *t, struct error *e)
{
    char text[24];
    for (unsigned i = 0; i < PAGE && t->row < LEDGER_KEYS; i++, t->row++) {
        if (!atomic_load(&t->o->ledger->acknowledged[t->row]))
            continue;
        int n = snprintf(text, sizeof(text), "%" PRIu64, t->row);
        build_put(t->build, 0, hash_key(t->builder->seed, text, (size_t)n));
    }
    return build_page_end(t->build, 0, e);
}

static enum err put_rows(struct turn *t, struct error *e)
{
    char rows[24];
    enum err code = ERR_OK;
    while (t->row < LEDGER_KEYS && code == ERR_OK) {
        for (unsigned i = 0; i < PAGES && code == ERR_OK; i++)
            code = put_page(t, e);
        int n = snprintf(rows, sizeof(rows), "%" PRIu64, t->row);
        if (code == ERR_OK)
            code = build_checkpoint(t->build, rows, (size_t)n, e);
    }
    return code;
}

/* --- a build --- */

static enum err make_bits(struct turn *t, struct error *e)
{
    const struct build_options options = {.memory = MEMORY, .writers = 1};
    build_free(t->build);
    t->build = NULL;
    return build_new(&t->build, t->builder, &options, e);
}

/* Run the build, from its recorded checkpoint or from the beginning. */
static enum err run_once(struct turn *t, struct error *e)
{
    enum err code = ERR_OK;
    if (t->builder->anew) {
        ledger_note(t->o->ledger, "builder %u: begins generation %" PRIu64, t->o->number,
                    t->builder->shape.number);
        code = builder_start(t->builder, e);
        t->row = 0;
        if (code == ERR_OK)
            settle(t->o->ledger);
        ledger_note(t->o->ledger, "builder %u: has settled, %s", t->o->number, e->text);
    }
    if (code == ERR_OK)
        code = make_bits(t, e);
    if (code == ERR_OK)
        code = put_rows(t, e);
    if (code == ERR_OK)
        code = build_cutover(t->build, true, e);
    ledger_note(t->o->ledger, "builder %u: generation %" PRIu64 " is %s %s", t->o->number,
                t->builder->shape.number, code == ERR_OK ? "read" : "not built:", e->text);
    return code;
}

static enum err resume(struct turn *t, struct error *e)
{
    struct buffer rows = {0};
    enum err code = builder_resume(t->builder, &rows, e);
    t->row = code == ERR_OK && !t->builder->anew ? strtoull(buffer_text(&rows), NULL, 10) : 0;
    buffer_fini(&rows);
    ledger_note(t->o->ledger, "builder %u: resumes generation %" PRIu64 "%s from row %" PRIu64 " %s",
                t->o->number, t->builder->shape.number, t->builder->anew ? " anew" : "", t->row, e->text);
    return code;
}

/* Choose the current generation's shape. With option layers: two layers, the second of which is planned with
 * room for all keys that there may ever be, as keys come during the build, too; its stated capacity is small,
 * so that it counts as full soon. */
static enum err choose_shape(const struct turn *t, struct generation *out, struct error *e)
{
    const struct ledger *l = t->o->ledger;
    uint64_t keys = 0;
    *out = t->view->slot[t->view->current].shape;
    if (t->o->where != NULL) {
        struct placement placement;
        enum err code = placement_choose(&placement, t->o->nodes, t->o->where, e);
        if (code != ERR_OK)
            return code;
        placement_pin(&placement, t->o->nodes, out);
    }
    if (!t->o->layers)
        return ERR_OK;
    for (unsigned i = 0; i < LEDGER_KEYS; i++)
        keys += l->acknowledged[i];
    out->layer_count = 2;
    out->layers[1] = out->layers[0];
    if (out->layers[1].capacity <
        keys / 4) /* far more than processes add at a time, as each counts by itself */
        out->layers[1].capacity = keys / 4;
    out->capacity = out->layers[0].capacity + out->layers[1].capacity;
    return geometry_plan(&out->layers[1].geometry, LEDGER_NEVER, out->layers[1].error_rate, SHARD_BYTES, e);
}

/* Finish the build that the view has, or make a new one beside the current generation. */
static enum err build(struct turn *t, struct error *e)
{
    enum err code = builder_new(&t->builder, t->link, t->o->names, e);
    if (code != ERR_OK)
        return code;
    code = resume(t, e);
    if (code == ERR_NOT_FOUND) {
        struct generation shape;
        code = choose_shape(t, &shape, e);
        if (code == ERR_OK)
            code = builder_begin(t->builder, &shape, "", e);
        t->builder->anew = true;
    }
    if (code == ERR_OK)
        code = run_once(t, e);
    for (unsigned i = 0; code == ERR_LOST && t->builder->anew && i < STARTS_MAX; i++) {
        clock_sleep_us(PAUSE_US);
        code = run_once(t, e);
    }
    build_free(t->build);
    builder_free(t->builder);
    t->build = NULL;
    t->builder = NULL;
    if (code == ERR_OK)
        atomic_fetch_add(&t->o->ledger->cutovers, 1);
    return code;
}

/* --- the generation that is not read --- */

/* True: the other generation was the current one, and is to be retired. It may lack keys by now, so that a
 * rollback to it is refused. */
static bool was_read(const struct log_view *v)
{
    const struct generation *other = &v->slot[v->current ^ 1].shape;
    return other->number != 0 && (other->built || other->number < v->slot[v->current].shape.number);
}

static enum err roll_back(struct turn *t, struct error *e)
{
    enum err code = load_view(t, e);
    if (code != ERR_OK || !was_read(t->view))
        return code;
    code = grace_switch(t->link, t->o->names, "", t->view->version,
                        &t->view->slot[t->view->current ^ 1].shape, e);
    ledger_note(t->o->ledger, "builder %u: rolls back to generation %" PRIu64 " %s", t->o->number,
                t->view->slot[t->view->current ^ 1].shape.number, e->text);
    if (code == ERR_OK)
        atomic_fetch_add(&t->o->ledger->rollbacks, 1);
    /* A conflict: a lane was replaced meanwhile, or the generation lacks keys. Timeout: the view has changed.
     */
    return code == ERR_CONFLICT || code == ERR_TIMEOUT ? ERR_OK : code;
}

static enum err retire(struct turn *t, struct error *e)
{
    enum err code = load_view(t, e);
    if (code == ERR_OK && was_read(t->view)) {
        code = grace_forget(t->link, t->o->names, "", t->view->slot[t->view->current ^ 1].shape.number, e);
        ledger_note(t->o->ledger, "builder %u: retires generation %" PRIu64 " %s", t->o->number,
                    t->view->slot[t->view->current ^ 1].shape.number, e->text);
        if (code == ERR_OK)
            atomic_fetch_add(&t->o->ledger->retired, 1);
    }
    if (code == ERR_OK)
        code = grace_delete(t->link, t->o->names, e);
    return code;
}

enum err builder_turn(const struct builder_options *o, struct sync_client *l, bool back, struct error *e)
{
    struct turn t = {.o = o, .link = l, .view = malloc(sizeof(*t.view))};
    if (t.view == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    enum err code = load_view(&t, e);
    if (code == ERR_OK && was_read(t.view))
        code = retire(&t, e); /* the generation that an earlier turn left */
    if (code == ERR_OK)
        code = load_view(&t, e);
    if (code == ERR_OK)
        code = build(&t, e);
    if (code == ERR_OK && back)
        code = roll_back(&t, e);
    if (code == ERR_OK)
        code = retire(&t, e);
    free(t.view);
    return code;
}

/* --- the process --- */

struct leaser {
    const struct builder_options *o;
    atomic_bool has;
};

static void *hold_lease(void *arg)
{
    struct leaser *h = arg;
    struct sync_client *l = sync_client_new(h->o->nodes, TIMEOUT_MS, "lease");
    while (!atomic_load(&h->o->ledger->stop)) {
        atomic_store(&h->has, builder_lease(l, h->o->names, "builds", h->o->number + 1));
        clock_sleep_us(LEASE_MS * 1000 / 4);
    }
    sync_client_free(l);
    return NULL;
}

int builder_process_run(const struct builder_options *o)
{
    struct leaser leaser = {.o = o};
    pthread_t thread;
    struct sync_client *l = sync_client_new(o->nodes, TIMEOUT_MS, "builder");
    uint64_t turns = 0;
    if (l == NULL || pthread_create(&thread, NULL, hold_lease, &leaser) != 0)
        return 1;
    while (!atomic_load(&o->ledger->stop)) {
        struct error e = {""};
        if (atomic_load(&leaser.has) && builder_turn(o, l, (o->seed + turns++) % 3 == 0, &e) != ERR_OK) {
            if (getenv("LOG_FAULT_VERBOSE") != NULL)
                (void)fprintf(stderr, "builder %u: %s\n", o->number, e.text);
            atomic_fetch_add(&o->ledger->broken_turns, 1);
        }
        clock_sleep_us(PAUSE_US);
    }
    (void)pthread_join(thread, NULL);
    sync_client_free(l);
    return 0;
}
