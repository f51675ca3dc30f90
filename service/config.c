/* SPDX-License-Identifier: MIT */
#include "service/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "expansion/schedule.h"
#include "expansion/tail.h"
#include "expansion/window.h"
#include "service/config_check.h"
#include "service/config_file.h"
#include "service/config_keys.h"
#include "shard/names.h"
#include "shard/nodes.h"

static void free_strings(enum config_section section, void *base)
{
    for (size_t i = 0; i < config_key_count; i++)
        if (config_keys[i].type == CONFIG_STRING && config_keys[i].section == section)
            free(*(char **)((char *)base + config_keys[i].offset));
}

void config_free(struct config *c)
{
    if (c == NULL)
        return;
    for (enum config_section s = 0; s < CONFIG_FILTER; s++)
        free_strings(s, c);
    for (enum config_section s = CONFIG_FILTER; s < CONFIG_SECTIONS; s++)
        for (size_t i = 0; i < config_item_count(c, s); i++) {
            free_strings(s, config_item(c, s, i));
            free(*config_item_name_at(config_item(c, s, i)));
        }
    free(c);
}

/* @base was copied with its strings: give it its own. False: no memory, and no string is shared. */
static bool own_strings(enum config_section section, void *base, bool whole)
{
    for (size_t i = 0; i < config_key_count; i++) {
        if (config_keys[i].type != CONFIG_STRING || config_keys[i].section != section)
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
    bool whole = true;
    for (enum config_section s = 0; s < CONFIG_FILTER; s++)
        whole = own_strings(s, c, whole);
    for (enum config_section s = CONFIG_FILTER; s < CONFIG_SECTIONS; s++)
        for (size_t i = 0; i < config_item_count(c, s); i++) {
            char **name = config_item_name_at(config_item(c, s, i));
            *name = whole ? strdup(*name) : NULL;
            whole = own_strings(s, config_item(c, s, i), *name != NULL);
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
    return config_item_find(c, CONFIG_FILTER, name, length);
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

bool config_next_address(const char *list, size_t *at, char *address, size_t size)
{
    const char *start = list + *at;
    if (*list == '\0' || (*at > 0 && start[-1] == '\0'))
        return false;
    size_t length = strcspn(start, ",");
    *at += length + 1; /* behind the comma, or behind the end */
    start += strspn(start, " \t");
    length = strcspn(start, ",");
    while (length > 0 && (start[length - 1] == ' ' || start[length - 1] == '\t'))
        length--;
    (void)snprintf(address, size, "%.*s", (int)length, start);
    return true;
}

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

enum err config_refuse_key(const struct config_check *c, enum config_section section, const char *filter,
                           const char *key, const char *what)
{
    if (c->file == NULL)
        return error_set(c->error, ERR_CONFIG, "%s", what);
    return refuse_at(c->file->name, line_of(c->file, section, filter, key), what, c->error);
}

/* The text of nodes_parse() may repeat a part of the value, so it is masked too. */
static enum err check_nodes(const struct config_check *c)
{
    struct nodes nodes;
    struct error why = {{0}};
    if (nodes_parse(&nodes, c->config->nodes, &why) == ERR_OK)
        return ERR_OK;
    struct buffer what = {0};
    buffer_puts(&what, "'nodes': ");
    config_mask(&what, why.text);
    buffer_puts(&what, "; write redis://host:port, comma separated");
    enum err err = config_refuse_key(c, CONFIG_REDIS, NULL, "nodes", buffer_text(&what));
    buffer_fini(&what);
    return err;
}

static enum err check_service(const struct config_check *c)
{
    enum err err = config_check_access(c);
    if (err == ERR_OK)
        err = check_nodes(c);
    struct names names;
    struct error why = {{0}};
    if (err == ERR_OK && names_init(&names, c->config->prefix, "f", 1, &why) != ERR_OK) {
        char what[512];
        (void)snprintf(what, sizeof(what), "'prefix': %.400s; choose letters, digits and '-'", why.text);
        err = config_refuse_key(c, CONFIG_REDIS, NULL, "prefix", what);
    }
    return err;
}

static enum err check_source(const struct config_check *c, const struct config_filter *f)
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
                return config_refuse_key(c, CONFIG_FILTER, f->name, need_table[i], what);
            }
        return f->expand_at_dead > 0
                   ? config_refuse_key(c, CONFIG_FILTER, f->name, "expand_at_dead",
                                       "'expand_at_dead' has no meaning without a table; add table = NAME or "
                                       "remove it")
                   : ERR_OK;
    }
    if (*f->key == '\0')
        return config_refuse_key(c, CONFIG_FILTER, f->name, "table",
                                 "a table needs a key; add key = the column that holds it");
    if (*f->id_column == '\0')
        return config_refuse_key(c, CONFIG_FILTER, f->name, "id_column",
                                 "a table needs an id_column; name a unique, indexed column");
    if (*c->config->dsn == '\0')
        return config_refuse_key(c, CONFIG_FILTER, f->name, "table",
                                 "a table needs a database; add dsn = postgresql://... below [postgres]");
    return ERR_OK;
}

/* [a-z0-9_], as Postgres wants it; "": none is named. */
static bool is_slot_name(const char *name)
{
    return strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(name) && strlen(name) < 64;
}

