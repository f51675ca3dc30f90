/* SPDX-License-Identifier: MIT */
#include "service/config/users.h"

#include <crypt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "base/glob.h"

#define TOKEN_KIND "sha256:"
enum { HASH_LENGTH_MIN = 40, TOKEN_LENGTH = sizeof(TOKEN_KIND) - 1 + 2 * SHA256_DIGEST_LENGTH };

/* --- roles --- */

static const struct {
    const char *name;
    unsigned roles; /* with those that it implies */
} roles[] = {
    {"read", ROLE_READ}, {"write", ROLE_READ | ROLE_WRITE}, {"admin", ROLE_READ | ROLE_WRITE | ROLE_ADMIN}};
enum { ROLES = sizeof(roles) / sizeof(roles[0]) };

bool roles_parse(const char *text, unsigned *out)
{
    const char *item;
    size_t length;
    *out = 0;
    while (config_next_item(&text, &item, &length)) {
        size_t i = 0;
        while (i < ROLES && (strlen(roles[i].name) != length || memcmp(roles[i].name, item, length) != 0))
            i++;
        if (i == ROLES)
            return false;
        *out |= roles[i].roles;
    }
    return true;
}

void roles_format(unsigned set, struct buffer *out)
{
    for (size_t i = ROLES; i-- > 0;)
        if ((set & roles[i].roles) == roles[i].roles) {
            buffer_puts(out, roles[i].name);
            return;
        }
}

/* --- users --- */

static char default_name[] = USERS_DEFAULT, all_filters[] = "*", no_token[] = "";
static const struct config_user everybody = {.name = default_name,
                                             .enabled = true,
                                             .roles = ROLE_ALL,
                                             .password = no_token,
                                             .token = no_token,
                                             .filters = all_filters};

static bool is_default(const char *name, size_t length)
{
    return length == sizeof(USERS_DEFAULT) - 1 && memcmp(name, USERS_DEFAULT, length) == 0;
}

bool users_login_required(const struct config *c)
{
    return c->password[0] != '\0' || c->user_count > 0;
}

const struct config_user *users_find(const struct config *c, const char *name, size_t length)
{
    if (is_default(name, length))
        return c->password[0] != '\0' || c->user_count == 0 ? &everybody : NULL;
    for (size_t i = 0; i < c->user_count; i++) {
        const struct config_user *u = &c->user[i];
        if (strlen(u->name) == length && memcmp(u->name, name, length) == 0)
            return u->enabled ? u : NULL;
    }
    return NULL;
}

const struct config_user *users_by_certificate(const struct config *c, const char *name)
{
    return is_default(name, strlen(name)) ? NULL : users_find(c, name, strlen(name));
}

bool user_may(const struct config_user *u, enum role role)
{
    return (u->roles & (unsigned)role) == (unsigned)role;
}

bool users_patterns_match(const char *patterns, const char *filter, size_t length)
{
    const char *item;
    size_t item_length;
    while (config_next_item(&patterns, &item, &item_length))
        if (item_length > 0 && glob_match_case(item, item_length, filter, length))
            return true;
    return false;
}

bool user_may_all_filters(const struct config_user *u)
{
    return u->filters[0] == '*' && u->filters[1] == '\0';
}

bool user_may_filter(const struct config_user *u, const char *filter, size_t length)
{
    return user_may_all_filters(u) || users_patterns_match(u->filters, filter, length);
}

const char *users_name_fault(const char *name)
{
    if (is_default(name, strlen(name)))
        return "the user default is the one of 'password' in [service]; set that, or choose another name";
    if (strlen(name) > USERS_NAME_MAX)
        return "the name of a user has at most 63 bytes; choose a shorter one";
    for (const char *p = name; *p != '\0'; p++)
        if (*p <= ' ' || *p > '~' || *p == ':')
            return "the name of a user is of printable ASCII without blanks and ':'; choose another one";
    return NULL;
}

/* --- secrets --- */

const char *users_secret(const struct config *c, const struct config_user *u)
{
    return u == &everybody ? c->password : u->password;
}

bool users_is_hash(const char *secret)
{
    static const char *const kinds[] = {"$y$", "$gy$", "$7$", "$2b$", "$2y$", "$6$", "$5$"};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strncmp(secret, kinds[i], strlen(kinds[i])) == 0)
            return strlen(secret) >= HASH_LENGTH_MIN && crypt_checksalt(secret) == CRYPT_SALT_OK;
    return false;
}

bool users_same(const char *a, size_t a_length, const char *b, size_t b_length)
{
    unsigned char x[SHA256_DIGEST_LENGTH], y[SHA256_DIGEST_LENGTH];
    (void)SHA256((const unsigned char *)a, a_length, x);
    (void)SHA256((const unsigned char *)b, b_length, y);
    return CRYPTO_memcmp(x, y, sizeof(x)) == 0 && a_length == b_length;
}

bool users_verify(const char *secret, const char *password)
{
    if (!users_is_hash(secret))
        return secret[0] != '\0' && users_same(secret, strlen(secret), password, strlen(password));
    struct crypt_data *data = calloc(1, sizeof(*data)); /* 32 KiB */
    if (data == NULL)
        return false;
    const char *made = crypt_r(password, secret, data);
    bool same = made != NULL && made[0] != '*' && users_same(secret, strlen(secret), made, strlen(made));
    OPENSSL_cleanse(data, sizeof(*data));
    free(data);
    return same;
}

/* "sha256:<64 hexadecimal digits>". */
static bool is_token(const char *item, size_t length)
{
    size_t kind = sizeof(TOKEN_KIND) - 1;
    return length == TOKEN_LENGTH && memcmp(item, TOKEN_KIND, kind) == 0 &&
           strspn(item + kind, "0123456789abcdef") >= length - kind;
}

const char *users_token_fault(const char *list)
{
    const char *item;
    size_t length;
    while (config_next_item(&list, &item, &length))
        if (!is_token(item, length))
            return "'token' must be sha256: and 64 hexadecimal digits, several with commas; make a token and "
                   "its hash by: twinbloom hash-password --token";
    return NULL;
}

const struct config_user *users_by_token(const struct config *c, const char *token, size_t length)
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    char wanted[TOKEN_LENGTH + 1] = TOKEN_KIND;
    const struct config_user *found = NULL;
    (void)SHA256((const unsigned char *)token, length, digest);
    for (size_t i = 0; i < sizeof(digest); i++)
        (void)sprintf(wanted + sizeof(TOKEN_KIND) - 1 + 2 * i, "%02x", digest[i]);
    for (size_t i = 0; i < c->user_count; i++) {
        const struct config_user *u = &c->user[i];
        const char *list = u->token[0] != '\0' ? u->token : NULL, *item;
        while (config_next_item(&list, &item, &length))
            if (is_token(item, length) && CRYPTO_memcmp(item, wanted, TOKEN_LENGTH) == 0 && u->enabled)
                found = u;
    }
    return found;
}
