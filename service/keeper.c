/* SPDX-License-Identifier: MIT */
#include "service/keeper.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/number.h"
#include "expansion/layer.h"
#include "expansion/memory.h"
#include "expansion/schedule.h"
#include "expansion/threshold.h"
#include "expansion/window.h"
#include "migrate/source.h"
#include "service/admin.h"
#include "service/runner.h"
#include "service/tails.h"
#include "service/watch.h"

enum {
    ACT_EVERY_US = 1000 * 1000,       /* see is_hasty() */
    ROWS_EVERY_US = 10 * 1000 * 1000, /* how often the source is asked for its rows */
    LOST_EVERY_US = 30 * 1000 * 1000, /* how often shards are looked at, if nothing else says so */
    RETRY_FAILED_MS = 30 * 1000,      /* after a failed job, before a threshold starts the next */
    RETRY_ABORTED_MS = 10 * 60 * 1000 /* after an operator's abort */
};

struct keeper {
    struct service *service;
    const struct config *config; /* held for one round */
    struct link *link;
    struct fence fence;
    struct view view;
    uint64_t round;
    uint64_t next_due_ms; /* the earliest time to come at which a filter is to be deleted; 0: none */
};

static void nothing(void *arg)
{
    (void)arg;
}

void keeper_wake(struct service *s)
{
    if (mailbox_post(s->keeper, nothing, NULL) != ERR_OK)
        log_warn("keeper", "error=\"out of memory\" note=\"it looks at its next interval\"");
}

/* --- one look at one filter --- */

/* What fails ends with the release of a mutex, and each release wakes the keepers of all coordinators: what
 * was tried at @at is not tried again at once, or they would call each other for ever. */
static bool is_hasty(const struct keeper *k, uint64_t at)
{
    uint64_t interval = k->config->check_interval_ms * 1000;
    return at != 0 && clock_mono_us() - at < (interval < ACT_EVERY_US ? interval : ACT_EVERY_US);
}

static uint64_t hash_texts(const char *const *texts, size_t count)
{
    uint64_t hash = 1;
    for (size_t i = 0; i < count; i++)
        hash = XXH3_64bits_withSeed(texts[i], strlen(texts[i]), hash);
    return hash;
}

/* A reload may have given the filter another source or schedule: what was found of the one before is void. */
static void follow(struct watched *w, const struct config_filter *c)
{
    const bool sourced = c != NULL && c->table[0] != '\0';
    const uint64_t source =
        sourced ? hash_texts((const char *const[]){c->table, c->id_column, c->key, c->where}, 4) : 0;
    const uint64_t schedule = c == NULL ? 0 : hash_texts((const char *const[]){c->schedule}, 1);
    if (source != w->source) {
        w->source = source;
        w->rows = w->rows_at = 0;
        w->checked = false;
        watch_note_text(w->watch, w->note.postgres, sizeof(w->note.postgres), "");
    }
    if (schedule != w->schedule) { /* what it would have been due at before now is not made up for */
        w->schedule = schedule;
        w->schedule_from = (time_t)(clock_wall_us() / 1000000);
    }
}

static void problem(struct watched *w, const char *text)
{
    if (strcmp(w->note.problem, text) != 0 && text[0] != '\0')
        log_warn("filter_problem", "filter=%s problem=%s", log_quote(w->name), log_quote(text));
    watch_note_text(w->watch, w->note.problem, sizeof(w->note.problem), text);
}

