/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CONFIG_CHECK_H
#define SERVICE_CONFIG_CHECK_H
/* Checks of a configuration as a whole: what one key says about another. Private to config*.c. */
#include "service/config/config.h"
#include "service/config/config_file.h"

/* A configuration under way, and the file for line numbers (NULL: it does not come from one). */
struct config_check {
    const struct config_file *file;
    const struct config *config;
    struct error *error;
};

/* ERR_CONFIG with a text, at the line of @key (or of its section, where the default applies). @filter: the
 * name of that, or of the user, else NULL. */
enum err config_refuse_key(const struct config_check *c, enum config_section section, const char *filter,
                           const char *key, const char *format, ...) PRINTF_LIKE(5, 6);

/* Read the files that hold passwords and put those where the configuration, which is the one of @c, would
 * have them. ERR_CONFIG, ERR_NOMEM. */
MUST_CHECK enum err config_load_secrets(const struct config_check *c, struct config *config);

/* All of them. */
MUST_CHECK enum err config_check_whole(const struct config_check *c);

/* Listeners, TLS, users: who may connect and log in. */
MUST_CHECK enum err config_check_access(const struct config_check *c);
#endif
