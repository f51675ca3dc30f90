/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CONFIG_CHANGE_H
#define SERVICE_CONFIG_CHANGE_H
/* Changes of a configuration that is in use: what differs, whether that may change while the daemon runs, and
 * copies with some keys set. Keys are named "section.key", "filter.NAME.key" and "user.NAME.key" (what
 * follows the last dot is the key, so NAME may hold dots); the bare key will do where only one section has
 * it. Pure; no I/O. */
#include "base/buffer.h"
#include "service/config/config.h"

/* Append what differs between @old and @new and, as the table of keys says, may change (@reloadable) or not:
 * "'log_level', 'redis.timeout', 'filter.NAME.grace', [filter GONE] removed, [filter NEW] added". */
void config_differences(const struct config *old, const struct config *new, bool reloadable,
                        struct buffer *out);

/* What one wants to set, as a client says it; borrowed. */
struct config_assignment {
    const char *name, *value;
    size_t name_length, value_length;
};

/* Copy @from with all of @list set, checked as a file would be, and own the copy. On error there is none, and
 * *@blamed is the number of the assignment that is at fault (of the first one where the whole does not fit).
 * ERR_NOT_FOUND: no such key. ERR_CONFLICT: it cannot change while the daemon runs. ERR_REFUSED: it is
 * taken from the file alone. ERR_CONFIG: the text says
 * what is wrong. ERR_NOMEM. */
MUST_CHECK enum err config_assign(struct config **out, const struct config *from,
                                  const struct config_assignment *list, size_t count, size_t *blamed,
                                  struct error *e);

/* Every key with its value, secrets masked. @bare: the key without its section where that will do, else "".
 * The texts last for the call. */
typedef void config_value_fn(void *arg, const char *name, const char *bare, const char *value);
void config_each(const struct config *c, config_value_fn *fn, void *arg);
#endif
