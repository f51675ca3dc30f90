/* SPDX-License-Identifier: MIT */
#include "shard/view/history.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/random.h"
#include "shard/redis/sync_client.h"
#include "shard/redis/wire/replication.h"
#include "shard/filter/names.h"
#include "shard/redis/script_call.h"
#include "shard/view/view_load.h"

extern const char embedded_history_miss[], embedded_history_name[];

static bool has(const uint64_t *ids, unsigned count, uint64_t id)
{
    for (unsigned i = 0; i < count; i++)
        if (ids[i] == id)
            return true;
    return false;
}

enum history_state history_judge(const struct log_view *v, const struct registry_said *said)
{
    uint64_t last = v->history_count == 0 ? 0 : v->history[0];
    enum history_state state = HISTORY_NAMED;
    for (unsigned i = 0; i < said->history_count; i++) {
        const struct registry_history *named = &said->history[i];
        uint64_t id = named->incarnation == v->incarnation ? named->id : 0;
        if (id != 0 && !has(v->history, v->history_count, id))
            return HISTORY_MISSED;
        if (id != last)
            state = HISTORY_BEHIND;
    }
    return state;
}

/* Masters that do not answer are left out. What was named behind a look counts from the next look on. */
static enum err name_on_all(struct sync_client *l, const struct names *names, const struct log_view *v,
                            bool *again, struct error *e)
{
    SCOPED(script_fini) struct script_call call = {.text = NULL};
    struct key_name key;
    unsigned count = 0;
    enum err code = sync_client_masters(l, &count, e);
    for (unsigned i = 0; code == ERR_OK && i < count; i++) {
        char field[REGISTRY_HISTORY_FIELD_MAX];
        long long named = 1;
        if (!sync_client_master_has_slots(l, i))
            continue;
        names_on_master(names->prefix, sync_client_master_slot(l, i), "incarnations", &key);
        script_begin(&call, embedded_history_name);
        script_key(&call, &key);
        script_bytes(&call, field, registry_history_field(names, field));
        script_incarnation(&call, v->incarnation);
        script_incarnation(&call, v->history[0]);
        struct buffer *all = script_argument(&call);
        for (unsigned k = 0; k < v->history_count; k++)
            buffer_printf(all, "%016" PRIx64 " ", v->history[k]);
        code =
            registry_refused(script_run(&call, l, sync_client_master_keys(l, i), &named, e), &key, NULL, e);
        bool is_home = sync_client_master_keys(l, i) == sync_client_home(l, names);
        if (code == ERR_UNREACHABLE || code == ERR_TIMEOUT || (code == ERR_REFUSED && !is_home))
            code = ERR_OK; /* a master that refuses writes has nothing to do with this filter */
        *again |= named != 1;
    }
    return code;
}

void history_note(struct history_seen *seen, const struct log_view *v)
{
    seen->count = v->history_count;
    seen->generation = v->slot[v->current].shape.number;
    memcpy(seen->id, v->history, sizeof(seen->id));
    bool all = true; /* else a node has another id, and the view has not taken all of it yet */
    for (unsigned i = 0; i < v->lane_count; i++)
        all &= trusted_contains(&v->eras, v->lane[i].era);
    free(seen->accepted);
    seen->accepted = all ? trusted_copy(&v->eras) : NULL;
}

/* A server whose id the view accepts was there before: a view has no history of the ids with which it was
 * made. */
static bool accepts(const struct log_view *v, uint64_t id)
{
    bool is = trusted_contains(&v->eras, id);
    for (unsigned i = 0; i < v->lane_count; i++)
        is |= v->lane[i].era == id;
    return is;
}

/* *@out: this process has seen all histories that masters name, and the metadata node's server is new to it,
 * and to the view. So no key was acknowledged that this process could not know of. The generation that is
 * read is the same: no roll call brings back rows that only a rebuild has found. */
static enum err has_lived(struct sync_client *l, const struct names *names, const struct log_view *v,
                          const struct registry_said *said, const struct history_seen *seen, bool *out,
                          struct error *e)
{
    SCOPED(replications_fini) struct replications now = {0};
    *out = seen->count > 0 && seen->generation == v->slot[v->current].shape.number;
    for (unsigned i = 0; i < said->history_count; i++)
        if (said->history[i].incarnation == v->incarnation)
            *out &= said->history[i].id == 0 || has(seen->id, seen->count, said->history[i].id);
    if (!*out)
        return ERR_OK;
    enum err code = sync_client_replications(l, NULL, &now, e);
    const struct replication *there =
        replications_of_node(&now, sync_client_name(l, sync_client_home(l, names)));
    *out = code == ERR_OK && there != NULL && there->id != 0 && !has(seen->id, seen->count, there->id) &&
           !accepts(v, there->id);
    return code;
}

static enum err miss(struct sync_client *l, const struct names *names, const struct log_view *v,
                     const struct registry_said *said, const struct history_seen *seen, struct error *e)
{
    struct script_call call = {.text = NULL};
    bool lived;
    unsigned later = 0; /* of those it has seen, they come before the view's; earlier ones may have left it */
    long long result = 0;
    enum err code = has_lived(l, names, v, said, seen, &lived, e);
    if (code != ERR_OK)
        return code;
    script_begin_view(&call, embedded_history_miss, names);
    script_filter_key(&call, names, "build");
    script_filter_key(&call, names, "forgotten");
    script_incarnation(&call, v->incarnation);
    script_incarnation(&call, random_u64() | 1);
    if (lived)
        log_eras_text(seen->accepted, script_argument(&call));
    else
        script_text(&call, "");
    while (later < seen->count && !has(v->history, v->history_count, seen->id[later]))
        later++;
    while (later-- > 0)
        script_incarnation(&call, seen->id[later]);
    for (unsigned i = 0; i < said->history_count; i++) /* each may be later than what this process has seen */
        if (said->history[i].incarnation == v->incarnation && said->history[i].id != 0 &&
            !has(v->history, v->history_count, said->history[i].id))
            script_incarnation(&call, said->history[i].id);
    code = script_run_once(&call, l, names, &result, e);
    return code == ERR_OK && result < 0 ? log_view_another(names, e) : code;
}

enum err history_enter(struct sync_client *l, const struct names *names, const struct log_view *v,
                       uint64_t id, bool *again, struct error *e)
{
    struct script_call call = {.text = NULL};
    long long result = 0;
    *again = !accepts(v, id) && !has(v->history, v->history_count, id);
    if (!*again)
        return ERR_OK;
    script_begin_view(&call, embedded_history_miss, names);
    script_filter_key(&call, names, "build");
    script_filter_key(&call, names, "forgotten");
    script_incarnation(&call, v->incarnation);
    script_incarnation(&call, 0); /* nothing is missed */
    script_text(&call, "");
    script_incarnation(&call, id);
    enum err code = script_run_once(&call, l, names, &result, e);
    return code == ERR_OK && result < 0 ? log_view_another(names, e) : code;
}

enum err history_follow(struct sync_client *l, const struct names *names, const struct log_view *v,
                        const struct registry_said *said, const struct history_seen *seen, bool *again,
                        struct error *e)
{
    enum history_state state = history_judge(v, said);
    *again = false;
    if (seen->count > 0 && !has(v->history, v->history_count, seen->id[0]))
        state = HISTORY_MISSED;
    switch (state) {
    case HISTORY_NAMED:
        return ERR_OK;
    case HISTORY_BEHIND:
        return name_on_all(l, names, v, again, e);
    case HISTORY_MISSED:
        *again = true;
        return miss(l, names, v, said, seen, e);
    }
    return ERR_OK;
}
