/* SPDX-License-Identifier: MIT */
#ifndef SHARD_VIEW_HISTORY_H
#define SHARD_VIEW_HISTORY_H
/* Which servers a view has lived on. Each replication id that it takes is a history that it has gone through;
 * the last one is named on every master, beside the incarnation (shard/view/registry.h), before anything is
 * answered by that view. So a server that was left behind, and is home again by its address, has a view that
 * does not know what the others name: keys may have been acknowledged without it. It becomes degraded
 * (tests/model/log/history.pml).
 *
 * Masters that do not answer say nothing. Where home is the only master its registry goes back with the view,
 * and nothing is noticed. Blocking. */
#include "shard/redis/sync_client.h"
#include "shard/view/registry.h"
#include "shard/view/log_view.h"

enum history_state {
    HISTORY_NAMED,  /* all masters that answered name the view's last history */
    HISTORY_BEHIND, /* some name an earlier one of the view's, or none */
    HISTORY_MISSED  /* some name one that the view has not gone through */
};

/* @said: by registry_look(), after @v was read. Pure. */
enum history_state history_judge(const struct log_view *v, const struct registry_said *said);

/* What a process has seen of a filter's histories. Zero-initialised it has seen nothing. */
struct history_seen {
    unsigned count;
    uint64_t id[LOG_HISTORY_MAX]; /* the last one first */
};
void history_note(struct history_seen *seen, const struct log_view *v);

/* Do what follows, also where @seen is later than the view: name the view's last history, or have the view
 * say what it missed. It is degraded then, unless @seen has all of that, and home is no server that was left
 * behind: then it was started again or promoted, and a roll call makes it whole. *@again: the view is another
 * one by now: read it again. Errors as of registry_look(), of home alone; ERR_FENCED: there is no such view.
 */
MUST_CHECK enum err history_follow(struct sync_client *l, const struct names *names, const struct log_view *v,
                                   const struct registry_said *said, const struct history_seen *seen,
                                   bool *again, struct error *e);
#endif
