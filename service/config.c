/* SPDX-License-Identifier: MIT */
#include "service/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "expansion/schedule.h"
#include "expansion/window.h"
#include "service/config_file.h"
#include "service/config_keys.h"
#include "shard/names.h"
#include "shard/nodes.h"

static void free_strings(void *base, bool of_filters)
{
    for (size_t i = 0; i < config_key_count; i++)
        if (config_keys[i].type == CONFIG_STRING && (config_keys[i].section == CONFIG_FILTER) == of_filters)
            free(*(char **)((char *)base + config_keys[i].offset));
}

void config_free(struct config *c)
{
    if (c == NULL)
        return;
    free_strings(c, false);
    for (size_t i = 0; i < c->filter_count; i++) {
        free_strings(&c->filter[i], true);
        free(c->filter[i].name);
    }
    free(c);
}

/* @base was copied with its strings: give it its own. False: no memory, and no string is shared. */
static bool own_strings(void *base, bool of_filters)
{
    bool whole = true;
    for (size_t i = 0; i < config_key_count; i++) {
        if (config_keys[i].type != CONFIG_STRING || (config_keys[i].section == CONFIG_FILTER) != of_filters)
            continue;
        char **text = (char **)((char *)base + config_keys[i].offset);
        *text = whole ? strdup(*text) : NULL;
        whole = *text != NULL;
    }
    return whole;
}

struct config *config_copy(const struct config *from)
{
    struct config *c = malloc(sizeof(*c));
    if (c == NULL)
        return NULL;
    memcpy(c, from, offsetof(struct config, references)); /* others count there meanwhile */
    atomic_init(&c->references, 1);
    bool whole = own_strings(c, false);
    for (c->filter_count = 0; whole && c->filter_count < from->filter_count; c->filter_count++) {
        struct config_filter *f = &c->filter[c->filter_count];
        f->name = strdup(f->name);
        whole = own_strings(f, true) && f->name != NULL;
    }
    if (!whole) {
        config_free(c);
        return NULL;
    }
    return c;
}

/* The count is the one member that changes in a config that is shared. */
static atomic_uint *references_of(const struct config *c)
{
    return &((struct config *)c)->references;
}

const struct config *config_hold(const struct config *c)
{
    (void)atomic_fetch_add_explicit(references_of(c), 1, memory_order_relaxed);
    return c;
}

void config_release(const struct config *c)
{
    if (c != NULL && atomic_fetch_sub_explicit(references_of(c), 1, memory_order_acq_rel) == 1)
        config_free((struct config *)c);
}

const struct config_filter *config_find(const struct config *c, const char *name, size_t length)
{
    for (size_t i = 0; i < c->filter_count; i++)
        if (strlen(c->filter[i].name) == length && memcmp(c->filter[i].name, name, length) == 0)
            return &c->filter[i];
    return NULL;
}

static enum err bad_address(const char *address, struct error *e)
{
    return error_set(e, ERR_PARSE, "'%.100s' is no address; write host:port, :port or [v6]:port", address);
}

enum err config_split_address(const char *address, char *host, size_t host_size, uint16_t *port,
                              struct error *e)
{
    const char *start = address, *end, *colon;
    if (*address == '[') {
        start = address + 1;
        end = strchr(start, ']');
        if (end == NULL || end == start || end[1] != ':')
            return bad_address(address, e);
        colon = end + 1;
    } else {
        end = colon = strchr(address, ':');
        if (colon == NULL || strchr(colon + 1, ':') != NULL || strpbrk(address, "[] /@,") != NULL)
            return bad_address(address, e);
    }
    uint64_t number;
    if (!number_u64(colon + 1, strlen(colon + 1), &number) || number > UINT16_MAX)
        return error_set(e, ERR_PARSE, "'%.100s' has no port; give a number up to 65535 after the last colon",
                         address);
    size_t length = (size_t)(end - start);
    if (length >= host_size)
        return error_set(e, ERR_PARSE, "the host of '%.100s' is too long; give fewer than %zu bytes", address,
                         host_size);
    memcpy(host, start, length);
    host[length] = '\0';
    *port = (uint16_t)number;
    return ERR_OK;
}

/* A configuration under way, and the file for line numbers (NULL: it does not come from one). */
struct check {
    const struct config_file *file;
    const struct config *config;
    struct error *error;
};

