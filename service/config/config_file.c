/* SPDX-License-Identifier: MIT */
#include "service/config/config_file.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct reading {
    struct config_file *file;
    unsigned number;               /* of the line */
    const struct config_key *last; /* the key before, in this section; NULL: none yet */
    enum err status;               /* the first error; its text is in *error */
    struct error *error;
};

static void refuse(struct reading *r, const char *format, ...) PRINTF_LIKE(2, 3);

static void refuse(struct reading *r, const char *format, ...)
{
    char what[400];
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(what, sizeof(what), format, ap);
    va_end(ap);
    r->status = error_set(r->error, ERR_CONFIG, "%s:%u: %s", r->file->name, r->number, what);
}

static void out_of_memory(struct reading *r)
{
    r->status = error_set(r->error, ERR_NOMEM, "%s:%u: no memory", r->file->name, r->number);
}

static char *skip_blanks(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    return text;
}

static void cut_blanks(char *text)
{
    size_t n = strlen(text);
    while (n > 0 && isspace((unsigned char)text[n - 1]))
        n--;
    text[n] = '\0';
}

/* Where a comment begins behind a value: at a # or ; after a blank. NULL: nowhere. */
static char *find_comment(char *text)
{
    for (char *c = text; *c != '\0'; c++)
        if ((*c == '#' || *c == ';') && c > text && isspace((unsigned char)c[-1]))
            return c;
    return NULL;
}

/* Whether @text, in a line that starts with a blank, is a continuation of the value before it: not a comment,
 * nor what looks like a section or a key that was merely indented. */
static bool continues(enum config_section kind, const char *text)
{
    if (*text == '#' || *text == ';' || *text == '[')
        return false;
    size_t n = strcspn(text, "=: \t");
    const char *after = text + n;
    after += strspn(after, " \t");
    char name[32];
    if ((*after != '=' && *after != ':') || n >= sizeof(name))
        return true;
    memcpy(name, text, n);
    name[n] = '\0';
    return config_key_find(kind, name) == NULL;
}

const struct config_part *config_file_find(const struct config_file *f, enum config_section kind,
                                           const char *name)
{
    for (size_t i = 0; i < f->count; i++) {
        const struct config_part *p = &f->parts[i];
        if (p->kind == kind && (p->name == NULL || strcmp(p->name, name) == 0))
            return p;
    }
    return NULL;
}

static bool add_part(struct reading *r, enum config_section kind, const char *name)
{
    struct config_file *f = r->file;
    struct config_part *parts = realloc(f->parts, (f->count + 1) * sizeof(*parts));
    if (parts == NULL)
        return false;
    f->parts = parts;
    struct config_part *p = &parts[f->count];
    *p = (struct config_part){.kind = kind, .line = r->number};
    p->entries = calloc(config_key_count, sizeof(*p->entries));
    p->name = name != NULL ? strdup(name) : NULL;
    if (p->entries == NULL || (name != NULL && p->name == NULL)) {
        free(p->entries);
        free(p->name);
        return false;
    }
    f->count++;
    return true;
}

/* @text is what stands between the brackets. */
static void open_section(struct reading *r, char *text)
{
    text = skip_blanks(text);
    cut_blanks(text);
    size_t word = strcspn(text, " \t");
    enum config_section kind = 0;
    while (kind < CONFIG_SECTIONS &&
           !(strlen(config_section_name(kind)) == word && memcmp(text, config_section_name(kind), word) == 0))
        kind++;
    char *name = skip_blanks(text + word);
    bool named = config_section_is_named(kind);
    if (kind == CONFIG_SECTIONS || (!named && *name != '\0'))
        refuse(
            r,
            "unknown section [%.60s]; sections are [service], [redis], [postgres], [rebuild], [filter NAME] "
            "and [user NAME]",
            text);
    else if (named && *name == '\0')
        refuse(r, "this section has no name; write [%s NAME]", config_section_name(kind));
    else if (named && (*name == '"' || *name == '\'')) /* nobody would ask for that name */
        refuse(r, "quotes would belong to the name; write [%s NAME]", config_section_name(kind));
    else if (config_file_find(r->file, kind, name) != NULL)
        refuse(r, "section [%.60s] appears twice, first in line %u; put its keys together", text,
               config_file_find(r->file, kind, name)->line);
    else if (!add_part(r, kind, named ? name : NULL))
        out_of_memory(r);
    r->last = NULL;
}

static void read_section_line(struct reading *r, const char *start)
{
    const char *end = strchr(start, ']');
    if (end == NULL) {
        refuse(r, "this section's name has no closing bracket; write [NAME]");
        return;
    }
    const char *rest = end + 1 + strspn(end + 1, " \t\r\n");
    if (*rest != '\0' && *rest != ';' && *rest != '#') {
        refuse(r, "text follows the section's name; start a new line after ]");
        return;
    }
    char *text = strndup(start + 1, (size_t)(end - start - 1));
    if (text == NULL)
        out_of_memory(r);
    else
        open_section(r, text);
    free(text);
}

