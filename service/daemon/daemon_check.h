/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_DAEMON_DAEMON_CHECK_H
#define SERVICE_DAEMON_DAEMON_CHECK_H
/* What twinbloomd finds of a configuration before it serves: whether the tables that it names can be read. */
#include "service/config/config.h"

/* ERR_CONFIG: a table cannot be used; the text is "file:line: [filter NAME]: what; remedy". A database that
 * cannot be reached now is not the configuration's fault. */
MUST_CHECK enum err daemon_check_sources(const struct config *config, const char *path, struct error *e);

/* --check-config: say what was found and what was chosen where the file leaves it open. Returns the exit
 * status. A database that cannot be reached is a fault here. */
int daemon_check_config(const struct config *config, const char *path);
#endif
