/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_RESP_CLIENT_RUN_H
#define SERVICE_RESP_CLIENT_RUN_H
/* A run: commands of a pipeline that stand one behind the other and differ in their key alone. They are
 * begun together, as one request with a reply for each key: what a command costs beside its key is paid once
 * for all of them. Belongs to the client's worker. */
#include "service/resp/client.h"

enum {
    CLIENT_RUN_KEYS = 128,       /* at most; an entry of the log has as many */
    CLIENT_RUN_BYTES = 64 * 1024 /* of the commands behind the first one */
};

/* Take what follows the present command, which asks @k of one key. @keys, of CLIENT_RUN_KEYS, are that key
 * and those that follow; returns how many. Their commands need not be begun any more. */
size_t client_run_take(struct client *c, const struct key_command *k, const struct argument *filter,
                       struct argument *keys);
#endif
