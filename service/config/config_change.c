/* SPDX-License-Identifier: MIT */
#include "service/config/config_change.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "service/config/config_check.h"
#include "service/config/config_keys.h"

/* --- names --- */

/* The one key of a global section with this name, in any case. NULL: none has it, or several do. */
static const struct config_key *find_bare(const char *name)
{
    const struct config_key *found = NULL;
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *k = &config_keys[i];
        if (config_section_is_named(k->section) || strcasecmp(k->name, name) != 0)
            continue;
        if (found != NULL)
            return NULL;
        found = k;
    }
    return found;
}

/* @item: of a named section, else NULL. */
static void put_name(struct buffer *out, const struct config_key *k, const struct config_item *item)
{
    buffer_printf(out, "%s.", config_section_name(k->section));
    if (item != NULL)
        buffer_printf(out, "%s.", item->name);
    buffer_puts(out, k->name);
}

/* What a name stands for: the key (NULL: nothing), and the number of its filter or user in the configuration.
 */
struct target {
    const struct config_key *key;
    size_t item;
};

static const struct config_key *find_in(enum config_section section, const char *name)
{
    for (size_t i = 0; i < config_key_count; i++)
        if (config_keys[i].section == section && strcasecmp(config_keys[i].name, name) == 0)
            return &config_keys[i];
    return NULL;
}

static struct target find_of_item(const struct config *c, enum config_section section, const char *name)
{
    const char *dot = strrchr(name, '.');
    size_t length = dot != NULL ? (size_t)(dot - name) : 0;
    for (size_t i = 0; dot != NULL && i < config_item_count(c, section); i++)
        if (config_item(c, section, i) == config_item_find(c, section, name, length))
            return (struct target){.key = find_in(section, dot + 1), .item = i};
    return (struct target){0};
}

static struct target find_target(const struct config *c, const char *name)
{
    const char *dot = strchr(name, '.');
    if (dot == NULL)
        return (struct target){.key = find_bare(name)};
    enum config_section section = 0;
    size_t length = (size_t)(dot - name);
    while (section < CONFIG_SECTIONS && (strlen(config_section_name(section)) != length ||
                                         strncasecmp(config_section_name(section), name, length) != 0))
        section++;
    if (section < CONFIG_SECTIONS && config_section_is_named(section))
        return find_of_item(c, section, dot + 1);
    return (struct target){.key = section < CONFIG_SECTIONS ? find_in(section, dot + 1) : NULL};
}

/* --- differences --- */

static void put_comma(struct buffer *out)
{
    if (out->length > 0)
        buffer_puts(out, ", ");
}

static void compare_section(enum config_section section, const void *old, const void *new,
                            const struct config_item *item, bool reloadable, struct buffer *out)
{
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *k = &config_keys[i];
        if (k->section != section || ((k->flags & CONFIG_RELOADABLE) != 0) != reloadable ||
            config_key_equal(k, old, new))
            continue;
        put_comma(out);
        buffer_puts(out, "'");
        if (find_bare(k->name) == k)
            buffer_puts(out, k->name);
        else
            put_name(out, k, item);
        buffer_puts(out, "'");
    }
}

static const struct config_item *same_item(const struct config *c, enum config_section section,
                                           const struct config_item *item)
{
    return config_item_find(c, section, item->name, strlen(item->name));
}

static void compare_items(enum config_section section, const struct config *old, const struct config *new,
                          bool reloadable, struct buffer *out)
{
    for (size_t i = 0; i < config_item_count(old, section); i++) {
        const struct config_item *was = config_item(old, section, i), *is = same_item(new, section, was);
        if (is != NULL) {
            compare_section(section, was, is, is, reloadable, out);
        } else if (reloadable) {
            put_comma(out);
            buffer_printf(out, "[%s %s] removed", config_section_name(section), was->name);
        }
    }
    for (size_t i = 0; reloadable && i < config_item_count(new, section); i++) {
        const struct config_item *is = config_item(new, section, i);
        if (same_item(old, section, is) == NULL) {
            put_comma(out);
            buffer_printf(out, "[%s %s] added", config_section_name(section), is->name);
        }
    }
}

void config_differences(const struct config *old, const struct config *new, bool reloadable,
                        struct buffer *out)
{
    for (enum config_section s = CONFIG_SERVICE; s < CONFIG_FILTER; s++)
        compare_section(s, old, new, NULL, reloadable, out);
    for (enum config_section s = CONFIG_FILTER; s < CONFIG_SECTIONS; s++)
        compare_items(s, old, new, reloadable, out);
}

/* --- assignments --- */

