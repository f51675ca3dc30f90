/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_RECORD_TIMELINES_H
#define EXPANSION_RECORD_TIMELINES_H
/* P:timelines, a hash on the metadata node: from the system identifier of a Postgres to the highest timeline
 * on which coordinators have met its primary. A primary on a lower one was left: another one was promoted,
 * whose rows it lacks. */
#include <stdbool.h>
#include "base/error.h"
#include "migrate/source/source.h"
#include "shard/redis/sync_client.h"

/* ERR_TIMEOUT, which a job waits for to pass: the server of @h was left. ERR_UNREACHABLE. @notes: note the
 * timeline of @h, if it is the highest one. */
MUST_CHECK enum err timelines_look(struct sync_client *l, const char *prefix, const struct source_history *h,
                                   bool notes, struct error *e);
#endif
