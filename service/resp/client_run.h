/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_RESP_CLIENT_RUN_H
#define SERVICE_RESP_CLIENT_RUN_H
/* A run: consecutive commands of a pipeline that differ in their key alone. They are started together, as one
 * request with a reply for each key. So the fixed cost of a command is paid once for all of them. A run
 * belongs to the client's worker. */
#include "service/resp/client.h"

enum {
    CLIENT_RUN_KEYS = 128,       /* at most; an entry of the log has as many keys */
    CLIENT_RUN_BYTES = 64 * 1024 /* bytes of the commands behind the first one */
};

/* Take the commands that follow the present one and differ from it in the key alone. @k describes the present
 * command. @keys has room for CLIENT_RUN_KEYS keys: it gets the present command's key and those that follow.
 * Returns their number. The caller need not start these commands any more. */
size_t client_run_take(struct client *c, const struct key_command *k, const struct argument *filter,
                       struct argument *keys);
#endif
