/* SPDX-License-Identifier: MIT */
/* Sections of which there may be several, each with a name. */
#include <string.h>

#include "service/config/config.h"
#include "service/config/config_keys.h"

_Static_assert(offsetof(struct config_filter, name) == offsetof(struct config_item, name),
               "a filter is an item");
_Static_assert(offsetof(struct config_filter, line) == offsetof(struct config_item, line),
               "a filter is an item");
_Static_assert(offsetof(struct config_user, name) == offsetof(struct config_item, name), "a user is an item");
_Static_assert(offsetof(struct config_user, line) == offsetof(struct config_item, line), "a user is an item");

static const struct {
    size_t list, count, size, most;
} lists[CONFIG_SECTIONS] = {
    [CONFIG_FILTER] = {offsetof(struct config, filter), offsetof(struct config, filter_count),
                       sizeof(struct config_filter), CONFIG_FILTERS_MAX},
    [CONFIG_USER] = {offsetof(struct config, user), offsetof(struct config, user_count),
                     sizeof(struct config_user), CONFIG_USERS_MAX},
};

bool config_section_is_named(enum config_section section)
{
    return section >= CONFIG_FILTER && section < CONFIG_SECTIONS;
}

static size_t *count_of(const struct config *c, enum config_section section)
{
    return (size_t *)((char *)(uintptr_t)c + lists[section].count);
}

size_t config_item_count(const struct config *c, enum config_section section)
{
    return config_section_is_named(section) ? *count_of(c, section) : 0;
}

struct config_item *config_item(const struct config *c, enum config_section section, size_t number)
{
    if (number >= config_item_count(c, section))
        return NULL;
    return (void *)((char *)(uintptr_t)c + lists[section].list + number * lists[section].size);
}

struct config_item *config_item_find(const struct config *c, enum config_section section, const char *name,
                                     size_t length)
{
    for (size_t i = 0; i < config_item_count(c, section); i++) {
        struct config_item *item = config_item(c, section, i);
        if (strlen(item->name) == length && memcmp(item->name, name, length) == 0)
            return item;
    }
    return NULL;
}

struct config_item *config_item_add(struct config *c, enum config_section section)
{
    if (config_item_count(c, section) == lists[section].most)
        return NULL;
    (*count_of(c, section))++;
    return config_item(c, section, config_item_count(c, section) - 1);
}