/* The source's rows, by the planner's estimate, not too often. */
static void look_at_source(struct keeper *k, struct watched *w, const struct config_filter *c)
{
    uint64_t now = clock_mono_us();
    if (w->rows_at != 0 && now - w->rows_at < ROWS_EVERY_US && w->note.postgres[0] == '\0')
        return;
    if (is_hasty(k, w->rows_at))
        return;
    w->rows_at = now;
    struct source *source = NULL;
    struct error e = {.text = ""};
    struct source_config config = {.dsn = k->config->dsn,
                                   .table = c->table,
                                   .id_column = c->id_column,
                                   .key = c->key,
                                   .where = c->where};
    enum err code = source_open(&source, &config, (unsigned)k->config->postgres_timeout_ms, &e);
    if (code == ERR_OK)
        code = source_check(source, &e);
    if (code == ERR_OK)
        code = source_rows_estimate(source, &w->rows, &e);
    source_close(source);
    if (code != ERR_OK && strcmp(w->note.postgres, e.text) != 0)
        log_warn("source", "filter=%s why=%s", log_quote(w->name), log_quote(e.text));
    w->checked = code == ERR_OK;
    watch_note_text(w->watch, w->note.postgres, sizeof(w->note.postgres), code == ERR_OK ? "" : e.text);
}

static void look_for_lost(struct keeper *k, struct watched *w)
{
    uint64_t now = clock_mono_us(), told_generation;
    const struct generation *g = view_current(&k->view);
    bool other = w->note.lost_generation != g->number && w->note.lost_generation != 0;
    bool told = watch_take_lost(w, &told_generation);
    if (!told && !other && w->lost_at != 0 && now - w->lost_at < LOST_EVERY_US)
        return;
    uint64_t lost = 0;
    struct error e;
    if (view_unfenced(&k->view) || fence_count_lost(&k->fence, &k->view, g, &lost, &e) != ERR_OK) {
        watch_give_back_lost(w, told);
        return;
    }
    /* An operation that proved a loss looked at a block in the middle; the count looks at one block a shard.
     */
    if (lost == 0 && told_generation == g->number)
        lost = 1;
    if (lost > 0) { /* found under a view that may be over by now: only a reload after it tells */
        uint64_t epoch = k->view.epoch, incarnation = k->view.incarnation;
        if (fence_load(&k->fence, &k->view, &e) != ERR_OK || k->view.epoch != epoch ||
            k->view.incarnation != incarnation) {
            watch_give_back_lost(w, told);
            return;
        }
    }
    w->lost_at = now;
    watch_note_lost(w, view_current(&k->view)->number, lost);
    if (lost > 0)
        log_warn("lost_shards", "filter=%s generation=%" PRIu64 " shards=%" PRIu64, log_quote(w->name),
                 view_current(&k->view)->number, lost);
}

/* Counts of the written layer's shards. NULL: none were asked for, or no memory. */
static uint64_t *shard_items(struct keeper *k, const struct generation *g, uint32_t *count)
{
    struct key_name name;
    redisReply *reply;
    struct error e;
    unsigned layer = generation_written_layer(g);
    *count = g->layers[layer].geometry.shards;
    uint64_t *items = calloc(*count, sizeof(*items));
    names_filter_key(&k->fence.names, "count", &name);
    if (items == NULL ||
        link_command(k->link, NODE_HOME, &reply, &e, "HGETALL %b", name.text, name.length) != ERR_OK) {
        free(items);
        return NULL;
    }
    char prefix[48];
    size_t length = (size_t)snprintf(prefix, sizeof(prefix), "%" PRIu64 ".%u.", g->number, layer);
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        const redisReply *field = reply->element[i], *value = reply->element[i + 1];
        uint64_t shard, n;
        if ((size_t)field->len > length && memcmp(field->str, prefix, length) == 0 &&
            number_u64(field->str + length, (size_t)field->len - length, &shard) && shard < *count &&
            number_u64(value->str, (size_t)value->len, &n))
            items[shard] = n;
    }
    freeReplyObject(reply);
    return items;
}

/* The first time that the schedule was due since it was served; 0: it is not due. */
static time_t schedule_was_due(const struct watched *w, const struct config_filter *c, time_t now)
{
    struct schedule schedule;
    struct error e;
    if (c->schedule[0] == '\0' || schedule_parse(&schedule, c->schedule, &e) != ERR_OK ||
        !schedule_due(&schedule, w->schedule_from, now))
        return 0;
    return schedule_next(&schedule, w->schedule_from);
}

