/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_RESP_CLIENT_COUNT_H
#define SERVICE_RESP_CLIENT_COUNT_H
/* Counts the outcomes of commands for metrics, and logs slow commands. */
#include "service/keys/request_count.h"
#include "service/resp/client.h"

/* Command @what of @c has ended; count it @times times. @spent is NULL if it was answered at once. */
void client_count(struct client *c, const struct counted *what, enum outcome outcome, size_t times,
                  const struct spent *spent);
#endif
