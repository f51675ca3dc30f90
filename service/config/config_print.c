/* SPDX-License-Identifier: MIT */
#include "service/config/config.h"

#include <ctype.h>
#include <string.h>

#include "service/config/config_keys.h"

/* The value of "password = ..." in a connection string; in a URL's query it ends at '&'. */
static const char *skip_password(const char *at, bool url)
{
    if (*at == '\'' && !url) {
        for (at++; *at != '\0' && *at != '\''; at++)
            if (*at == '\\' && at[1] != '\0')
                at++;
        return *at == '\'' ? at + 1 : at;
    }
    while (*at != '\0' && (url ? *at != '&' : !isspace((unsigned char)*at))) {
        if (*at == '\\' && at[1] != '\0' && !url)
            at++;
        at++;
    }
    return at;
}

static void mask_parameters(struct buffer *out, const char *text)
{
    bool url = strstr(text, "://") != NULL;
    for (;;) {
        const char *word = strcasestr(text, "password");
        if (word == NULL)
            break;
        const char *after = word + strlen("password");
        const char *value = after + strspn(after, " \t");
        if (*value == '=') {
            value++;
            value += strspn(value, " \t");
            const char *end = skip_password(value, url);
            buffer_append(out, text, (size_t)(value - text));
            buffer_puts(out, end > value ? CONFIG_MASK : "");
            text = end;
        } else {
            buffer_append(out, text, (size_t)(after - text));
            text = after;
        }
    }
    buffer_puts(out, text);
}

/* "://user:PASSWORD@": from the first ':' to the last '@' before the next URL, as a password may hold an '@'.
 */
static void mask_urls(struct buffer *out, const char *text)
{
    for (;;) {
        const char *scheme = strstr(text, "://");
        if (scheme == NULL)
            break;
        const char *user = scheme + 3;
        const char *next = strstr(user, "://");
        size_t length = next != NULL ? (size_t)(next - user) : strlen(user);
        const char *at = memrchr(user, '@', length);
        const char *colon = at != NULL ? memchr(user, ':', (size_t)(at - user)) : NULL;
        if (colon != NULL && colon + 1 < at) {
            buffer_append(out, text, (size_t)(colon + 1 - text));
            buffer_puts(out, CONFIG_MASK);
            text = at;
        } else {
            buffer_append(out, text, (size_t)(user - text));
            text = user;
        }
    }
    buffer_puts(out, text);
}

void config_mask(struct buffer *out, const char *text)
{
    SCOPED(buffer_fini) struct buffer half = {0};
    mask_parameters(&half, text);
    mask_urls(out, buffer_text(&half));
}

/* Broken at blanks, so that a line has at most 120 columns. */
static void print_comment(FILE *to, const char *text)
{
    enum { ROOM = 118 };
    for (size_t n; *text != '\0'; text += n + (text[n] == ' ')) {
        n = strlen(text);
        if (n > ROOM)
            for (n = ROOM; n > 1 && text[n] != ' ';)
                n--;
        (void)fprintf(to, "# %.*s\n", (int)n, text);
    }
}

static void print_help(FILE *to, const struct config_key *k)
{
    SCOPED(buffer_fini) struct buffer bounds = {0}, text = {0};
    config_key_bounds(k, &bounds);
    buffer_puts(&text, k->help);
    if (*k->standard != '\0')
        buffer_printf(&text, " Default: %s.", k->standard);
    if (bounds.length > 0)
        buffer_printf(&text, " Bounds: %s.", buffer_text(&bounds));
    if ((k->flags & CONFIG_RELOADABLE) == 0)
        buffer_puts(&text, " A change needs a restart.");
    else if ((k->flags & CONFIG_FILE_ONLY) != 0)
        buffer_puts(&text, " Not by CONFIG SET.");
    print_comment(to, buffer_text(&text));
}

/* @base NULL: a template. Without any filter or user the reference would lack these keys. */
static void print_section(FILE *to, enum config_section section, const void *base)
{
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *k = &config_keys[i];
        SCOPED(buffer_fini) struct buffer value = {0};
        if (k->section != section)
            continue;
        print_help(to, k);
        if (base != NULL) {
            config_key_format(k, base, &value);
            const char *text = buffer_text(&value);
            const char *blank =
                *text == '#' || *text == ';' ? "" : " "; /* behind one it would be a comment */
            (void)fprintf(to, "%s%s=%s%s\n", k->name, blank, *text != '\0' ? blank : "", text);
        } else {
            (void)fprintf(to, "# %s =%s%s\n", k->name, *k->standard != '\0' ? " " : "", k->standard);
        }
    }
}

static void print_items(FILE *to, enum config_section section, const struct config *c)
{
    for (size_t i = 0; i < config_item_count(c, section); i++) {
        const struct config_item *item = config_item(c, section, i);
        (void)fprintf(to, "\n[%s %s]\n", config_section_name(section), item->name);
        print_section(to, section, item);
    }
    if (config_item_count(c, section) == 0) {
        (void)fprintf(to, "\n# [%s NAME]\n", config_section_name(section));
        print_section(to, section, NULL);
    }
}

void config_print(const struct config *c, FILE *to)
{
    print_comment(to, "A secret is printed as " CONFIG_MASK
                      ". twinbloomd reads this file only when each secret is in its place again.");
    (void)fputc('\n', to);
    for (enum config_section s = CONFIG_SERVICE; s < CONFIG_FILTER; s++) {
        (void)fprintf(to, "%s[%s]\n", s == CONFIG_SERVICE ? "" : "\n", config_section_name(s));
        print_section(to, s, c);
    }
    for (enum config_section s = CONFIG_FILTER; s < CONFIG_SECTIONS; s++)
        print_items(to, s, c);
}
