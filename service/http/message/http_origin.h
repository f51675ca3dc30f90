/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_HTTP_MESSAGE_HTTP_ORIGIN_H
#define SERVICE_HTTP_MESSAGE_HTTP_ORIGIN_H
/* Detects requests that another site may have made a browser send. Pure; see README.md, "Other sites". */
#include <stdbool.h>

enum { CSRF_KEY_SIZE = 32, CSRF_TOKEN_SIZE = 65 /* with a NUL */ };

/* The facts about a request that decide. NULL: the header is missing. */
struct origin_facts {
    const char *host, *origin, *fetch_site, *language;
    const char *token; /* X-CSRF-Token */
    const char *user;
    bool changes; /* the method may change something */
    bool bearer;  /* the request has a token that no browser adds by itself */
    bool login;   /* a login is required */
};

/* True for hosts that cannot be names in another party's DNS: addresses, names of one label, names under
 * the domains that are reserved for private networks, @own, and those of the list @more ("a.example,
 * b.example"). */
bool origin_host_is_ours(const char *host, const char *own, const char *more);

/* NULL: the request may be served. Otherwise the reason why not, and *@status: 403, or 421 for a wrong
 * Host. */
const char *origin_fault(const struct origin_facts *f, const unsigned char key[CSRF_KEY_SIZE],
                         const char *own, const char *more, int *status);

/* Make the token that a page must send to change something on behalf of @user, in hexadecimal. False: no
 * memory. */
bool origin_token(const unsigned char key[CSRF_KEY_SIZE], const char *user, char out[CSRF_TOKEN_SIZE]);
#endif
