/* SPDX-License-Identifier: MIT */
#include "service/config/config_keys.h"

#include <string.h>

#include "base/glob.h"
#include "service/config/config.h"
#include "shard/filter/geometry.h"

#define TEXT(literal) TEXT_OF(literal)
#define TEXT_OF(literal) #literal
#define HOURS(n) ((n)*3600.0 * 1000)

/* The number in the file's default is written out; this keeps it what shard/filter/geometry.h says. */
#define SHARD_BYTES_TEXT 1048512
_Static_assert(SHARD_BYTES_TEXT == SHARD_BYTES_DEFAULT, "the default of shard_bytes");

#define RELOAD CONFIG_RELOADABLE
#define FILE_ONLY (CONFIG_RELOADABLE | CONFIG_FILE_ONLY)
#define ROW(of, section, name, type, member, standard, min, max, flags, help)                                \
    {section, type, name, offsetof(struct of, member), standard, min, max, help, flags},

const struct config_key config_keys[] = {
#define ROW_OF_SERVICE(...) ROW(config, __VA_ARGS__)
#define ROW_OF_FILTER(...) ROW(config_filter, __VA_ARGS__)
#define ROW_OF_USER(...) ROW(config_user, __VA_ARGS__)
#include "service/config/config_table.h"
};

const size_t config_key_count = sizeof(config_keys) / sizeof(config_keys[0]);

const char *config_section_name(enum config_section section)
{
    static const char *const names[CONFIG_SECTIONS] = {
        [CONFIG_SERVICE] = "service",   [CONFIG_REDIS] = "redis",   [CONFIG_POSTGRES] = "postgres",
        [CONFIG_EXPANSION] = "rebuild", [CONFIG_FILTER] = "filter", [CONFIG_USER] = "user",
    };
    return names[section];
}

const struct config_key *config_key_find(enum config_section section, const char *name)
{
    for (size_t i = 0; i < config_key_count; i++)
        if (config_keys[i].section == section && strcmp(config_keys[i].name, name) == 0)
            return &config_keys[i];
    return NULL;
}

const struct config_key *config_key_nearest(enum config_section section, const char *name)
{
    const struct config_key *nearest = NULL;
    size_t best = strlen(name) / 3 + 2; /* a typo or two; more letters allow more of them */
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *k = &config_keys[i];
        size_t distance = glob_distance(name, k->name);
        if (k->section != section && distance > 0)
            continue;
        if (distance < best) {
            best = distance;
            nearest = k;
        }
    }
    return nearest;
}
