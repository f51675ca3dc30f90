/* SPDX-License-Identifier: MIT */
/* Who may ask: [service] password, as HTTP Basic of the user "default" or as a Bearer token. */
#include <string.h>
#include <strings.h>
#include "service/http_base64.h"
#include "service/http_internal.h"

/* Takes as long for a wrong one as for the right one. */
static bool same_secret(const char *want, const char *got, size_t length)
{
    size_t wanted = strlen(want);
    unsigned char differ = wanted != length;
    for (size_t i = 0; i < length; i++)
        differ |= (unsigned char)(got[i] ^ want[wanted == 0 ? 0 : i % wanted]);
    return differ == 0;
}

static bool is_basic(const char *password, const char *token)
{
    static const char user[] = "default:";
    struct buffer pair = {0};
    size_t before = sizeof(user) - 1;
    bool good = http_base64_decode(&pair, token, strlen(token)) && !buffer_failed(&pair) &&
                pair.length >= before && memcmp(pair.data, user, before) == 0 &&
                same_secret(password, pair.data + before, pair.length - before);
    buffer_fini(&pair);
    return good;
}

static bool is_right(const char *password, const char *given)
{
    static const char basic[] = "Basic ", bearer[] = "Bearer ";
    if (given == NULL)
        return false;
    if (strncasecmp(given, basic, sizeof(basic) - 1) == 0)
        return is_basic(password, given + sizeof(basic) - 1);
    if (strncasecmp(given, bearer, sizeof(bearer) - 1) == 0)
        return same_secret(password, given + sizeof(bearer) - 1, strlen(given + sizeof(bearer) - 1));
    return false;
}

bool http_authorise(struct http_request *r, enum http_role role, const char *filter, size_t length)
{
    (void)filter; /* one password opens all */
    (void)length;
    if (role == HTTP_ROLE_NONE)
        return true;
    /* The one in force, as for AUTH: nobody gets in with the old password once CONFIG SET has answered. */
    const struct config *config = live_config_acquire(r->http->service->config);
    const char *given = evhttp_find_header(evhttp_request_get_input_headers(r->req), "Authorization");
    bool welcome = config->password[0] == '\0' || is_right(config->password, given);
    config_release(config);
    if (welcome)
        return true;
    http_header(r, "WWW-Authenticate", "Basic realm=\"twinbloom\", charset=\"UTF-8\"");
    http_header(r, "WWW-Authenticate", "Bearer realm=\"twinbloom\"");
    http_problem(r, 401, "a password is needed: Basic with the user default, or Bearer");
    return false;
}