/* The line of @key, or of its section where the default applies; 0: neither is in the file. */
static unsigned line_of(const struct config_file *f, enum config_section section, const char *filter,
                        const char *key)
{
    const struct config_part *part = config_file_find(f, section, filter);
    if (part == NULL)
        return 0;
    const struct config_key *k = config_key_find(section, key);
    return k != NULL && part->entries[k - config_keys].text != NULL ? part->entries[k - config_keys].line
                                                                    : part->line;
}

static enum err refuse_at(const char *file, unsigned line, const char *what, struct error *e)
{
    if (line == 0)
        return error_set(e, ERR_CONFIG, "%s: %s", file, what);
    return error_set(e, ERR_CONFIG, "%s:%u: %s", file, line, what);
}

static enum err refuse_key(const struct check *c, enum config_section section, const char *filter,
                           const char *key, const char *what)
{
    if (c->file == NULL)
        return error_set(c->error, ERR_CONFIG, "%s", what);
    return refuse_at(c->file->name, line_of(c->file, section, filter, key), what, c->error);
}

static enum err check_address(const struct check *c, const char *key, const char *address)
{
    char host[256], what[512];
    uint16_t port;
    struct error why;
    if (config_split_address(address, host, sizeof(host), &port, &why) == ERR_OK)
        return ERR_OK;
    (void)snprintf(what, sizeof(what), "'%s': %.400s", key, why.text);
    return refuse_key(c, CONFIG_SERVICE, NULL, key, what);
}

/* The text of nodes_parse() may repeat a part of the value, so it is masked too. */
static enum err check_nodes(const struct check *c)
{
    struct nodes nodes;
    struct error why = {{0}};
    if (nodes_parse(&nodes, c->config->nodes, &why) == ERR_OK)
        return ERR_OK;
    struct buffer what = {0};
    buffer_puts(&what, "'nodes': ");
    config_mask(&what, why.text);
    buffer_puts(&what, "; write redis://host:port, comma separated");
    enum err err = refuse_key(c, CONFIG_REDIS, NULL, "nodes", buffer_text(&what));
    buffer_fini(&what);
    return err;
}

static enum err check_service(const struct check *c)
{
    enum err err = check_address(c, "listen", c->config->listen);
    if (err == ERR_OK && *c->config->http != '\0')
        err = check_address(c, "http", c->config->http);
    if (err == ERR_OK)
        err = check_nodes(c);
    struct names names;
    struct error why = {{0}};
    if (err == ERR_OK && names_init(&names, c->config->prefix, "f", 1, &why) != ERR_OK) {
        char what[512];
        (void)snprintf(what, sizeof(what), "'prefix': %.400s; choose letters, digits and '-'", why.text);
        err = refuse_key(c, CONFIG_REDIS, NULL, "prefix", what);
    }
    return err;
}

static enum err check_source(const struct check *c, const struct config_filter *f)
{
    if (*f->table == '\0') {
        const char *const need_table[] = {"key", "where", "schedule", "window"};
        const char *const texts[] = {f->key, f->where, f->schedule, f->window};
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
            if (*texts[i] != '\0') {
                char what[128];
                (void)snprintf(what, sizeof(what),
                               "'%s' has no meaning without a table; add table = NAME or remove it",
                               need_table[i]);
                return refuse_key(c, CONFIG_FILTER, f->name, need_table[i], what);
            }
        return ERR_OK;
    }
    if (*f->key == '\0')
        return refuse_key(c, CONFIG_FILTER, f->name, "table",
                          "a table needs a key; add key = the column that holds it");
    if (*f->id_column == '\0')
        return refuse_key(c, CONFIG_FILTER, f->name, "id_column",
                          "a table needs an id_column; name a unique, indexed column");
    if (*c->config->dsn == '\0')
        return refuse_key(c, CONFIG_FILTER, f->name, "table",
                          "a table needs a database; add dsn = postgresql://... below [postgres]");
    return ERR_OK;
}

static enum err check_times(const struct check *c, const struct config_filter *f)
{
    struct schedule schedule;
    struct window window;
    struct error why = {{0}};
    char what[512];
    if (*f->schedule != '\0' && schedule_parse(&schedule, f->schedule, &why) != ERR_OK) {
        (void)snprintf(what, sizeof(what), "'schedule': %.400s; write five fields, such as 30 3 * * *",
                       why.text);
        return refuse_key(c, CONFIG_FILTER, f->name, "schedule", what);
    }
    if (window_parse(&window, f->window, &why) != ERR_OK) {
        (void)snprintf(what, sizeof(what),
                       "'window': %.400s; write hours such as 01:00-05:00, several with commas", why.text);
        return refuse_key(c, CONFIG_FILTER, f->name, "window", what);
    }
    return ERR_OK;
}

