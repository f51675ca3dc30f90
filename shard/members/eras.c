/* SPDX-License-Identifier: MIT */
#include "shard/members/eras.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "shard/redis/sync_client.h"
#include "shard/redis/wire/replication.h"
#include "shard/redis/script_call.h"
#include "shard/view/shards.h"
#include "shard/view/view_load.h"

extern const char embedded_eras_say[], embedded_eras_take[];

void eras_fini(struct eras *s)
{
    replications_fini(&s->seen);
    replications_fini(&s->there);
    free(s->now);
}

static enum err does_not_answer(const struct replication *node, struct error *e)
{
    return error_set(e, ERR_UNREACHABLE, "Redis node %s does not answer, or is no master", node->node);
}

/* Take the ids of the nodes of @g from @there, which was asked for just now. Nobody else is asked for a node
 * that did not answer: which server that would be is not compared. One that is not among them leads to the
 * server of an earlier one. */
static enum err take(const struct replications *there, struct sync_client *l, const struct names *names,
                     const struct generation *g, struct trusted *out, struct error *e)
{
    struct placement placement;
    enum err code = placement_resolve(&placement, names, g, sync_client_nodes(l), e);
    *out = (struct trusted){0};
    for (unsigned i = 0; i < placement.count && code == ERR_OK; i++) {
        const struct replication *one = replications_of_node(there, sync_client_name(l, placement.node[i]));
        if (one != NULL && one->id == 0)
            return does_not_answer(one, e);
        if (one == NULL || !trusted_add(out, one->id))
            return shards_eras(l, names, g, out, e);
    }
    return code;
}

/* Find the ids of the nodes that hold shards of either generation. @there: the nodes as they were asked just
 * now; NULL: ask them. */
static enum err find(const struct replications *there, struct sync_client *l, const struct names *names,
                     const struct log_view *v, struct trusted *out, struct error *e)
{
    struct trusted one;
    enum err code = ERR_OK;
    *out = (struct trusted){0};
    for (unsigned s = 0; s < 2 && code == ERR_OK; s++) {
        if (v->slot[s].shape.number == 0)
            continue;
        code = there == NULL ? shards_eras(l, names, &v->slot[s].shape, &one, e)
                             : take(there, l, names, &v->slot[s].shape, &one, e);
        for (unsigned i = 0; i < one.count && code == ERR_OK; i++)
            if (!trusted_add(out, one.id[i]))
                code = error_set(e, ERR_RANGE, "there are more than %d masters", REPLICATIONS_MAX);
    }
    return code;
}

/* True if the node was watched under an id that the view accepts, or stopped cleanly behind one, and has lost
 * nothing since. */
static bool goes_on(const struct eras *s, const struct log_view *v, const struct replication *now)
{
    for (unsigned i = 0; i < s->seen.count; i++)
        if (trusted_contains(&v->eras, s->seen.one[i].id) && replication_goes_on(&s->seen.one[i], now))
            return true;
    for (unsigned i = 0; i < v->eras.count; i++)
        if (clean_stop_goes_on(s->clean_stop, v->eras.id[i], now))
            return true;
    return false;
}

/* Judge an @id that a node with shards has. */
static enum eras_action judge_node(const struct eras *s, const struct log_view *v, uint64_t id)
{
    const struct replication *found = replications_of_id(&s->there, id);
    if (trusted_contains(&v->eras, id))
        return ERAS_KEEP;
    return found != NULL && goes_on(s, v, found) ? ERAS_TAKE : ERAS_WRITE;
}

/* Judge an @id that the view of a cluster accepts. If no master has it any more, another one may have taken
 * that one's place without its last writes, and given its shards to nodes that are accepted. Nothing was lost
 * if the master was seen without shards before, or has another id now and goes on. */
static enum eras_action judge_accepted(const struct eras *s, uint64_t id)
{
    const struct replication *seen = replications_of_id(&s->seen, id);
    if (replications_of_id(&s->there, id) != NULL)
        return ERAS_KEEP;
    bool kept = seen != NULL && !seen->has_slots;
    for (unsigned i = 0; seen != NULL && i < s->there.count && !kept; i++)
        kept = replication_goes_on(seen, &s->there.one[i]);
    return kept ? ERAS_TAKE : ERAS_WRITE;
}

