/* SPDX-License-Identifier: MIT */
#include "service/http/message/http_origin.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include "service/config/users.h"
#include "service/http/message/http_parse.h"

enum { HOST_MAX = 255 };

/* --- hosts --- */

/* Take the name from "name:port" or "[address]:port", without a final dot. False: @host has no valid name. */
static bool host_name(const char *host, char out[HOST_MAX + 1])
{
    const char *from = *host == '[' ? host + 1 : host;
    size_t length = *host == '[' ? strcspn(from, "]") : strcspn(from, ":");
    if (length == 0 || length > HOST_MAX || (*host == '[' && from[length] != ']'))
        return false;
    memcpy(out, from, length);
    out[length] = '\0';
    if (out[length - 1] == '.')
        out[length - 1] = '\0';
    return true;
}

static bool is_address(const char *name)
{
    unsigned char address[16];
    return inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
}

static bool ends_in(const char *name, const char *suffix)
{
    size_t length = strlen(name), end = strlen(suffix);
    return length > end && strcasecmp(name + length - end, suffix) == 0;
}

bool origin_host_is_ours(const char *host, const char *own, const char *more)
{
    static const char *const reserved[] = {".localhost", ".local", ".internal",
                                           ".home.arpa", ".test",  ".lan"};
    char name[HOST_MAX + 1];
    if (!host_name(host, name))
        return false;
    bool ours = strchr(name, '.') == NULL || is_address(name) || strcasecmp(name, own) == 0 ||
                http_list_has(more, name);
    for (size_t i = 0; !ours && i < sizeof(reserved) / sizeof(reserved[0]); i++)
        ours = ends_in(name, reserved[i]);
    return ours;
}

/* True if @origin, "scheme://host[:port]", has the same host and port as @host. The scheme is not compared,
 * because a proxy may have ended TLS. For the same reason its default port may be missing in either. */
static bool is_same(const char *origin, const char *host)
{
    const char *behind = strstr(origin, "://");
    return behind != NULL && host != NULL && strcasecmp(behind + 3, host) == 0;
}

/* --- tokens --- */

bool origin_token(const unsigned char key[CSRF_KEY_SIZE], const char *user, char out[CSRF_TOKEN_SIZE])
{
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    if (HMAC(EVP_sha256(), key, CSRF_KEY_SIZE, (const unsigned char *)user, strlen(user), mac, &length) ==
        NULL)
        return false;
    for (unsigned i = 0; i < (CSRF_TOKEN_SIZE - 1) / 2; i++)
        (void)snprintf(out + (size_t)i * 2, 3, "%02x", mac[i]);
    return true;
}

/* --- requests --- */

const char *origin_fault(const struct origin_facts *f, const unsigned char key[CSRF_KEY_SIZE],
                         const char *own, const char *more, int *status)
{
    /* A browser sends one of these with every request that changes something. */
    bool page = f->origin != NULL || f->fetch_site != NULL;
    bool browser = page || f->language != NULL;
    *status = 421;
    if (!f->login && browser && (f->host == NULL || !origin_host_is_ours(f->host, own, more)))
        return "no login is needed here, so a browser must use a host name that no stranger can make point "
               "here; name "
               "the host in [service] http_hosts, use its address, or set a password";
    *status = 403;
    if (!f->changes)
        return NULL;
    if (f->fetch_site != NULL && strcasecmp(f->fetch_site, "same-origin") != 0 &&
        strcasecmp(f->fetch_site, "none") != 0)
        return "a page of another site may not send this request";
    if (f->origin != NULL && !is_same(f->origin, f->host))
        return "Origin and Host differ: a page of another site may not send this request";
    char wanted[CSRF_TOKEN_SIZE];
    if (page && !f->bearer &&
        (f->token == NULL || !origin_token(key, f->user, wanted) ||
         !users_same(f->token, strlen(f->token), wanted, strlen(wanted))))
        return "a page must send the csrf_token of /v1/session in the header X-CSRF-Token";
    return NULL;
}
