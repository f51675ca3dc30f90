/* SPDX-License-Identifier: MIT */
#include "migrate/source/dsn.h"

#include <libpq-fe.h>
#include <string.h>

static const char *value_of(const PQconninfoOption *options, const char *keyword)
{
    for (const PQconninfoOption *o = options; o != NULL && o->keyword != NULL; o++)
        if (strcmp(o->keyword, keyword) == 0)
            return o->val == NULL ? "" : o->val;
    return "";
}

static const char *either(const char *first, const char *second)
{
    return first[0] != '\0' ? first : second;
}

/* True if the host, one of a comma-separated list, is this machine. */
static bool is_here(const char *host, size_t length)
{
    static const char *const here[] = {"localhost", "::1"};
    for (size_t i = 0; i < sizeof(here) / sizeof(here[0]); i++)
        if (strlen(here[i]) == length && memcmp(here[i], host, length) == 0)
            return true;
    bool is_loopback = length > 4 && memcmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") >= length;
    return length == 0 || host[0] == '/' || host[0] == '@' || is_loopback;
}

static bool all_are_here(const char *hosts)
{
    for (const char *at = hosts;; at++) {
        size_t length = strcspn(at, ",");
        if (!is_here(at, length))
            return false;
        at += length;
        if (*at == '\0')
            return true;
    }
}

bool dsn_is_verified(const char *dsn)
{
    PQconninfoOption *own = PQconninfoParse(dsn, NULL);
    PQconninfoOption *defaults = PQconndefaults();
    const char *address = either(value_of(own, "hostaddr"), value_of(defaults, "hostaddr"));
    const char *host = either(value_of(own, "host"), value_of(defaults, "host"));
    const char *mode = either(value_of(own, "sslmode"), value_of(defaults, "sslmode"));
    bool verified = own == NULL || strcmp(mode, "verify-full") == 0 || all_are_here(either(address, host));
    PQconninfoFree(own);
    PQconninfoFree(defaults);
    return verified;
}