static enum eras_action larger(enum eras_action a, enum eras_action b)
{
    return a > b ? a : b;
}

/* The view keeps ids of masters that no longer have shards: if nodes of a cluster do not agree on who has
 * slots, such an id would go and come with each look. */
static enum eras_action judge(struct eras *s, const struct log_view *v, bool is_cluster)
{
    enum eras_action action = ERAS_KEEP;
    for (unsigned i = 0; i < v->eras.count && is_cluster; i++)
        action = larger(action, judge_accepted(s, v->eras.id[i]));
    for (unsigned i = 0; i < s->now->count; i++)
        action = larger(action, judge_node(s, v, s->now->id[i]));
    return action;
}

/* Note the masters that are there. */
static enum err note_seen(struct eras *s, struct error *e)
{
    struct replications now = {0};
    enum err code = ERR_OK;
    for (unsigned i = 0; i < s->there.count && code == ERR_OK; i++)
        code = replications_add(&now, &s->there.one[i], e);
    if (code != ERR_OK) {
        replications_fini(&now);
        return code;
    }
    replications_fini(&s->seen);
    s->seen = now;
    return ERR_OK;
}

/* Find the ids of a cluster's masters that have slots among all masters. */
static enum err find_with_slots(const struct replications *there, struct trusted *out, struct error *e)
{
    *out = (struct trusted){0};
    for (unsigned i = 0; i < there->count; i++) {
        const struct replication *one = &there->one[i];
        if (one->has_slots && one->id == 0)
            return does_not_answer(one, e);
        if (one->has_slots && !trusted_add(out, one->id))
            return error_set(e, ERR_RANGE, "there are more than %d masters", REPLICATIONS_MAX);
    }
    return ERR_OK;
}

/* The id that a node of a list had tells whose server it is. If another node's address leads to it now, its
 * own address may lead back to it later; so nobody makes its shards elsewhere meanwhile. Of two nodes that
 * lead to one server only the first one is among those that are there. */
static enum err check_addresses(const struct eras *s, struct error *e)
{
    for (unsigned i = 0; i < s->seen.count; i++) {
        const struct replication *was = &s->seen.one[i], *now = replications_of_id(&s->there, was->id);
        if (now != NULL && strcmp(now->node, was->node) != 0)
            return error_set(
                e, ERR_UNREACHABLE,
                "Redis node %s is the server that node %s was: an address leads elsewhere; if that is "
                "meant, restart all coordinators",
                now->node, was->node);
        if (now == NULL && was->id != 0 && replications_of_node(&s->there, was->node) == NULL)
            return error_set(e, ERR_UNREACHABLE,
                             "Redis node %s is the server of another node: an address leads elsewhere",
                             was->node);
    }
    return ERR_OK;
}

/* True if all that @v names is where it is looked for, at the servers that were asked for their ids, as @l is
 * pinned: the addresses lead right, and led elsewhere when the nodes were seen. Nothing is lost then that
 * would be made again. */
static bool is_all_there(struct sync_client *l, const struct names *names, const struct log_view *v)
{
    bool all = true;
    struct error ignored;
    for (unsigned s = 0; s < 2 && all; s++)
        all = v->slot[s].shape.number == 0 || shards_are_there(l, names, &v->slot[s].shape);
    for (unsigned i = 0; i < v->lane_count && all; i++) {
        struct lane lane;
        SCOPED(scope_reply) redisReply *r = NULL;
        all = log_view_lane_at(v, names, sync_client_nodes(l), i, &lane, &ignored) == ERR_OK &&
              sync_client_command(l, lane.where, &r, &ignored, "EXISTS %b", lane.key.text, lane.key.length) ==
                  ERR_OK &&
              r->type == REDIS_REPLY_INTEGER && r->integer == 1;
    }
    return all;
}

/* Two addresses of a list lead to one server: nobody tells which of them is its own. */
static bool is_twice(const struct eras *s, const struct sync_client *l)
{
    return sync_client_nodes(l)->cluster == NULL && s->there.count < sync_client_nodes(l)->count;
}

