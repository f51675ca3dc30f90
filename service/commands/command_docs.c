/* SPDX-License-Identifier: MIT */
/* What is made of the arguments of commands. The table has them as users write them: lower case for values,
 * upper case for keywords (which belong to the value behind them), [x] for optional, x... for repeated, x|y
 * for a choice of keywords. Brackets are not nested. */
#include <ctype.h>
#include <string.h>
#include "service/commands/command.h"

/* One argument of a usage: its words without brackets and dots. */
struct part {
    const char *word, *value; /* value: set if a value follows the word */
    size_t word_length, value_length;
    bool optional, multiple;
};

static size_t word_length(const char *text)
{
    return strcspn(text, " ].");
}

/* Read the part at *@at, and move *@at behind it. False: there are no more parts. */
static bool next_part(const char **at, struct part *out)
{
    const char *p = *at + strspn(*at, " ");
    if (*p == '\0')
        return false;
    *out = (struct part){.optional = *p == '['};
    p += out->optional;
    out->word = p;
    out->word_length = word_length(p);
    p += out->word_length;
    bool token = isupper((unsigned char)out->word[0]) && memchr(out->word, '|', out->word_length) == NULL;
    if (token && *p == ' ' && islower((unsigned char)p[1])) {
        out->value = p + 1;
        out->value_length = word_length(p + 1);
        p += 1 + out->value_length;
    }
    out->multiple = *p == '.';
    p += strspn(p, ".]");
    *at = p;
    return true;
}

static void lower(struct reply *r, const char *text, size_t length)
{
    char small[64];
    size_t n = length < sizeof(small) ? length : sizeof(small);
    for (size_t i = 0; i < n; i++)
        small[i] = (char)tolower((unsigned char)text[i]);
    reply_bulk(r, small, n);
}

static const char *type_of(const struct part *p)
{
    const char *name = p->value != NULL ? p->value : p->word;
    size_t length = p->value != NULL ? p->value_length : p->word_length;
    if (p->value == NULL && isupper((unsigned char)p->word[0]))
        return "pure-token";
    if (length == 6 && strncmp(name, "filter", 6) == 0)
        return "key";
    if (strncmp(name, "error", 5) == 0)
        return "double";
    if (strncmp(name, "capacity", 8) == 0 || strncmp(name, "expansion", 9) == 0)
        return "integer";
    return "string";
}

static void flags(struct reply *r, const struct part *p)
{
    if (!p->optional && !p->multiple)
        return;
    reply_text(r, "flags");
    reply_array(r, (size_t)p->optional + p->multiple);
    if (p->optional)
        reply_simple(r, "optional");
    if (p->multiple)
        reply_simple(r, "multiple");
}

/* Keywords of which one is chosen. */
static void choice(struct reply *r, const struct part *p)
{
    size_t words = 1;
    for (size_t i = 0; i < p->word_length; i++)
        words += p->word[i] == '|';
    reply_map(r, 3 + (size_t)(p->optional || p->multiple));
    reply_pair(r, "name", "choice");
    reply_pair(r, "type", "oneof");
    flags(r, p);
    reply_text(r, "arguments");
    reply_array(r, words);
    const char *end = p->word + p->word_length;
    for (const char *at = p->word; at < end; at++) {
        size_t length = strcspn(at, "| ].");
        reply_map(r, 3);
        reply_text(r, "name");
        lower(r, at, length);
        reply_pair(r, "type", "pure-token");
        reply_text(r, "token");
        reply_bulk(r, at, length);
        at += length;
    }
}

static void argument(struct reply *r, const struct part *p)
{
    if (memchr(p->word, '|', p->word_length) != NULL) {
        choice(r, p);
        return;
    }
    bool token = isupper((unsigned char)p->word[0]);
    reply_map(r, 2 + (size_t)token + (size_t)(p->optional || p->multiple));
    reply_text(r, "name");
    lower(r, p->value != NULL ? p->value : p->word, p->value != NULL ? p->value_length : p->word_length);
    reply_pair(r, "type", type_of(p));
    if (token) {
        reply_text(r, "token");
        reply_bulk(r, p->word, p->word_length);
    }
    flags(r, p);
}

void command_document(struct reply *r, const struct command *command)
{
    size_t count = 0;
    struct part part;
    for (const char *at = command->arguments; next_part(&at, &part);)
        count++;
    lower(r, command->name, strlen(command->name));
    reply_map(r, 3 + (size_t)(count > 0));
    reply_pair(r, "summary", command->summary);
    reply_pair(r, "since", "0.1.0");
    reply_pair(r, "group", command->group);
    if (count == 0)
        return;
    reply_text(r, "arguments");
    reply_array(r, count);
    for (const char *at = command->arguments; next_part(&at, &part);)
        argument(r, &part);
}
