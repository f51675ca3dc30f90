/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_SURVEY_H
#define EXPANSION_SURVEY_H
/* Survey: what a plan is made from, looked up in the source and in Redis. A job and whoever asks what a job
 * would do share it, so that they cannot disagree. */
#include "base/error.h"
#include "expansion/driver.h"
#include "expansion/plan.h"
#include "migrate/source.h"
#include "shard/fence.h"

/* Plan the generation that follows the current one of @v by @source's rows and the filter's items. Nothing is
 * changed. ERR_RANGE: no plan can be made. ERR_UNREACHABLE, ERR_TIMEOUT. */
MUST_CHECK enum err survey_plan(const struct driver_options *o, struct fence *f, const struct view *v,
                                struct source *source, struct plan_input *in, struct plan *plan,
                                struct error *e);

/* plan_fits() by what the nodes say now. ERR_REFUSED, ERR_UNREACHABLE, ERR_TIMEOUT. */
MUST_CHECK enum err survey_fits(const struct plan *plan, struct link *l, char warning[256], struct error *e);
#endif