/* The last job's end: a failed one is not begun again at once, and one that another coordinator ended after
 * our schedule fell due has served it. */
struct last_job {
    bool running; /* with a free mutex: its driver is gone */
    bool failed, aborted;
    uint64_t bytes_generation; /* that the memory threshold had made; 0: none */
    uint64_t finished_ms;
    uint64_t expanded_ms; /* when the last expansion began */
};

static struct last_job last_job(struct keeper *k)
{
    struct last_job last = {0};
    struct key_name name;
    redisReply *reply;
    struct error e;
    names_filter_key(&k->fence.names, "job", &name);
    if (link_command(k->link, NODE_HOME, &reply, &e,
                     "HMGET %b state finished_ms expanded_ms bytes_generation", name.text,
                     name.length) != ERR_OK)
        return last;
    if (reply->elements == 4 && reply->element[0]->type == REDIS_REPLY_STRING) {
        last.running = strcmp(reply->element[0]->str, "running") == 0;
        last.failed = strcmp(reply->element[0]->str, "failed") == 0;
        last.aborted = strcmp(reply->element[0]->str, "aborted") == 0;
        uint64_t *const numbers[] = {&last.finished_ms, &last.expanded_ms, &last.bytes_generation};
        for (size_t i = 1; i < 4; i++)
            if (reply->element[i]->type == REDIS_REPLY_STRING)
                (void)number_u64(reply->element[i]->str, (size_t)reply->element[i]->len, numbers[i - 1]);
    }
    freeReplyObject(reply);
    return last;
}

static bool too_soon(const struct last_job *last)
{
    uint64_t now = clock_wall_us() / 1000, since = now > last->finished_ms ? now - last->finished_ms : 0;
    return (last->failed && since < RETRY_FAILED_MS) || (last->aborted && since < RETRY_ABORTED_MS);
}

/* True if the job was begun. */
static bool start(struct keeper *k, struct watched *w, const char *reason, const char *trigger,
                  enum job_kind kind)
{
    struct error e;
    if (is_hasty(k, w->started_at))
        return false;
    const struct runner_job job = {.config = k->config,
                                   .filter = w->name,
                                   .filter_length = w->length,
                                   .reason = reason,
                                   .trigger = trigger,
                                   .kind = kind};
    enum err code = runner_post(k->service->runner, &job, &e);
    if (code != ERR_BUSY)
        w->started_at = clock_mono_us();
    if (code == ERR_OK)
        log_info("job_queued", "filter=%s reason=%s", log_quote(w->name), log_quote(reason));
    else if (code != ERR_BUSY)
        problem(w, e.text);
    return code == ERR_OK;
}

/* What waits for the filter's window; "": nothing. */
static void note_wanted(struct watched *w, const char *text)
{
    if (text[0] != '\0' && w->note.wanted[0] == '\0')
        log_info("waits_for_window", "filter=%s reason=%s", log_quote(w->name), log_quote(text));
    watch_note_text(w->watch, w->note.wanted, sizeof(w->note.wanted), text);
}

static enum threshold_reason evaluate(struct keeper *k, struct threshold_input *in,
                                      const struct generation *g, char *text, size_t size)
{
    /* Shards fill evenly: single ones are worth a look only when the whole comes near. */
    uint64_t *shards = NULL;
    if (g->built && (double)in->items > in->expand_at * (double)g->capacity / 2)
        shards = shard_items(k, g, &in->shard_count);
    in->shard_items = shards;
    in->shard_capacity = in->shard_count == 0 ? 0 : g->capacity / in->shard_count;
    enum threshold_reason reason = threshold_evaluate(in, text, size);
    free(shards);
    in->shard_items = NULL;
    return reason;
}