static enum err check_tail(const struct config_check *c, const struct config_filter *f)
{
    if (*f->table == '\0') {
        const char *const keys[] = {"catch_up", "tail", "publication", "slot", "outbox"};
        const bool set[] = {f->catch_up != CATCH_UP_KEYSET, f->tail, *f->publication != '\0',
                            *f->slot != '\0', *f->outbox != '\0'};
        for (size_t i = 0; i < sizeof(set) / sizeof(set[0]); i++)
            if (set[i]) {
                char what[128];
                (void)snprintf(what, sizeof(what),
                               "'%s' has no meaning without a table; add table = NAME or remove it", keys[i]);
                return config_refuse_key(c, CONFIG_FILTER, f->name, keys[i], what);
            }
        return ERR_OK;
    }
    if (f->catch_up == CATCH_UP_LOGICAL && *f->publication == '\0')
        return config_refuse_key(c, CONFIG_FILTER, f->name, "catch_up",
                                 "catch_up = logical needs a publication; make it by sql/publication.sql and "
                                 "add publication = NAME");
    if (f->catch_up == CATCH_UP_OUTBOX && *f->outbox == '\0')
        return config_refuse_key(
            c, CONFIG_FILTER, f->name, "catch_up",
            "catch_up = outbox needs an outbox; make it by sql/outbox.sql and add outbox "
            "= NAME");
    if (!is_slot_name(f->slot))
        return config_refuse_key(c, CONFIG_FILTER, f->name, "slot",
                                 "'slot' must be up to 63 of a-z, 0-9 and _; choose another name");
    return ERR_OK;
}

static enum err check_times(const struct config_check *c, const struct config_filter *f)
{
    struct schedule schedule;
    struct window window;
    struct error why = {{0}};
    char what[512];
    if (*f->schedule != '\0' && schedule_parse(&schedule, f->schedule, &why) != ERR_OK) {
        (void)snprintf(what, sizeof(what), "'schedule': %.400s; write five fields, such as 30 3 * * *",
                       why.text);
        return config_refuse_key(c, CONFIG_FILTER, f->name, "schedule", what);
    }
    if (window_parse(&window, f->window, &why) != ERR_OK) {
        (void)snprintf(what, sizeof(what),
                       "'window': %.400s; write hours such as 01:00-05:00, several with commas", why.text);
        return config_refuse_key(c, CONFIG_FILTER, f->name, "window", what);
    }
    return ERR_OK;
}

static enum err check_filter(const struct config_check *c, const struct config_filter *f)
{
    enum err err = check_source(c, f);
    if (err == ERR_OK)
        err = check_tail(c, f);
    return err == ERR_OK ? check_times(c, f) : err;
}

/* What a tail confirms is gone for every other. */
static enum err check_shared(const struct config_check *c, size_t i)
{
    const struct config_filter *f = &c->config->filter[i];
    char slot[TAIL_SLOT_MAX], other[TAIL_SLOT_MAX], what[200];
    tail_slot_of(slot, f->slot, f->name);
    for (size_t j = 0; j < i; j++) {
        const struct config_filter *g = &c->config->filter[j];
        if (f->catch_up == CATCH_UP_KEYSET || f->catch_up != g->catch_up)
            continue;
        tail_slot_of(other, g->slot, g->name);
        bool outbox = f->catch_up == CATCH_UP_OUTBOX;
        if (strcmp(outbox ? f->outbox : slot, outbox ? g->outbox : other) != 0)
            continue;
        const char *key = outbox ? "outbox" : "slot";
        (void)snprintf(what, sizeof(what),
                       "'%s' is that of filter '%.60s' already; each filter needs its own", key, g->name);
        return config_refuse_key(c, CONFIG_FILTER, f->name, key, what);
    }
    return ERR_OK;
}

static enum err check_whole(const struct config_check *c)
{
    enum err err = check_service(c);
    for (size_t i = 0; i < c->config->filter_count && err == ERR_OK; i++)
        err = check_filter(c, &c->config->filter[i]);
    for (size_t i = 0; i < c->config->filter_count && err == ERR_OK; i++)
        err = check_shared(c, i);
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

static enum err fill_item(const struct config_file *f, const struct config_part *part, struct config *c,
                          struct error *e)
{
    void *item = config_item_add(c, part->kind);
    if (item == NULL)
        return error_set(e, ERR_CONFIG, "%s:%u: more than %zu %ss; remove some or run a second service",
                         f->name, part->line, config_item_count(c, part->kind),
                         config_section_name(part->kind));
    *config_item_line_at(item) = part->line;
    char **name = config_item_name_at(item);
    *name = strdup(part->name);
    if (*name == NULL)
        return error_set(e, ERR_NOMEM, "%s:%u: no memory", f->name, part->line);
    return fill(f, part->kind, part, item, e);
}

static enum err assemble(const struct config_file *f, struct config *c, struct error *e)
{
    enum err err = ERR_OK;
    for (enum config_section s = CONFIG_SERVICE; s < CONFIG_FILTER && err == ERR_OK; s++)
        err = fill(f, s, config_file_find(f, s, NULL), c, e);
    for (size_t i = 0; i < f->count && err == ERR_OK; i++)
        if (config_section_is_named(f->parts[i].kind))
            err = fill_item(f, &f->parts[i], c, e);
    return err == ERR_OK ? check_whole(&(struct config_check){.file = f, .config = c, .error = e}) : err;
}

enum err config_validate(const struct config *c, struct error *e)
{
    return check_whole(&(struct config_check){.config = c, .error = e});
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
