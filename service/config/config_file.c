/* SPDX-License-Identifier: MIT */
#include "service/config/config_file.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <stdlib.h>
#include <string.h>

/* What the reader of lines and inih's handler share. */
struct reading {
    struct config_file *file;
    FILE *from;
    char *line; /* of getline() */
    size_t line_size;
    unsigned number;               /* of that line */
    bool continues;                /* that line goes on with the value before it */
    const struct config_key *last; /* the key before, in this section; NULL: none yet */
    enum err status;               /* the first error; its text is in *error */
    unsigned failed_line;
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
    r->failed_line = r->number;
    r->status = error_set(r->error, ERR_CONFIG, "%s:%u: %s", r->file->name, r->number, what);
}

static void out_of_memory(struct reading *r)
{
    r->failed_line = r->number;
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

static void cut_comment(char *text)
{
    char *comment = find_comment(text);
    if (comment != NULL)
        *comment = '\0';
    cut_blanks(text);
}

bool config_file_continues(enum config_section kind, const char *text)
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
    if (strlen(text) > CONFIG_SECTION_MAX) {
        refuse(r, "the name of this section is longer than %d bytes; choose a shorter one",
               CONFIG_SECTION_MAX);
        return;
    }
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
        refuse(r,
               "unknown section [%s]; sections are [service], [redis], [postgres], [rebuild], [filter NAME] "
               "and [user NAME]",
               text);
    else if (named && *name == '\0')
        refuse(r, "this section has no name; write [%s NAME]", config_section_name(kind));
    else if (config_file_find(r->file, kind, name) != NULL)
        refuse(r, "section [%s] appears twice, first in line %u; put its keys together", text,
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

/* Look at the line that is in r->line before inih sees it. */
static void check_line(struct reading *r, size_t length)
{
    while (length > 0 && (r->line[length - 1] == '\n' || r->line[length - 1] == '\r'))
        length--;
    if (length > CONFIG_LINE_MAX) {
        refuse(r, "this line is longer than %d bytes; continue in a new line that starts with a blank",
               CONFIG_LINE_MAX);
        return;
    }
    if (!is_plain(r->line, length)) {
        refuse(r, "this line holds a control character; remove it");
        return;
    }
    char *line = r->line;
    if (r->number == 1 && strncmp(line, "\xEF\xBB\xBF", 3) == 0)
        line += 3;
    char *start = skip_blanks(line);
    r->continues = false;
    if (*start == '\0' || *start == ';' || *start == '#')
        return;
    if (start > line && r->last != NULL) {
        const struct config_part *part = &r->file->parts[r->file->count - 1];
        r->continues = config_file_continues(part->kind, start);
        if (!r->continues)
            refuse(r, "a line that starts with a blank continues the value of '%s'; remove the blank",
                   r->last->name);
        return;
    }
    if (*start == '[')
        read_section_line(r, start);
}

/* inih's reader: the next line into @to, or NULL at the end or after an error. */
static char *next_line(char *to, int size, void *stream)
{
    struct reading *r = stream;
    if (r->status != ERR_OK)
        return NULL;
    errno = 0;
    ssize_t length = getline(&r->line, &r->line_size, r->from);
    if (length < 0) {
        if (!feof(r->from))
            r->status = error_set(r->error, errno == ENOMEM ? ERR_NOMEM : ERR_IO, "%s: cannot be read: %s",
                                  r->file->name, strerror(errno));
        return NULL;
    }
    r->number++;
    check_line(r, (size_t)length);
    if (r->status == ERR_OK && length >= size)
        refuse(r, "this line is longer than the INI library takes (%d bytes); shorten it", size - 1);
    if (r->status != ERR_OK)
        return NULL;
    memcpy(to, r->line, (size_t)length + 1);
    return to;
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

static void continue_value(struct reading *r, struct config_entry *entry, const char *value)
{
    size_t old = strlen(entry->text), more = strlen(value);
    char *text = realloc(entry->text, old + more + 2);
    if (text == NULL) {
        out_of_memory(r);
        return;
    }
    entry->text = text;
    if (old > 0)
        text[old++] = ' ';
    memcpy(text + old, value, more + 1);
    cut_comment(text + old);
    cut_blanks(text);
}

/* What inih has cut from a value at a ';' is still in the line. In a text nobody can tell a comment from what
 * belongs to it: a password would be cut, or a comment become a part of an SQL condition. */
static bool has_doubtful_comment(const struct reading *r, const struct config_key *k)
{
    char *separator = r->continues ? NULL : strpbrk(r->line, "=:");
    return k->type == CONFIG_STRING && find_comment(separator != NULL ? separator + 1 : r->line) != NULL;
}

/* inih's handler. The section it gives may be cut and is not looked at: the reader has opened it. */
static int take(void *user, const char *section, const char *name, const char *value)
{
    (void)section;
    struct reading *r = user;
    if (r->status != ERR_OK)
        return 0;
    if (r->file->count == 0) {
        refuse(r, "key '%.60s' comes before any section; put it below its section, such as [service]", name);
        return 0;
    }
    struct config_part *part = &r->file->parts[r->file->count - 1];
    const struct config_key *k = r->continues ? r->last : config_key_find(part->kind, name);
    if (k == NULL) {
        unknown_key(r, part->kind, name);
        return 0;
    }
    struct config_entry *entry = &part->entries[k - config_keys];
    if (has_doubtful_comment(r, k)) {
        refuse(r,
               "'%s' is text, so what follows a blank and # or ; may be a comment or a part of it; put the "
               "comment on a line of its own, or remove the blank",
               k->name);
    } else if (r->continues) {
        continue_value(r, entry, value);
    } else if (entry->text != NULL) {
        refuse(r, "key '%s' appears twice, first in line %u; remove one", name, entry->line);
    } else {
        *entry = (struct config_entry){.text = strdup(value), .line = r->number};
        if (entry->text == NULL)
            out_of_memory(r);
        else if (k->type != CONFIG_STRING)
            cut_comment(entry->text);
    }
    r->last = k;
    return r->status == ERR_OK;
}

enum err config_file_read(struct config_file *f, FILE *from, const char *name, struct error *e)
{
    *f = (struct config_file){.name = name};
    struct reading r = {.file = f, .from = from, .error = e};
    int line = ini_parse_stream(next_line, &r, take, &r);
    if (line > 0 && (r.status == ERR_OK || (unsigned)line < r.failed_line)) {
        r.number = (unsigned)line;
        refuse(&r, "this is neither a section nor a key with a value; write key = value");
    } else if (line < 0 && r.status == ERR_OK) {
        out_of_memory(&r);
    }
    free(r.line);
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