static bool is_plain(const char *line, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)line[i] < 0x20 && line[i] != '\t')
            return false;
    return true;
}

static void unknown_key(struct reading *r, enum config_section kind, const char *name)
{
    const struct config_key *near = config_key_nearest(kind, name);
    const char *section = config_section_name(kind);
    if (near == NULL)
        refuse(r, "unknown key '%.60s' in [%s]; --print-config lists the keys", name, section);
    else if (near->section != kind)
        refuse(r, "unknown key '%.60s' in [%s]; it belongs to [%s]", name, section,
               config_section_name(near->section));
    else
        refuse(r, "unknown key '%.60s' in [%s]; did you mean '%s'?", name, section, near->name);
}

/* @text: the value of @k, or what continues it. In a text nobody can tell a comment from what belongs to it:
 * a password would be cut, or a comment become a part of an SQL condition. */
static void take_value(struct reading *r, const struct config_key *k, struct config_entry *entry, char *text)
{
    char *comment = find_comment(text);
    if (comment != NULL && k->type == CONFIG_STRING) {
        refuse(r,
               "'%s' is text, so what follows a blank and # or ; may be a comment or a part of it; put the "
               "comment on a line of its own, or remove the blank",
               k->name);
        return;
    }
    if (comment != NULL)
        *comment = '\0';
    text = skip_blanks(text);
    cut_blanks(text);
    size_t old = entry->text == NULL ? 0 : strlen(entry->text), more = strlen(text);
    char *whole = realloc(entry->text, old + more + 2);
    if (whole == NULL) {
        out_of_memory(r);
        return;
    }
    if (old > 0)
        whole[old++] = ' ';
    memcpy(whole + old, text, more + 1);
    entry->text = whole;
}

/* A line that is no section: "key = value". */
static void read_key_line(struct reading *r, char *name)
{
    char *separator = strpbrk(name, "=:");
    if (separator == NULL) {
        refuse(r, "this is neither a section nor a key with a value; write key = value");
        return;
    }
    *separator = '\0';
    cut_blanks(name);
    if (r->file->count == 0) {
        refuse(r, "key '%.60s' comes before any section; put it below its section, such as [service]", name);
        return;
    }
    struct config_part *part = &r->file->parts[r->file->count - 1];
    const struct config_key *k = config_key_find(part->kind, name);
    if (k == NULL) {
        unknown_key(r, part->kind, name);
        return;
    }
    struct config_entry *entry = &part->entries[k - config_keys];
    if (entry->text != NULL) {
        refuse(r, "key '%s' appears twice, first in line %u; remove one", name, entry->line);
        return;
    }
    entry->line = r->number;
    take_value(r, k, entry, separator + 1);
    r->last = k;
}

static void read_line(struct reading *r, char *line, size_t length)
{
    while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == '\r'))
        length--;
    if (!is_plain(line, length)) {
        refuse(r, "this line holds a control character; remove it");
        return;
    }
    if (r->number == 1 && strncmp(line, "\xEF\xBB\xBF", 3) == 0)
        line += 3;
    char *start = skip_blanks(line);
    if (*start == '\0' || *start == ';' || *start == '#')
        return;
    if (start > line && r->last != NULL) {
        const struct config_part *part = &r->file->parts[r->file->count - 1];
        if (continues(part->kind, start))
            take_value(r, r->last, &part->entries[r->last - config_keys], start);
        else
            refuse(r, "a line that starts with a blank continues the value of '%s'; remove the blank",
                   r->last->name);
    } else if (*start == '[') {
        read_section_line(r, start);
    } else {
        read_key_line(r, start);
    }
}

enum err config_file_read(struct config_file *f, FILE *from, const char *name, struct error *e)
{
    *f = (struct config_file){.name = name};
    struct reading r = {.file = f, .error = e};
    SCOPED(scope_free) char *line = NULL;
    size_t size = 0;
    ssize_t length;
    while (r.status == ERR_OK && (length = getline(&line, &size, from)) >= 0) {
        r.number++;
        read_line(&r, line, (size_t)length);
    }
    if (r.status == ERR_OK && !feof(from))
        r.status = error_set(e, errno == ENOMEM ? ERR_NOMEM : ERR_IO, "%s: cannot be read: %s", name,
                             strerror(errno));
    return r.status;
}

void config_file_fini(struct config_file *f)
{
    for (size_t i = 0; i < f->count; i++) {
        for (size_t j = 0; j < config_key_count; j++)
            free(f->parts[i].entries[j].text);
        free(f->parts[i].entries);
        free(f->parts[i].name);
    }
    free(f->parts);
    *f = (struct config_file){0};
}
