/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CONFIG_USERS_H
#define SERVICE_CONFIG_USERS_H
/* Who is who, and what may they do. Pure; for whatever protocol asks. Users are those of the configuration,
 * and `default`: whom [service] password lets in. Without that password `default` is everybody as long as
 * there are no other users, and nobody as soon as there are. */
#include <stdbool.h>
#include <stddef.h>
#include "base/buffer.h"
#include "service/config/config.h"

#define USERS_DEFAULT "default"
enum { USERS_NAME_MAX = 63, USERS_PASSWORD_MAX = 511 }; /* bytes */

/* What a user may do. A role implies the ones before it: a set of roles holds those too. */
enum role { ROLE_READ = 1, ROLE_WRITE = 2, ROLE_ADMIN = 4, ROLE_ALL = 7 };

/* "read, write", with what they imply. False: something else is in it, or nothing. */
bool roles_parse(const char *text, unsigned *out);
/* Append the highest of them: it stands for all. */
void roles_format(unsigned set, struct buffer *out);

/* Whether whoever connects has to log in. */
bool users_login_required(const struct config *c);

/* The user of that name, if it is one that anybody can be; NULL otherwise. Lives as long as @c. */
const struct config_user *users_find(const struct config *c, const char *name, size_t length);

/* Whom the common name of a verified certificate names: a [user NAME], never `default`, which has all rights
 * and is whom the password lets in. */
const struct config_user *users_by_certificate(const struct config *c, const char *name);

bool user_may(const struct config_user *u, enum role role);
/* Whether one of the user's patterns matches the name of the filter. Case counts. */
bool user_may_filter(const struct config_user *u, const char *filter, size_t length);
/* The same for a list of patterns as `filters` holds it. */
bool users_patterns_match(const char *patterns, const char *filter, size_t length);
/* True where the user's patterns match every name. */
bool user_may_all_filters(const struct config_user *u);

/* NULL: the name can be a user's. Else what is wrong. */
const char *users_name_fault(const char *name);

/* --- secrets; times do not depend on how much of a guess is right --- */

/* What a user's password must be, or hash to; "": none fits. */
const char *users_secret(const struct config *c, const struct config_user *u);
/* True where it is a hash of crypt(3), of a kind that is fit to keep passwords. */
bool users_is_hash(const char *secret);
/* Slow (tens of milliseconds) where the secret is a hash: not for a thread that serves others. @password is
 * NUL-terminated. */
bool users_verify(const char *secret, const char *password);
bool users_same(const char *a, size_t a_length, const char *b, size_t b_length);

/* The user that the bearer token belongs to; NULL: nobody's. Fast. */
const struct config_user *users_by_token(const struct config *c, const char *token, size_t length);
/* NULL: a list of token hashes. Else what is wrong. */
const char *users_token_fault(const char *list);
#endif