/* NUL-terminated, and nothing in it that a line of the file could not hold. NULL: there is, or no memory. */
static char *plain_text(const char *bytes, size_t length, struct error *e)
{
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)bytes[i] < 0x20 && bytes[i] != '\t') {
            (void)error_set(e, ERR_CONFIG, "it holds a control character; remove it");
            return NULL;
        }
    char *text = buffer_copy(bytes, length);
    if (text == NULL)
        (void)error_set(e, ERR_NOMEM, "no memory");
    return text;
}

static enum err assign(struct config *c, const struct target *to, const struct config_assignment *a,
                       struct error *e)
{
    assert(to->key != NULL); /* resolve() found it */
    if ((to->key->flags & CONFIG_FILE_ONLY) != 0)
        return error_set(e, ERR_REFUSED,
                         "it can be changed in the configuration file only; change it there and send SIGHUP");
    char *value = plain_text(a->value, a->value_length, e);
    if (value == NULL)
        return ERR_CONFIG;
    enum config_section section = to->key->section;
    void *base = config_section_is_named(section) ? (void *)config_item(c, section, to->item) : c;
    enum err err = config_key_set(to->key, base, value, e);
    free(value);
    return err;
}

/* ERR_OK, or what is wrong with the last of @count targets, which is named @name. */
static enum err judge(const struct target *targets, size_t count, const char *name, struct error *e)
{
    const struct target *last = &targets[count - 1];
    for (enum config_section s = 0; last->key == NULL && s < CONFIG_SECTIONS; s++)
        if (!config_section_is_named(s) && find_in(s, name) != NULL)
            return error_set(e, ERR_CONFIG, "several sections have this key; for that of [%s] write %s.%s",
                             config_section_name(s), config_section_name(s), find_in(s, name)->name);
    if (last->key == NULL)
        return error_set(e, ERR_NOT_FOUND, "no such key; CONFIG GET * lists them");
    if ((last->key->flags & CONFIG_RELOADABLE) == 0)
        return error_set(e, ERR_CONFLICT, "can't set immutable config");
    for (const struct target *t = targets; t < last; t++)
        if (t->key == last->key && t->item == last->item)
            return error_set(e, ERR_CONFIG, "duplicate parameter");
    return ERR_OK;
}

/* Find what each assignment names; each key may be named once. */
static enum err resolve(const struct config *c, const struct config_assignment *list, size_t count,
                        struct target *targets, size_t *blamed, struct error *e)
{
    for (size_t i = 0; i < count; i++) {
        char *name = plain_text(list[i].name, list[i].name_length, e);
        targets[i] = name != NULL ? find_target(c, name) : (struct target){0};
        *blamed = i;
        enum err err = judge(targets, i + 1, name != NULL ? name : "", e);
        free(name);
        if (err != ERR_OK)
            return err;
    }
    return ERR_OK;
}

enum err config_assign(struct config **out, const struct config *from, const struct config_assignment *list,
                       size_t count, size_t *blamed, struct error *e)
{
    struct config *c = NULL;
    *blamed = 0;
    struct target *targets = calloc(count, sizeof(*targets));
    if (targets == NULL)
        return error_set(e, ERR_NOMEM, "no memory");
    enum err err = resolve(from, list, count, targets, blamed, e);
    if (err == ERR_OK && (c = config_copy(from)) == NULL)
        err = error_set(e, ERR_NOMEM, "no memory");
    for (size_t i = 0; i < count && err == ERR_OK; i++) {
        *blamed = i;
        err = assign(c, &targets[i], &list[i], e);
    }
    if (err == ERR_OK) {
        *blamed = 0;
        err = config_check_whole(&(struct config_check){.config = c, .error = e});
    }
    free(targets);
    if (err != ERR_OK) {
        config_free(c);
        return err;
    }
    *out = c;
    return ERR_OK;
}

/* --- listing --- */

static void each_of(enum config_section section, const void *base, const struct config_item *item,
                    config_value_fn *fn, void *arg)
{
    SCOPED(buffer_fini) struct buffer name = {0}, value = {0};
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *k = &config_keys[i];
        if (k->section != section)
            continue;
        buffer_clear(&name);
        buffer_clear(&value);
        put_name(&name, k, item);
        config_key_format(k, base, &value);
        fn(arg, buffer_text(&name), find_bare(k->name) == k ? k->name : "", buffer_text(&value));
    }
}

void config_each(const struct config *c, config_value_fn *fn, void *arg)
{
    for (enum config_section s = CONFIG_SERVICE; s < CONFIG_FILTER; s++)
        each_of(s, c, NULL, fn, arg);
    for (enum config_section s = CONFIG_FILTER; s < CONFIG_SECTIONS; s++)
        for (size_t i = 0; i < config_item_count(c, s); i++)
            each_of(s, config_item(c, s, i), config_item(c, s, i), fn, arg);
}