static void look_at_thresholds(struct keeper *k, struct watched *w, const struct config_filter *c)
{
    const struct generation *g = view_current(&k->view);
    struct error e;
    uint64_t items = 0;
    struct last_job last = last_job(k);
    if (last.running) {
        (void)start(k, w, "unfinished", "unfinished", JOB_FINISH);
        return;
    }
    if (!w->checked || too_soon(&last) || fence_all_items(&k->fence, g, &items, &e) != ERR_OK)
        return;
    time_t now = (time_t)(clock_wall_us() / 1000000), due = schedule_was_due(w, c, now);
    struct threshold_input in = {
        .built = g->built,
        .lost_shards = w->note.lost_generation == g->number ? w->note.lost_shards : 0,
        .items = items,
        .capacity = g->capacity,
        .source_rows = w->rows,
        .bytes = memory_of_generation(g),
        .expand_at = c->expand_at,
        /* A larger generation is above the bound again: once is enough. */
        .expand_at_bytes = last.bytes_generation == g->number ? 0 : c->expand_at_bytes,
        .layers = g->layer_count,
        .rate_bound = layer_rate_bound(g),
        .schedule_due = due != 0,
    };
    double growth =
        window_growth_note(&w->growth, g->number, items > w->rows ? items : w->rows, clock_mono_us());
    char text[256];
    enum threshold_reason reason = evaluate(k, &in, g, text, sizeof(text));
    if (reason == THRESHOLD_SCHEDULE && last.expanded_ms / 1000 >= (uint64_t)due) {
        w->schedule_from = now; /* another coordinator, or another reason, had it rebuilt since */
        reason = THRESHOLD_NONE;
    }
    struct window window;
    bool waits =
        window_parse(&window, c->window, &e) == ERR_OK && threshold_waits(reason, &in, &window, growth, now);
    note_wanted(w, waits ? text : "");
    if (reason == THRESHOLD_NONE || waits)
        return;
    if (start(k, w, text, threshold_name(reason), JOB_EXPAND) && reason == THRESHOLD_SCHEDULE)
        w->schedule_from = now;
}

static bool mutex_is_held(struct keeper *k)
{
    struct key_name name;
    redisReply *reply;
    struct error e;
    names_filter_key(&k->fence.names, "expansion_flag", &name);
    if (link_command(k->link, NODE_HOME, &reply, &e, "EXISTS %b", name.text, name.length) != ERR_OK)
        return true;
    bool held = reply->integer == 1;
    freeReplyObject(reply);
    return held;
}

static void make_missing(struct keeper *k, struct watched *w, bool sourced)
{
    struct error e;
    if (!sourced && service_was_seen(k->service, w->name, w->length)) {
        problem(w, "its data in Redis are lost and it has no source to build it from: BF.RESERVE makes it "
                   "anew, empty");
        return;
    }
    if (is_hasty(k, w->made_at))
        return;
    enum err code = admin_make_filter(k->service, k->config, &k->fence, w->name, w->length, NULL, &e);
    if (code != ERR_BUSY)
        w->made_at = clock_mono_us();
    problem(w, code == ERR_OK || code == ERR_EXISTS || code == ERR_BUSY ? "" : e.text);
}

/* A coordinator died between the two view changes of a new layer, or the newest one is full. k->view is the
 * new view afterwards. */
static void finish_growth(struct keeper *k, struct watched *w)
{
    struct error e;
    if (is_hasty(k, w->made_at))
        return;
    enum err code = admin_grow_filter(k->service, k->config, &k->fence, &k->view, w->name, w->length, &e);
    if (code != ERR_BUSY)
        w->made_at = clock_mono_us();
    if (code != ERR_OK && code != ERR_BUSY && code != ERR_CONFLICT)
        problem(w, e.text);
}

/* A filter with a source whose expansion did not come in time gets a layer, so that its error rate stays
 * bounded. */
static void grow_if_full(struct keeper *k, struct watched *w)
{
    struct error e;
    uint64_t items = 0;
    const struct generation *g = view_current(&k->view);
    const struct layer *newest = &g->layers[g->layer_count - 1];
    if (g->built && fence_items(&k->fence, g, g->layer_count - 1, &items, &e) == ERR_OK &&
        items >= newest->capacity)
        finish_growth(k, w);
}

