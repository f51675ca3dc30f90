/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_RESP_CLIENT_LIST_H
#define SERVICE_RESP_CLIENT_LIST_H
/* CLIENT LIST and CLIENT KILL: a task goes round the workers, each tells of its own clients or closes some,
 * and comes back to who asked, who waits meanwhile. */
#include "service/resp/client.h"

enum { CLIENT_USER_MAX = 64 };

/* Which clients are meant: all that fit every part that is given. */
struct client_choice {
    uint64_t *ids; /* owned; NULL: any */
    size_t id_count;
    char address[64]; /* "": any */
    char local[64];   /* of our end; "": any */
    char user[CLIENT_USER_MAX];
    uint64_t age_s; /* at least */
    bool nobody;    /* a type that no client here has */
    bool not_self;
};

enum client_list_kind {
    CLIENT_LIST,    /* replies with the lines */
    CLIENT_KILL,    /* closes; replies with how many */
    CLIENT_KILL_ONE /* closes; replies OK, or an error where there was none */
};

/* Takes over what @choice owns. The reply comes when all workers have been asked. */
void client_list_start(struct client *c, enum client_list_kind kind, const struct client_choice *choice);

/* One line in the form of Redis. In the thread of @c. */
void client_list_line(struct buffer *out, const struct client *c);
#endif
