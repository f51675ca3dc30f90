/* SPDX-License-Identifier: MIT */
#ifndef SHARD_VIEW_HISTORY_H
#define SHARD_VIEW_HISTORY_H
/* Which servers a view has lived on. Each replication id that a view takes is a history, and so is each
 * cutover to a later generation. The view's last history is named on every master, beside the incarnation
 * (registry.h), before any request is answered by that view. Suppose that a server was left behind by a
 * failover, and its address becomes the metadata node again: then its view does not know the history that the
 * other masters name, and keys may have been acknowledged without it. Such a view becomes degraded
 * (tests/model/log/history.pml). So does one from before a cutover: it lacks rows that only the rebuild has
 * found (cutover.pml).
 *
 * Masters that do not answer, or refuse to note anything, are not counted. If the metadata node is the only
 * master, its registry goes back together with the view, and nothing is noticed. Blocking. */
#include "shard/redis/sync_client.h"
#include "shard/view/registry.h"
#include "shard/view/log_view.h"

enum history_state {
    HISTORY_NAMED,  /* all masters that answered name the view's last history */
    HISTORY_BEHIND, /* some name an earlier one of the view's, or none */
    HISTORY_MISSED  /* some name one that the view does not have */
};

/* @said comes from registry_look(), called after @v was read. Pure. */
enum history_state history_judge(const struct log_view *v, const struct registry_said *said);

/* The histories of a filter that a process has seen. Zero-initialised it has seen none. */
struct history_seen {
    uint64_t generation; /* that was read by the last view */
    unsigned count;
    uint64_t id[LOG_HISTORY_MAX]; /* the last one first */
    struct trusted *accepted;     /* ids of the shards' nodes, by the last view; NULL: none; for free() */
};
void history_note(struct history_seen *seen, const struct log_view *v);

/* Let the view record the replication id @id of its server as a history, if it does not know it: a node that
 * has neither a lane nor shards has none. *@again: it did not: read it again. Errors as below. */
MUST_CHECK enum err history_enter(struct sync_client *l, const struct names *names, const struct log_view *v,
                                  uint64_t id, bool *again, struct error *e);

/* Bring registries and view together; @seen may also be later than the view. Either name the view's last
 * history on all masters; or let the view record what it missed. In the second case the view becomes
 * degraded, unless @seen has all of that, and the generation that is read, and the metadata node is no server
 * that was left behind, as neither @seen nor the view knows its replication id: then it was restarted or
 * promoted, and a roll call makes the filter whole. Then the view accepts no replication id that the last
 * view of @seen did not: the address of such a node leads back to a server that was left. *@again: the view
 * has changed: read it again. Errors: those of registry_look() for the metadata node; ERR_FENCED: there is no
 * such view. */
MUST_CHECK enum err history_follow(struct sync_client *l, const struct names *names, const struct log_view *v,
                                   const struct registry_said *said, const struct history_seen *seen,
                                   bool *again, struct error *e);
#endif