static enum err check_filter(const struct check *c, const struct config_filter *f)
{
    enum err err = check_source(c, f);
    return err == ERR_OK ? check_times(c, f) : err;
}

static enum err check_whole(const struct check *c)
{
    enum err err = check_service(c);
    for (size_t i = 0; i < c->config->filter_count && err == ERR_OK; i++)
        err = check_filter(c, &c->config->filter[i]);
    return err;
}

/* Every key of @section into @base, from @part or by default. */
static enum err fill(const struct config_file *f, enum config_section section, const struct config_part *part,
                     void *base, struct error *e)
{
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *k = &config_keys[i];
        if (k->section != section)
            continue;
        const struct config_entry *entry = part != NULL ? &part->entries[i] : NULL;
        const char *text = entry != NULL && entry->text != NULL ? entry->text : k->standard;
        struct error why;
        if (text == NULL) {
            (void)snprintf(why.text, sizeof(why.text), "'%s' is missing in [%s%s%s]; add %s = ...", k->name,
                           config_section_name(section), part != NULL && part->name != NULL ? " " : "",
                           part != NULL && part->name != NULL ? part->name : "", k->name);
            return refuse_at(f->name, part != NULL ? part->line : 0, why.text, e);
        }
        enum err err = config_key_set(k, base, text, &why);
        if (err == ERR_NOMEM)
            return error_set(e, err, "%s: %s", f->name, why.text);
        if (err != ERR_OK)
            return refuse_at(f->name, entry != NULL && entry->text != NULL ? entry->line : 0, why.text, e);
    }
    return ERR_OK;
}

static enum err fill_filter(const struct config_file *f, const struct config_part *part, struct config *c,
                            struct error *e)
{
    if (c->filter_count == CONFIG_FILTERS_MAX)
        return error_set(e, ERR_CONFIG, "%s:%u: more than %d filters; remove some or run a second service",
                         f->name, part->line, CONFIG_FILTERS_MAX);
    struct config_filter *filter = &c->filter[c->filter_count++];
    filter->line = part->line;
    filter->name = strdup(part->name);
    if (filter->name == NULL)
        return error_set(e, ERR_NOMEM, "%s:%u: no memory", f->name, part->line);
    return fill(f, CONFIG_FILTER, part, filter, e);
}

static enum err assemble(const struct config_file *f, struct config *c, struct error *e)
{
    enum err err = ERR_OK;
    for (enum config_section s = CONFIG_SERVICE; s < CONFIG_FILTER && err == ERR_OK; s++)
        err = fill(f, s, config_file_find(f, s, NULL), c, e);
    for (size_t i = 0; i < f->count && err == ERR_OK; i++)
        if (f->parts[i].kind == CONFIG_FILTER)
            err = fill_filter(f, &f->parts[i], c, e);
    return err == ERR_OK ? check_whole(&(struct check){.file = f, .config = c, .error = e}) : err;
}

enum err config_validate(const struct config *c, struct error *e)
{
    return check_whole(&(struct check){.config = c, .error = e});
}

enum err config_read_stream(struct config **out, FILE *from, const char *name, struct error *e)
{
    struct config_file file;
    struct config *c = NULL;
    enum err err = config_file_read(&file, from, name, e);
    if (err != ERR_OK)
        goto done;
    c = calloc(1, sizeof(*c));
    err = c != NULL ? assemble(&file, c, e) : error_set(e, ERR_NOMEM, "%s: no memory", name);
    if (err == ERR_OK) {
        atomic_init(&c->references, 1);
        *out = c;
        c = NULL;
    }
done:
    config_free(c);
    config_file_fini(&file);
    return err;
}

enum err config_read(struct config **out, const char *path, struct error *e)
{
    FILE *from = fopen(path, "re");
    if (from == NULL)
        return error_set(e, ERR_IO, "%s: cannot be opened: %s; give the path of a configuration with -c",
                         path, strerror(errno));
    enum err err = config_read_stream(out, from, path, e);
    (void)fclose(from);
    return err;
}