enum err eras_look(struct eras *s, struct sync_client *l, const struct names *names, const struct log_view *v,
                   enum eras_action *out, struct error *e)
{
    bool is_cluster = sync_client_nodes(l)->cluster != NULL;
    struct trusted now;
    struct error why;
    sync_client_pin(l);
    enum err code = sync_client_replications(l, &s->seen, &s->there, e);
    if (code == ERR_OK && !is_cluster && check_addresses(s, &why) != ERR_OK && !is_all_there(l, names, v))
        code = error_set(e, ERR_UNREACHABLE, "%s", why.text);
    sync_client_unpin(l);
    if (code == ERR_OK)
        code = is_cluster ? find_with_slots(&s->there, &now, e) : find(&s->there, l, names, v, &now, e);
    free(s->now);
    s->now = code == ERR_OK ? trusted_copy(&now) : NULL;
    if (s->now == NULL)
        return code == ERR_OK ? error_set(e, ERR_NOMEM, "out of memory") : code;
    *out = judge(s, v, is_cluster);
    return *out == ERAS_KEEP && !is_twice(s, l) ? note_seen(s, e) : ERR_OK;
}

static uint64_t generation_of(const struct log_view *v)
{
    return v->slot[v->current].shape.number;
}

/* Write what a writer says of the current generation of @v. */
static void format_said(struct buffer *out, const struct eras *s, const struct log_view *v,
                        const struct eras_written *what)
{
    char name[LOG_WRITER_NAME_MAX];
    log_eras_text(s->now, out);
    buffer_printf(out, " of %" PRIu64 "%s", generation_of(v), what->all ? " all" : " partly");
    if (!what->all || !what->knows_left)
        return;
    log_writer_name(what->left.id, name);
    if (what->left.registration == 0)
        buffer_puts(out, " -");
    else
        buffer_printf(out, " %s:%" PRIu64, strchr(name, '.') + 1, what->left.registration);
}

/* Begin a script on the view, whose first argument is the incarnation. */
static void begin(struct script_call *c, const char *text, const struct names *names)
{
    script_begin_view(c, text, names);
    script_incarnation(c, names->incarnation);
}

/* Check that the nodes are still those that were looked at. */
static enum err look_again(const struct eras *s, struct sync_client *l, const struct names *names,
                           const struct log_view *v, struct error *e)
{
    struct trusted again;
    enum err code = find(NULL, l, names, v, &again, e);
    return code == ERR_OK && !shards_eras_equal(&again, s->now)
               ? error_set(e, ERR_FENCED, "a node of the shards has changed its replication id again")
               : code;
}

enum { SAID_MAX = LOG_WRITER_NAME_MAX };

/* The field of the view in which @writer says what it has written. */
static void name_said(const uint8_t writer[LOG_WRITER_BYTES], char out[SAID_MAX])
{
    char name[LOG_WRITER_NAME_MAX];
    log_writer_name(writer, name);
    (void)snprintf(out, SAID_MAX, "wrote.%.32s", strchr(name, '.') + 1);
}

/* True if the reply is @text; if @may_have_more, also if it is @text, a blank and more. */
static bool has_text(const redisReply *r, const struct buffer *text, bool may_have_more)
{
    return !buffer_failed(text) && r->type == REDIS_REPLY_STRING && r->len >= text->length &&
           memcmp(r->str, text->data, text->length) == 0 &&
           (r->len == text->length || (may_have_more && r->str[text->length] == ' '));
}

enum err eras_has_said(const struct eras *s, struct sync_client *l, const struct names *names,
                       const struct log_view *v, const uint8_t writer[LOG_WRITER_BYTES],
                       const struct eras_written *what, bool *said, struct error *e)
{
    const struct eras_written all = {.all = true};
    SCOPED(buffer_fini) struct buffer text = {0}, more = {0};
    struct key_name key;
    char name[SAID_MAX];
    SCOPED(scope_reply) redisReply *r = NULL;
    *said = false;
    names_filter_key(names, "view", &key);
    name_said(writer, name);
    enum err code =
        sync_client_command(l, sync_client_home(l, names), &r, e, "HGET %b %s", key.text, key.length, name);
    if (code != ERR_OK)
        return code;
    format_said(&text, s, v, what);
    format_said(&more, s, v, &all);
    *said = has_text(r, &text, what->all && !what->knows_left) || (!what->all && has_text(r, &more, true));
    return ERR_OK;
}

