/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_HTTP_MESSAGE_HTTP_ORIGIN_H
#define SERVICE_HTTP_MESSAGE_HTTP_ORIGIN_H
/* Whether a browser may have been made to send a request by another site. Pure; see README.md, "Other sites".
 */
#include <stdbool.h>
#include <stddef.h>

enum { CSRF_KEY_SIZE = 32, CSRF_TOKEN_SIZE = 65 /* with a NUL */ };

/* What of a request tells. NULL: the header is not there. */
struct origin_facts {
    const char *host, *origin, *fetch_site, *language;
    const char *token; /* X-CSRF-Token */
    const char *user;
    bool changes; /* its method is not safe */
    bool bearer;  /* who asks has given a token that no browser adds by itself */
    bool login;   /* somebody has to log in here */
};

/* Hosts that a name in the DNS of strangers cannot be: addresses, names of one label, names under those that
 * are reserved for networks of one's own, @own, and those of the list @more ("a.example, b.example"). */
bool origin_host_is_ours(const char *host, const char *own, const char *more);

/* NULL: the request may be served. Else why not, and *@status: 403, or 421 for a wrong Host. */
const char *origin_fault(const struct origin_facts *f, const unsigned char key[CSRF_KEY_SIZE],
                         const char *own, const char *more, int *status);

/* What a page must show to change something on behalf of @user: hexadecimal. False: no memory. */
bool origin_token(const unsigned char key[CSRF_KEY_SIZE], const char *user, char out[CSRF_TOKEN_SIZE]);
#endif
