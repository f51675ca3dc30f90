/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_DAEMON_STATE_FILE_H
#define SERVICE_DAEMON_STATE_FILE_H
/* The state file from start to end: clean_stop.h. */
#include "service/config/config.h"
#include "service/core/service.h"
#include "shard/members/clean_stop.h"

/* Before anything is served. *@out NULL: the configuration names no file. Waits for nodes that do not answer,
 * and for another coordinator, for at most 40 s, or until a signal says stop: ERR_CANCELLED. ERR_CONFIG,
 * ERR_NOMEM; ERR_BUSY: another one was about to start or to stop for all that time. */
MUST_CHECK enum err state_file_begin(struct clean_stop **out, const struct service *s,
                                     const struct config *config, struct error *e);
/* Nothing is served any more. */
void state_file_end(struct clean_stop *stop, const struct service *s);
#endif
