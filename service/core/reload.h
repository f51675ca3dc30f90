/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CORE_RELOAD_H
#define SERVICE_CORE_RELOAD_H
/* Another configuration while the daemon runs. All or nothing: it is validated as a whole before anybody sees
 * it. Who sees it when: workers at their next task, the controller and the admin thread with their next
 * round or call, jobs with the next job. */
#include "service/config/config_change.h"
#include "service/core/service.h"

/* Read the file of @s again and put it in force, over what reload_set() has set; the outcome is logged. A
 * file with a fault, or one that changes what cannot change, changes nothing. */
void reload_file(struct service *s);

/* Set keys of the configuration in force, as config_assign() does; @by names who asked, for the log. */
MUST_CHECK enum err reload_set(struct service *s, const struct config_assignment *list, size_t count,
                               const char *by, size_t *blamed, struct error *e);
#endif
