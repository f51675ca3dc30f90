/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_JOB_SURVEY_H
#define EXPANSION_JOB_SURVEY_H
/* Survey: what a plan is made from, looked up in the source and in Redis. A job and whoever asks what a job
 * would do share it, so that they cannot disagree. */
#include "base/error.h"
#include "expansion/job/driver.h"
#include "expansion/decide/plan.h"
#include "migrate/source/source.h"
#include "shard/view/handle.h"

/* Choose the nodes of the next generation: those that were asked for, else those of the filter, else all. @l:
 * to ask who knows them. ERR_CONFIG: one is not configured, or listed twice. ERR_REFUSED: another coordinator
 * does not know one of them. ERR_UNREACHABLE, ERR_TIMEOUT. */
MUST_CHECK enum err survey_nodes(const struct driver_options *o, struct sync_client *l, struct placement *on,
                                 struct error *e);

/* Plan the generation that follows the current one of @v by @source's rows and the filter's items. Nothing is
 * changed. ERR_RANGE: no plan can be made. ERR_UNREACHABLE, ERR_TIMEOUT. */
MUST_CHECK enum err survey_plan(const struct driver_options *o, const struct view *v, struct source *source,
                                const struct placement *on, struct plan_input *in, struct plan *plan,
                                struct error *e);

/* plan_fits() by what the nodes @on say now, and where the shards of @v lie (see memory_of_filter()). The
 * caller frees *@nodes, which is NULL where they did not say it; it is whole where the code is ERR_OK or
 * ERR_REFUSED. ERR_REFUSED, ERR_CONFIG, ERR_UNREACHABLE, ERR_TIMEOUT, ERR_NOMEM. */
MUST_CHECK enum err survey_fits(const struct plan *plan, const struct handle *f, const struct view *v,
                                const struct placement *on, struct plan_node **nodes, unsigned *count,
                                char warning[256], struct error *e);
#endif
