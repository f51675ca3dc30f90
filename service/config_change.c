/* SPDX-License-Identifier: MIT */
#include "service/config_change.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "service/config_keys.h"

/* --- names --- */

/* The one key of a global section with this name, in any case. NULL: none has it, or several do. */
static const struct config_key *find_bare(const char *name)
{
    const struct config_key *found = NULL;
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *k = &config_keys[i];
        if (k->section == CONFIG_FILTER || strcasecmp(k->name, name) != 0)
            continue;
        if (found != NULL)
            return NULL;
        found = k;
    }
    return found;
}

static void put_name(struct buffer *out, const struct config_key *k, const struct config_filter *f)
{
    buffer_printf(out, "%s.", config_section_name(k->section));
    if (f != NULL)
        buffer_printf(out, "%s.", f->name);
    buffer_puts(out, k->name);
}

/* What a name stands for: the key (NULL: nothing), and the number of its filter in the configuration. */
struct target {
    const struct config_key *key;
    size_t filter;
};

static const struct config_key *find_in(enum config_section section, const char *name)
{
    for (size_t i = 0; i < config_key_count; i++)
        if (config_keys[i].section == section && strcasecmp(config_keys[i].name, name) == 0)
            return &config_keys[i];
    return NULL;
}

static struct target find_of_filter(const struct config *c, const char *name)
{
    const char *dot = strrchr(name, '.');
    const struct config_filter *f = dot != NULL ? config_find(c, name, (size_t)(dot - name)) : NULL;
    if (f == NULL)
        return (struct target){0};
    return (struct target){.key = find_in(CONFIG_FILTER, dot + 1), .filter = (size_t)(f - c->filter)};
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
    if (section == CONFIG_FILTER)
        return find_of_filter(c, dot + 1);
    return (struct target){.key = section < CONFIG_SECTIONS ? find_in(section, dot + 1) : NULL};
}

/* --- differences --- */

static void put_comma(struct buffer *out)
{
    if (out->length > 0)
        buffer_puts(out, ", ");
}

static void compare_section(enum config_section section, const void *old, const void *new,
                            const struct config_filter *f, bool reloadable, struct buffer *out)
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
            put_name(out, k, f);
        buffer_puts(out, "'");
    }
}

static const struct config_filter *same_filter(const struct config *c, const struct config_filter *f)
{
    return config_find(c, f->name, strlen(f->name));
}

void config_differences(const struct config *old, const struct config *new, bool reloadable,
                        struct buffer *out)
{
    for (enum config_section s = CONFIG_SERVICE; s < CONFIG_FILTER; s++)
        compare_section(s, old, new, NULL, reloadable, out);
    for (size_t i = 0; i < old->filter_count; i++) {
        const struct config_filter *f = &old->filter[i], *g = same_filter(new, f);
        if (g != NULL) {
            compare_section(CONFIG_FILTER, f, g, g, reloadable, out);
        } else if (reloadable) {
            put_comma(out);
            buffer_printf(out, "[filter %s] removed", f->name);
        }
    }
    for (size_t i = 0; reloadable && i < new->filter_count; i++)
        if (same_filter(old, &new->filter[i]) == NULL) {
            put_comma(out);
            buffer_printf(out, "[filter %s] added", new->filter[i].name);
        }
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
    char *text = malloc(length + 1);
    if (text == NULL) {
        (void)error_set(e, ERR_NOMEM, "no memory");
        return NULL;
    }
    if (length > 0)
        memcpy(text, bytes, length);
    text[length] = '\0';
    return text;
}

static enum err assign(struct config *c, const struct target *to, const struct config_assignment *a,
                       struct error *e)
{
    char *value = plain_text(a->value, a->value_length, e);
    if (value == NULL)
        return ERR_CONFIG;
    void *base = to->key->section == CONFIG_FILTER ? (void *)&c->filter[to->filter] : (void *)c;
    enum err err = config_key_set(to->key, base, value, e);
    free(value);
    return err;
}

/* ERR_OK, or what is wrong with the last of @count targets. */
static enum err judge(const struct target *targets, size_t count, const char **why)
{
    const struct target *last = &targets[count - 1];
    *why = "no such key; CONFIG GET * lists them";
    if (last->key == NULL)
        return ERR_NOT_FOUND;
    *why = "can't set immutable config";
    if ((last->key->flags & CONFIG_RELOADABLE) == 0)
        return ERR_CONFLICT;
    *why = "duplicate parameter";
    for (const struct target *t = targets; t < last; t++)
        if (t->key == last->key && t->filter == last->filter)
            return ERR_CONFIG;
    return ERR_OK;
}

/* Find what each assignment names; each key may be named once. */
static enum err resolve(const struct config *c, const struct config_assignment *list, size_t count,
                        struct target *targets, size_t *blamed, struct error *e)
{
    for (size_t i = 0; i < count; i++) {
        const char *why;
        char *name = plain_text(list[i].name, list[i].name_length, e);
        targets[i] = name != NULL ? find_target(c, name) : (struct target){0};
        free(name);
        *blamed = i;
        enum err err = judge(targets, i + 1, &why);
        if (err != ERR_OK) {
            (void)error_set(e, err, "%s", why);
            return err;
        }
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
        err = config_validate(c, e);
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

static void each_of(enum config_section section, const void *base, const struct config_filter *f,
                    config_value_fn *fn, void *arg)
{
    struct buffer name = {0}, value = {0};
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *k = &config_keys[i];
        if (k->section != section)
            continue;
        buffer_clear(&name);
        buffer_clear(&value);
        put_name(&name, k, f);
        config_key_format(k, base, &value);
        fn(arg, buffer_text(&name), find_bare(k->name) == k ? k->name : "", buffer_text(&value));
    }
    buffer_fini(&name);
    buffer_fini(&value);
}

void config_each(const struct config *c, config_value_fn *fn, void *arg)
{
    for (enum config_section s = CONFIG_SERVICE; s < CONFIG_FILTER; s++)
        each_of(s, c, NULL, fn, arg);
    for (size_t i = 0; i < c->filter_count; i++)
        each_of(CONFIG_FILTER, &c->filter[i], &c->filter[i], fn, arg);
}
