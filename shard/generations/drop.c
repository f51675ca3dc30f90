/* SPDX-License-Identifier: MIT */
#include "shard/generations/drop.h"

#include <stdlib.h>
#include <string.h>
#include "shard/log/lane_sync.h"
#include "shard/redis/script_call.h"
#include "shard/generations/leftover.h"
#include "shard/view/log_view.h"
#include "shard/view/view_load.h"

extern const char embedded_drop_begin[], embedded_drop_view[];

/* A filter's keys on its metadata node, besides the view and what leftover_remove() removes. Its lease
 * expires. */
static const char *const others[] = {"token", "job", "history", "count", "build", "marks"};

enum {
    OTHERS = sizeof(others) / sizeof(others[0]),
    RECORDS_MAX = 3,
    SAID_MS = 3600 * 1000 /* that an incarnation was deleted; whoever runs finds out within seconds */
};

struct dropper {
    struct sync_client *redis;
    struct names names;
    const struct work *work;
    struct log_view view;
    struct script_call call;
};

static enum err run(struct dropper *d, long long *answer, struct error *e)
{
    return script_run(&d->call, d->redis, sync_client_home(d->redis, &d->names), answer, e);
}

typedef enum err lane_fn(struct sync_client *l, const struct lane *lane, struct error *e);

static enum err for_each_lane(struct dropper *d, lane_fn *fn, struct error *e)
{
    enum err code = ERR_OK;
    for (unsigned i = 0; i < d->view.lane_count && code == ERR_OK; i++) {
        struct lane lane;
        code = log_view_lane_at(&d->view, &d->names, sync_client_nodes(d->redis), i, &lane, e);
        if (code == ERR_OK)
            code = fn(d->redis, &lane, e);
    }
    return code;
}

static enum err look_at_lane(struct sync_client *l, const struct lane *lane, struct error *e)
{
    SCOPED(scope_reply) redisReply *reply = NULL;
    enum err code = sync_client_command(l, lane->where, &reply, e, "TYPE %s", lane->key.text);
    if (code != ERR_OK)
        return code;
    if (reply->type != REDIS_REPLY_STATUS)
        return error_set(e, ERR_PARSE, "lane %s: unexpected reply to TYPE", lane->key.text);
    if (strcmp(reply->str, "stream") != 0 && strcmp(reply->str, "none") != 0)
        return error_set(e, ERR_WRONG_TYPE, "lane %s is a %s, not a stream; delete or rename that key",
                         lane->key.text, reply->str);
    return ERR_OK;
}

/* Make the view say `deleting`, and load it: its lanes are then final, as whoever replaces a lane checks for
 * `deleting`. ERR_NOT_FOUND: the view is already gone. ERR_CONFLICT: it expires at another time than
 * @due_ms. */
static enum err begin(struct dropper *d, uint64_t due_ms, struct error *e)
{
    long long answer = 0;
    script_begin_view(&d->call, embedded_drop_begin, &d->names);
    script_incarnation(&d->call, d->names.incarnation);
    if (due_ms != 0)
        script_number(&d->call, due_ms);
    enum err code = run(d, &answer, e);
    if (code != ERR_OK)
        return code;
    if (answer < 0)
        return error_set(e, ERR_CONFLICT, "filter %s expires at another time by now", d->names.filter);
    code = log_view_load(d->redis, &d->names, &d->view, e);
    if (code == ERR_OK && d->view.incarnation != d->names.incarnation)
        code = ERR_NOT_FOUND; /* a later filter was made meanwhile */
    return code;
}

static enum err remove_view(struct dropper *d, long long *answer, struct error *e)
{
    script_begin_view(&d->call, embedded_drop_view, &d->names);
    script_filter_key(&d->call, &d->names, "leftover");
    script_filter_key(&d->call, &d->names, "deleted");
    for (unsigned i = 0; i < OTHERS; i++)
        script_filter_key(&d->call, &d->names, others[i]);
    script_incarnation(&d->call, d->names.incarnation);
    script_number(&d->call, SAID_MS);
    return run(d, answer, e);
}

/* Turn the view into the record. A record beside a view comes from elsewhere: remove first what it names. */
static enum err end(struct dropper *d, struct error *e)
{
    long long answer = -2;
    bool was;
    enum err code = ERR_OK;
    for (unsigned i = 0; i < RECORDS_MAX && code == ERR_OK && answer == -2; i++) {
        code = remove_view(d, &answer, e);
        if (code == ERR_OK && answer == -2)
            code = leftover_clear(d->redis, &d->names, 0, &was, d->work, e);
    }
    if (code == ERR_OK && answer < 0)
        code =
            error_set(e, ERR_CONFLICT, "the view of filter %s is no longer being deleted", d->names.filter);
    return code;
}

static enum err drop_view(struct dropper *d, uint64_t due_ms, struct error *e)
{
    bool was;
    enum err code = for_each_lane(d, look_at_lane, e);
    if (code == ERR_OK)
        code = begin(d, due_ms, e);
    if (code == ERR_NOT_FOUND) /* removed by another deleter, which may have been killed since */
        return leftover_clear(d->redis, &d->names, d->names.incarnation, &was, d->work, e);
    if (code == ERR_OK)
        code = for_each_lane(d, lane_close, e);
    if (code == ERR_OK)
        code = end(d, e);
    if (code == ERR_OK)
        code = leftover_remove(d->redis, &d->names, &d->view, d->work, e);
    return code;
}

enum err log_drop(struct sync_client *l, const struct names *names, uint64_t incarnation, uint64_t due_ms,
                  const struct work *w, struct error *e)
{
    bool was = false;
    struct dropper *d = calloc(1, sizeof(*d));
    if (d == NULL)
        return error_set(e, ERR_NOMEM, "no memory to delete a filter");
    d->redis = l;
    d->names = *names;
    d->names.incarnation = incarnation;
    d->work = w;
    enum err code = log_view_load(l, names, &d->view, e);
    if (code == ERR_OK && d->view.incarnation != incarnation) {
        code = error_set(e, ERR_CONFLICT, "filter %s was made again meanwhile", names->filter);
    } else if (code == ERR_OK) {
        code = drop_view(d, due_ms, e);
    } else if (code == ERR_NOT_FOUND) {
        code = leftover_clear(l, names, incarnation, &was, w, e);
        if (code == ERR_OK && !was)
            code = error_set(e, ERR_NOT_FOUND, "filter %s does not exist", names->filter);
    }
    script_fini(&d->call);
    free(d);
    return code;
}
