/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CORE_RELOAD_H
#define SERVICE_CORE_RELOAD_H
/* Replaces the configuration while the daemon runs. All or nothing: it is validated as a whole before any
 * thread sees it. Workers see it at their next task, the controller at its next round, the admin thread at
 * its next call, and jobs when the next job starts. */
#include "service/config/config_change.h"
#include "service/core/service.h"

/* Read the configuration file of @s again and put it in force, in place of what reload_set() has set, and
 * its certificates. The outcome is logged. If the file is invalid, or changes a key that cannot change,
 * nothing is changed. */
void reload_file(struct service *s);

/* Set keys of the configuration in force, as config_assign() does. @by names the user, for the log. */
MUST_CHECK enum err reload_set(struct service *s, const struct config_assignment *list, size_t count,
                               const char *by, size_t *blamed, struct error *e);
#endif