/* What the view in k->view asks for. */
static void look_at_view(struct keeper *k, struct watched *w, const struct config_filter *c, bool held)
{
    problem(w, "");
    look_for_lost(k, w);
    bool unfinished = k->view.phase == PHASE_BUILDING || k->view.phase == PHASE_SWITCHED ||
                      view_unfenced(&k->view) || k->view.retiring_epoch != 0;
    if (held) {
        note_wanted(w, ""); /* whatever waited: a job is under way */
        return;
    }
    if (k->view.phase == PHASE_OVERFLOW_OPEN || (view_unfenced(&k->view) && !k->view.sourced))
        finish_growth(k, w);
    else if (unfinished)
        (void)start(k, w, "unfinished", "unfinished", JOB_FINISH);
    else if (c != NULL && c->table[0] != '\0') {
        grow_if_full(k, w);
        look_at_thresholds(k, w, c);
    }
}

/* The filter's time has come. A configured filter would be made again. */
static bool is_due(struct keeper *k, const struct config_filter *c)
{
    uint64_t at = k->view.expire_at_ms;
    if (at == 0 || c != NULL)
        return false;
    if (at <= clock_wall_us() / 1000)
        return true;
    if (k->next_due_ms == 0 || at < k->next_due_ms)
        k->next_due_ms = at;
    return false;
}

/* Load the view, once what somebody began to delete, or what is due, is deleted. */
static enum err load_kept(struct keeper *k, struct watched *w, const struct config_filter *c, bool held,
                          struct error *e)
{
    enum err code = fence_load_any(&k->fence, &k->view, e);
    bool begun = code == ERR_OK && k->view.dropped == VIEW_DROP_BEGUN;
    bool due = code == ERR_OK && !begun && is_due(k, c);
    if ((begun || due) && !held && !is_hasty(k, w->dropped_at)) {
        code = admin_drop_filter(k->service, k->config, &k->fence, &k->view, w->name, w->length,
                                 due ? DROP_IF_DUE : DROP_IF_BEGUN, e);
        if (code != ERR_OK && code != ERR_NOT_FOUND && code != ERR_BUSY && code != ERR_CONFLICT) {
            w->dropped_at = clock_mono_us();
            return error_prefix(e, code, "it is not deleted yet");
        }
    }
    if (code == ERR_OK || code == ERR_BUSY || code == ERR_CONFLICT)
        code = fence_load(&k->fence, &k->view, e);
    if (code == ERR_NOT_FOUND && k->view.dropped == VIEW_DROP_DONE) {
        struct error why;
        service_on_dropped(k->service, w->name, w->length, k->view.incarnation);
        if (c == NULL && admin_unregister_name(&k->fence, w->name, w->length, &why) != ERR_OK)
            log_warn("not_unregistered", "filter=%s why=%s", log_quote(w->name), log_quote(why.text));
    }
    return code;
}

/* Whether rows of the filter's table are to be followed: always, or by all coordinators while a job that
 * relies on it runs. Where the view cannot be read nothing changes. */
static void look_at_tail(struct keeper *k, const struct config_filter *c, enum err code, bool held)
{
    struct tails *tails = k->service->tails;
    bool sourced = c->table[0] != '\0' && code == ERR_OK;
    bool job = sourced && !c->tail && c->catch_up != CATCH_UP_KEYSET && held && last_job(k).running;
    if (code == ERR_OK || code == ERR_NOT_FOUND)
        tails_want(tails, k->config, c, sourced && (c->tail || job));
    else
        tails_keep(tails, c->name);
}

