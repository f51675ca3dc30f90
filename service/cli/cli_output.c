/* SPDX-License-Identifier: MIT */
#include "service/cli/cli_output.h"

#include <ctype.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/number.h"
#include "base/utf8.h"

/* --- bytes from outside --- */

size_t output_utf8(const char *bytes, size_t length)
{
    return length == 0 ? 0 : utf8_sequence(bytes, length);
}

/* C0, DEL, and C1, which some terminals obey as they do ESC [. */
static bool is_control(const char *bytes, size_t n)
{
    unsigned char c = (unsigned char)bytes[0];
    return c < 0x20 || c == 0x7f || (n == 2 && c == 0xc2 && (unsigned char)bytes[1] < 0xa0);
}

void output_escape(struct buffer *b, const char *bytes, size_t length)
{
    for (size_t i = 0; i < length;) {
        size_t n = output_utf8(bytes + i, length - i);
        if (n != 0 && bytes[i] != '\\' && !is_control(bytes + i, n)) {
            buffer_append(b, bytes + i, n);
            i += n;
            continue;
        }
        n = n == 0 ? 1 : n;
        for (size_t end = i + n; i < end; i++) {
            if (bytes[i] == '\\')
                buffer_puts(b, "\\\\");
            else if (bytes[i] == '\n')
                buffer_puts(b, "\\n");
            else if (bytes[i] == '\t')
                buffer_puts(b, "\\t");
            else
                buffer_printf(b, "\\x%02x", (unsigned)(unsigned char)bytes[i]);
        }
    }
}

size_t output_distance(const char *a, const char *b)
{
    enum { LONGEST = 31 };
    size_t n = strlen(a);
    size_t m = strlen(b);
    if (n > LONGEST || m > LONGEST)
        return SIZE_MAX;
    size_t d[LONGEST + 1][LONGEST + 1];
    for (size_t i = 0; i <= n; i++)
        d[i][0] = i;
    for (size_t j = 0; j <= m; j++)
        d[0][j] = j;
    for (size_t i = 1; i <= n; i++)
        for (size_t j = 1; j <= m; j++) {
            size_t best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            best = best < d[i - 1][j] + 1 ? best : d[i - 1][j] + 1;
            best = best < d[i][j - 1] + 1 ? best : d[i][j - 1] + 1;
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    return d[n][m];
}

const char *output_color_on(enum output_color color, bool colored)
{
    static const char *const codes[] = {"", "\033[32m", "\033[33m", "\033[31m", "\033[2m"};
    return colored ? codes[color] : "";
}

const char *output_color_off(enum output_color color, bool colored)
{
    return colored && color != COLOR_NONE ? "\033[0m" : "";
}

/* --- JSON --- */

static void separate(struct json *j)
{
    if (j->comma)
        buffer_puts(j->out, ",");
    j->comma = true;
}

void json_open(struct json *j, char bracket)
{
    separate(j);
    buffer_append(j->out, &bracket, 1);
    j->comma = false;
}

void json_close(struct json *j, char bracket)
{
    buffer_append(j->out, &bracket, 1);
    j->comma = true;
}

void json_name(struct json *j, const char *name)
{
    json_string(j, name, strlen(name));
    buffer_puts(j->out, ":");
    j->comma = false;
}

void json_string(struct json *j, const char *bytes, size_t length)
{
    separate(j);
    buffer_puts(j->out, "\"");
    char text[UTF8_JSON_MAX + 1];
    for (size_t i = 0, taken; i < length; i += taken)
        buffer_append(j->out, text, utf8_json(text, bytes + i, length - i, &taken));
    buffer_puts(j->out, "\"");
}

void json_null(struct json *j)
{
    separate(j);
    buffer_puts(j->out, "null");
}

void json_bool(struct json *j, bool value)
{
    separate(j);
    buffer_puts(j->out, value ? "true" : "false");
}

void json_integer(struct json *j, int64_t value)
{
    separate(j);
    buffer_printf(j->out, "%lld", (long long)value);
}

static size_t digits(const char *bytes, size_t length, size_t from)
{
    size_t at = from;
    while (at < length && bytes[at] >= '0' && bytes[at] <= '9')
        at++;
    return at - from;
}

/* RFC 8259, section 6. */
static bool is_json_number(const char *bytes, size_t length)
{
    size_t at = length != 0 && bytes[0] == '-';
    size_t n = digits(bytes, length, at);
    if (n == 0 || (n > 1 && bytes[at] == '0'))
        return false;
    at += n;
    if (at < length && bytes[at] == '.') {
        n = digits(bytes, length, at + 1);
        if (n == 0)
            return false;
        at += 1 + n;
    }
    if (at < length && (bytes[at] == 'e' || bytes[at] == 'E')) {
        at++;
        at += at < length && (bytes[at] == '+' || bytes[at] == '-');
        n = digits(bytes, length, at);
        if (n == 0)
            return false;
        at += n;
    }
    return at == length;
}

void json_number_or_string(struct json *j, const char *bytes, size_t length)
{
    if (!is_json_number(bytes, length)) {
        json_string(j, bytes, length);
        return;
    }
    separate(j);
    buffer_append(j->out, bytes, length);
}

/* --- tables --- */

void table_init(struct table *t, const struct table_column *column, size_t columns)
{
    *t = (struct table){.column = column, .columns = columns};
    buffer_init(&t->text);
}

void table_fini(struct table *t)
{
    buffer_fini(&t->text);
}

void table_cell(struct table *t, enum output_color color, const char *text)
{
    char byte = (char)color;
    buffer_append(&t->text, &byte, 1);
    buffer_append(&t->text, text, strlen(text) + 1);
    t->cells++;
}

/* Columns that @text takes on a terminal, as far as one character takes one. */
static size_t width_of(const char *text)
{
    size_t width = 0;
    for (; *text != '\0'; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static size_t widest(const struct table *t, size_t column)
{
    size_t width = t->column[column].title == NULL ? 0 : width_of(t->column[column].title);
    const char *at = t->text.data;
    for (size_t i = 0; i < t->cells; i++, at += strlen(at + 1) + 2)
        if (i % t->columns == column && width_of(at + 1) > width)
            width = width_of(at + 1);
    return width;
}

/* Padding before a cell is kept back until something follows it on the line: @pad is carried along. */
static void print_cell(const struct table *t, size_t column, size_t *pad, const char *text,
                       enum output_color color, FILE *to, bool colored)
{
    size_t fill = widest(t, column) - width_of(text);
    *pad += column == 0 ? 0 : 2;
    *pad += t->column[column].right ? fill : 0;
    if (text[0] != '\0') {
        (void)fprintf(to, "%*s%s%s%s", (int)*pad, "", output_color_on(color, colored), text,
                      output_color_off(color, colored));
        *pad = 0;
    }
    *pad += t->column[column].right ? 0 : fill;
}

void table_print(const struct table *t, FILE *to, bool colored)
{
    if (buffer_failed(&t->text) || t->columns == 0)
        return;
    size_t pad = 0;
    if (t->column[0].title != NULL) {
        for (size_t c = 0; c < t->columns; c++)
            print_cell(t, c, &pad, t->column[c].title, COLOR_QUIET, to, colored);
        (void)fputc('\n', to);
    }
    const char *at = t->text.data;
    for (size_t i = 0; i < t->cells; i++, at += strlen(at + 1) + 2) {
        pad = i % t->columns == 0 ? 0 : pad;
        print_cell(t, i % t->columns, &pad, at + 1, (enum output_color)at[0], to, colored);
        if (i % t->columns == t->columns - 1)
            (void)fputc('\n', to);
    }
}
