/* SPDX-License-Identifier: MIT */
#include "service/config/config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/machine.h"
#include "service/config/config_check.h"
#include "service/config/config_file.h"
#include "service/config/config_keys.h"

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
            free(config_item(c, s, i)->name);
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
            struct config_item *item = config_item(c, s, i);
            item->name = whole ? strdup(item->name) : NULL;
            whole = own_strings(s, item, item->name != NULL);
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
    return (const void *)config_item_find(c, CONFIG_FILTER, name, length);
}

enum { PROCESSORS_MOST = 8 };

static unsigned by_machine(uint64_t configured)
{
    if (configured > 0)
        return (unsigned)configured;
    unsigned processors = machine_processors();
    return processors > PROCESSORS_MOST ? PROCESSORS_MOST : processors;
}

unsigned config_threads(const struct config *c)
{
    return by_machine(c->threads);
}

unsigned config_readers(const struct config *c)
{
    return by_machine(c->readers);
}

/* The parts leave an eighth to all else. */
static uint64_t by_memory(uint64_t configured, uint64_t share, uint64_t most)
{
    return configured != MEMORY_AUTO ? configured : share < most ? share : most;
}

uint64_t config_resident_memory(const struct config *c, uint64_t all)
{
    return by_memory(c->resident_memory, all / 2, UINT64_MAX);
}

uint64_t config_build_memory(const struct config *c, uint64_t all)
{
    return by_memory(c->build_memory, all / 4, UINT64_C(512) << 20);
}

uint64_t config_client_memory_max(const struct config *c, uint64_t all)
{
    return by_memory(c->client_memory_max, all / 8, UINT64_C(1) << 30);
}

uint64_t config_capacity(const struct config_filter *f)
{
    if (f->capacity != 0)
        return f->capacity;
    return *f->table != '\0' ? CONFIG_CAPACITY_SOURCED : CONFIG_CAPACITY_DEFAULT;
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

bool config_next_item(const char **at, const char **item, size_t *length)
{
    if (*at == NULL)
        return false;
    const char *start = *at + strspn(*at, " \t"), *end = start;
    while (*end != '\0' && *end != ',')
        end += *end == '\\' && end[1] != '\0' ? 2 : 1;
    *at = *end == ',' ? end + 1 : NULL;
    while (end > start && (end[-1] == ' ' || end[-1] == '\t') && (end - start < 2 || end[-2] != '\\'))
        end--;
    *item = start;
    *length = (size_t)(end - start);
    return true;
}

static enum err refuse_at(const char *file, unsigned line, const char *what, struct error *e)
{
    if (line == 0)
        return error_set(e, ERR_CONFIG, "%s: %s", file, what);
    return error_set(e, ERR_CONFIG, "%s:%u: %s", file, line, what);
}

enum err config_refuse_key(const struct config_check *c, enum config_section section, const char *filter,
                           const char *key, const char *format, ...)
{
    char what[640];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    if (c->file == NULL)
        return error_set(c->error, ERR_CONFIG, "%s", what);
    /* The line of @key, or of its section where the default applies; 0: neither is in the file. */
    const struct config_part *part = config_file_find(c->file, section, filter);
    const struct config_key *k = config_key_find(section, key);
    unsigned line = part == NULL ? 0 : part->line;
    if (part != NULL && k != NULL && part->entries[k - config_keys].text != NULL)
        line = part->entries[k - config_keys].line;
    return refuse_at(c->file->name, line, what, c->error);
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
    struct config_item *item = config_item_add(c, part->kind);
    if (item == NULL)
        return error_set(e, ERR_CONFIG, "%s:%u: more than %zu %ss; remove some or run a second service",
                         f->name, part->line, config_item_count(c, part->kind),
                         config_section_name(part->kind));
    item->line = part->line;
    item->name = strdup(part->name);
    if (item->name == NULL)
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
    const struct config_check check = {.file = f, .config = c, .error = e};
    if (err == ERR_OK)
        err = config_load_secrets(&check, c);
    return err == ERR_OK ? config_check_whole(&check) : err;
}

enum err config_read_stream(struct config **out, FILE *from, const char *name, struct error *e)
{
    SCOPED(config_file_fini) struct config_file file;
    enum err err = config_file_read(&file, from, name, e);
    if (err != ERR_OK)
        return err;
    struct config *c = calloc(1, sizeof(*c));
    err = c != NULL ? assemble(&file, c, e) : error_set(e, ERR_NOMEM, "%s: no memory", name);
    if (err != ERR_OK) {
        config_free(c);
        return err;
    }
    atomic_init(&c->references, 1);
    *out = c;
    return ERR_OK;
}

enum err config_read(struct config **out, const char *path, struct error *e)
{
    FILE *from = fopen(path, "re");
    if (from == NULL)
        return error_set(e, ERR_IO, "the configuration %s cannot be opened: %s; %s", path, strerror(errno),
                         errno == EACCES ? "let the user that runs this read the file and enter its folders"
                                         : "name another file with -c FILE");
    enum err err = config_read_stream(out, from, path, e);
    (void)fclose(from);
    return err;
}
