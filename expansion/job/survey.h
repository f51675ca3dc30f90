/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_JOB_SURVEY_H
#define EXPANSION_JOB_SURVEY_H
/* Collects the facts for a plan from the source and from Redis. Jobs and previews of jobs share it, so that
 * they cannot disagree. */
#include "base/error.h"
#include "expansion/job/driver.h"
#include "expansion/decide/plan.h"
#include "migrate/source/source.h"
#include "shard/view/handle.h"

/* Choose the nodes of the next generation: those requested, else those of the filter, else all. Asks, through
 * @l, whether other coordinators know them. ERR_CONFIG: a node is not configured, or listed twice.
 * ERR_REFUSED: another coordinator does not know a node. ERR_UNREACHABLE, ERR_TIMEOUT. */
MUST_CHECK enum err survey_nodes(const struct driver_options *o, struct sync_client *l, struct placement *on,
                                 struct error *e);

/* Plan the generation that follows the current one of @v, from @source's rows and the filter's items. Changes
 * nothing. ERR_RANGE: no plan is possible. ERR_UNREACHABLE, ERR_TIMEOUT. */
MUST_CHECK enum err survey_plan(const struct driver_options *o, const struct view *v, struct source *source,
                                const struct placement *on, struct plan_input *in, struct plan *plan,
                                struct error *e);
#endif
