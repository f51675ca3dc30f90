/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_FILTERS_FILTER_DROP_H
#define SERVICE_FILTERS_FILTER_DROP_H
/* Filters are deleted, by a request or by the controller. Blocking. */
#include "service/config/config.h"
#include "service/core/service.h"
#include "shard/view/handle.h"

/* DROP_IF_DUE: only if its expire_at has passed. DROP_IF_BEGUN: only if its deletion was begun. Another
 * filter may have taken the name during the wait for the mutex. */
enum drop_when { DROP_NOW, DROP_IF_DUE, DROP_IF_BEGUN };

/* Delete a filter under its mutex, or go on where somebody began to; DROP_NOW: also one that was lost.
 * ERR_NOT_FOUND: there is none; what a killed maker or deleter has left was removed. ERR_CONFLICT (@when does
 * not hold, or one that was lost was made again meanwhile), ERR_BUSY (the text names who holds the mutex),
 * ERR_WRONG_TYPE and what log_drop() gives. */
MUST_CHECK enum err filter_drop(struct service *s, const struct config *config, struct handle *f,
                                struct view *scratch, const char *name, size_t length, enum drop_when when,
                                struct error *e);

/* Put the name of a filter that is there back into the registries. Failures are logged. */
void filter_keep_name(struct handle *f, struct view *scratch);
#endif