/* ERR_OK: the filter has a view, by k->view. */
static enum err look(struct keeper *k, const char *name, size_t length)
{
    struct error e = {.text = ""};
    const struct config_filter *c = config_find(k->config, name, length);
    struct watched *w = watch_find(k->service->watch, name, length);
    if (w == NULL)
        return ERR_NOMEM;
    w->round = k->round;
    enum err code = names_init(&k->fence.names, k->config->prefix, name, length, &e);
    if (code != ERR_OK)
        return code;
    follow(w, c);
    /* Before the view is read: a job that ends in between has left no unfinished view behind. */
    bool held = mutex_is_held(k);
    code = load_kept(k, w, c, held, &e);
    if (code == ERR_NOT_FOUND && c != NULL && k->view.dropped != VIEW_DROP_BEGUN) {
        make_missing(k, w, c->table[0] != '\0');
        code = fence_load(&k->fence, &k->view, &e);
    }
    if (code == ERR_OK)
        service_on_seen(k->service, name, length, k->view.incarnation);
    if (c != NULL && c->table[0] != '\0')
        look_at_source(k, w, c);
    if (c != NULL)
        look_at_tail(k, c, code, held);
    if (code != ERR_OK) {
        if (code != ERR_NOT_FOUND)
            problem(w, e.text);
        return code;
    }
    look_at_view(k, w, c, held);
    return ERR_OK;
}

/* --- the thread --- */

/* Filters that this process has seen and that P:filters does not have: deleted, as a rule. One that is there
 * is put back: whoever deleted the one before it took its name away late. */
static void look_at_unlisted(struct keeper *k)
{
    struct error e;
    for (struct watched *w = watch_first(k->service->watch); w != NULL && !atomic_load(&k->service->stop);
         w = w->next)
        if (w->round != k->round && service_was_seen(k->service, w->name, w->length) &&
            look(k, w->name, w->length) == ERR_OK &&
            admin_register_name(&k->fence, w->name, w->length, &e) != ERR_OK)
            log_warn("not_registered", "filter=%s why=%s", log_quote(w->name), log_quote(e.text));
}

static void look_at_all(struct keeper *k)
{
    k->round++;
    k->next_due_ms = 0;
    const struct config *c = k->config;
    for (size_t i = 0; i < c->filter_count && !atomic_load(&k->service->stop); i++)
        (void)look(k, c->filter[i].name, strlen(c->filter[i].name));
    tails_end_round(k->service->tails);
    redisReply *names = NULL;
    struct error e;
    if (link_command(k->link, NODE_HOME, &names, &e, "SMEMBERS %s:filters", c->prefix) != ERR_OK)
        return;
    atomic_store(&k->service->filters, names->elements);
    for (size_t i = 0; i < names->elements && !atomic_load(&k->service->stop); i++)
        if (config_find(c, names->element[i]->str, (size_t)names->element[i]->len) == NULL)
            (void)look(k, names->element[i]->str, (size_t)names->element[i]->len);
    freeReplyObject(names);
    look_at_unlisted(k);
}

/* Until the next look: no longer than to the first filter that is due. */
static int wait_ms(const struct keeper *k, uint64_t interval_ms)
{
    uint64_t now = clock_wall_us() / 1000;
    if (k->next_due_ms != 0 && k->next_due_ms < now + interval_ms)
        interval_ms = k->next_due_ms > now ? k->next_due_ms - now : 0;
    return (int)interval_ms;
}

void *keeper_run(void *service)
{
    struct keeper *k = calloc(1, sizeof(*k));
    if (k == NULL)
        abort();
    k->service = service;
    k->link = link_new(&k->service->nodes, k->service->redis_timeout_ms, "twinbloom-keeper");
    k->fence.link = k->link;
    while (!atomic_load(&k->service->stop)) {
        k->config = live_config_acquire(k->service->config);
        k->fence.tombstone_ms = k->config->tombstone_ms;
        uint64_t interval_ms = k->config->check_interval_ms;
        look_at_all(k);
        config_release(k->config);
        mailbox_wait(k->service->keeper, wait_ms(k, interval_ms));
    }
    fence_fini(&k->fence);
    link_free(k->link);
    free(k);
    return NULL;
}
