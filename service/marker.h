/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_MARKER_H
#define SERVICE_MARKER_H
/* The marker: a thread that writes a mark (shard/marks.h) to every master each `mark_interval`, while the
 * configuration has a filter with a source. Any number of coordinators do: whose mark comes first is the one
 * that is kept. Nobody waits for it: without fresh marks a healing reads more rows, or compares all of them.
 */
#include "service/service.h"

struct marker;

MUST_CHECK enum err marker_start(struct marker **out, struct service *s, struct error *e);
/* NULL is fine. */
void marker_stop(struct marker *m);
#endif
