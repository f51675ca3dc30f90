/* SPDX-License-Identifier: MIT */
/* Sections of which there may be several, each with a name. */
#include <string.h>

#include "service/config/config.h"
#include "service/config/config_keys.h"

/* What every item begins with. */
struct item {
    char *name;
    unsigned line;
};
_Static_assert(offsetof(struct config_filter, name) == offsetof(struct item, name), "a filter is an item");
_Static_assert(offsetof(struct config_filter, line) == offsetof(struct item, line), "a filter is an item");
_Static_assert(offsetof(struct config_user, name) == offsetof(struct item, name), "a user is an item");
_Static_assert(offsetof(struct config_user, line) == offsetof(struct item, line), "a user is an item");

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

void *config_item(const struct config *c, enum config_section section, size_t number)
{
    if (number >= config_item_count(c, section))
        return NULL;
    return (char *)(uintptr_t)c + lists[section].list + number * lists[section].size;
}

void *config_item_find(const struct config *c, enum config_section section, const char *name, size_t length)
{
    for (size_t i = 0; i < config_item_count(c, section); i++) {
        void *item = config_item(c, section, i);
        const char *its = config_item_name(item);
        if (strlen(its) == length && memcmp(its, name, length) == 0)
            return item;
    }
    return NULL;
}

const char *config_item_name(const void *item)
{
    return ((const struct item *)item)->name;
}

char **config_item_name_at(void *item)
{
    return &((struct item *)item)->name;
}

unsigned *config_item_line_at(void *item)
{
    return &((struct item *)item)->line;
}

void *config_item_add(struct config *c, enum config_section section)
{
    if (config_item_count(c, section) == lists[section].most)
        return NULL;
    (*count_of(c, section))++;
    return config_item(c, section, config_item_count(c, section) - 1);
}
