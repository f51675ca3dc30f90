/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_RESP_CLIENT_COUNT_H
#define SERVICE_RESP_CLIENT_COUNT_H
/* Counting what commands came to, for metrics, and telling of those that were slow. */
#include "service/keys/request_count.h"
#include "service/resp/client.h"

/* The command @what of @c has ended, and @times in all. @spent NULL: at once. */
void client_count(struct client *c, const struct counted *what, enum outcome outcome, size_t times,
                  const struct spent *spent);
#endif
