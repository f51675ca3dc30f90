/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_RESP_CLIENT_LIST_H
#define SERVICE_RESP_CLIENT_LIST_H
/* CLIENT LIST and CLIENT KILL. A task visits all workers. Each worker lists, or closes, those of its own
 * clients that match. Then the task returns to the client that sent the command, which waits meanwhile. */
#include "service/resp/client.h"

enum { CLIENT_USER_MAX = 64 };

/* Which clients match: those that fit every member that is set. */
struct client_choice {
    uint64_t *ids; /* owned; NULL: any id */
    size_t id_count;
    char address[64]; /* "": any address */
    char local[64];   /* local address of the connection; "": any */
    char user[CLIENT_USER_MAX];
    uint64_t age_s; /* minimum age in seconds */
    bool nobody;    /* no client matches: a client type was named that does not exist here */
    bool not_self;
};

enum client_list_kind {
    CLIENT_LIST,    /* the reply has one line for each client */
    CLIENT_KILL,    /* close the clients; the reply is their number */
    CLIENT_KILL_ONE /* close one client; the reply is OK, or an error if none matched */
};

/* Start the task, which takes over what @choice owns. The reply is written when all workers have been
 * visited. */
void client_list_start(struct client *c, enum client_list_kind kind, const struct client_choice *choice);

/* Append one line in Redis's format. Call in the thread of @c. */
void client_list_line(struct buffer *out, const struct client *c);
#endif