enum err eras_say(struct eras *s, struct sync_client *l, const struct names *names, const struct log_view *v,
                  const uint8_t writer[LOG_WRITER_BYTES], const struct eras_written *what, struct error *e)
{
    SCOPED(script_fini) struct script_call c = {0};
    char name[LOG_WRITER_NAME_MAX], said[SAID_MAX];
    long long result = 0;
    log_writer_name(writer, name);
    name_said(writer, said);
    begin(&c, embedded_eras_say, names);
    script_text(&c, name);
    script_text(&c, said);
    format_said(script_argument(&c), s, v, what);
    script_number(&c, generation_of(v));
    enum err code = look_again(s, l, names, v, e);
    if (code == ERR_OK)
        code = script_run(&c, l, sync_client_home(l, names), &result, e);
    if (code == ERR_OK && result == 0)
        code = log_view_another(names, e);
    return code == ERR_OK && result < 0
               ? error_set(e, ERR_NOT_FOUND, "%s is not registered in the view", name)
               : code;
}

/* Let the view accept @ids. */
static enum err accept(struct sync_client *l, const struct names *names, const struct log_view *v,
                       const struct trusted *ids, bool is_safe, unsigned *missing, struct error *e)
{
    struct script_call c = {0};
    long long result = 0;
    script_begin_view(&c, embedded_eras_take, names);
    script_filter_key(&c, names, "forgotten");
    script_incarnation(&c, names->incarnation);
    log_eras_text(&v->eras, script_argument(&c));
    log_eras_text(ids, script_argument(&c));
    script_number(&c, is_safe);
    enum err code = script_run_once(&c, l, names, &result, e);
    if (code == ERR_OK && result < 0)
        code = log_view_another(names, e);
    *missing = code == ERR_OK ? (unsigned)result : 0;
    if (code == ERR_OK && result == 0)
        log_view_notify(l, names);
    return code;
}

enum err eras_take(struct eras *s, struct sync_client *l, const struct names *names, const struct log_view *v,
                   enum eras_action action, unsigned *missing, struct error *e)
{
    *missing = 0;
    enum err code = look_again(s, l, names, v, e);
    return code == ERR_OK ? accept(l, names, v, s->now, action == ERAS_TAKE, missing, e) : code;
}

/* Let the view accept only @kept of its ids. *@fewer: that is not all of them. */
static enum err accept_fewer(struct sync_client *l, const struct names *names, const struct log_view *v,
                             const struct trusted *kept, bool *fewer, struct error *e)
{
    unsigned unused;
    *fewer = kept->count < v->eras.count;
    return *fewer ? accept(l, names, v, kept, true, &unused, e) : ERR_OK;
}

enum err eras_leave(const struct eras *s, struct sync_client *l, const struct names *names,
                    const struct log_view *v, bool *left, struct error *e)
{
    struct trusted there = {0};
    for (unsigned i = 0; i < v->eras.count; i++)
        if (replications_of_id(&s->there, v->eras.id[i]) != NULL)
            there.id[there.count++] = v->eras.id[i];
    return accept_fewer(l, names, v, &there, left, e);
}

enum err eras_doubt_home(const struct eras *s, struct sync_client *l, const struct names *names,
                         const struct log_view *v, bool *was_accepted, struct error *e)
{
    const char *name = sync_client_name(l, sync_client_home(l, names));
    const struct replication *home = replications_of_node(&s->there, name);
    struct trusted others = {0};
    *was_accepted = false;
    if (home != NULL && home->id == 0)
        return does_not_answer(home, e);
    if (home == NULL) /* a cluster that changes just now */
        return ERR_OK;
    for (unsigned i = 0; i < v->eras.count; i++)
        if (v->eras.id[i] != home->id)
            others.id[others.count++] = v->eras.id[i];
    return accept_fewer(l, names, v, &others, was_accepted, e);
}
