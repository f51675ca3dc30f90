/* SPDX-License-Identifier: MIT */
/* Numbers, times and bytes for people; JSON; tables. */
#include <ctype.h>
#include <math.h>
#include <regex.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/number.h"
#include "base/utf8.h"
#include "service/cli/common/cli_output.h"
#include "service/protocol/json.h"

/* --- numbers and times --- */

const char *output_bytes(uint64_t bytes, char out[OUTPUT_TEXT_SIZE])
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        (void)snprintf(out, OUTPUT_TEXT_SIZE, "%u B", (unsigned)bytes);
        return out;
    }
    double value = (double)bytes / 1024;
    size_t unit = 0;
    while (value >= 1023.95 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        value /= 1024;
        unit++;
    }
    (void)snprintf(out, OUTPUT_TEXT_SIZE, "%.1f %s", value, units[unit]);
    return out;
}

const char *output_duration(uint64_t seconds, char out[OUTPUT_TEXT_SIZE])
{
    unsigned long long s = seconds;
    if (s < 60)
        (void)snprintf(out, OUTPUT_TEXT_SIZE, "%llus", s);
    else if (s < 3600)
        (void)snprintf(out, OUTPUT_TEXT_SIZE, "%llum %02llus", s / 60, s % 60);
    else if (s < 86400)
        (void)snprintf(out, OUTPUT_TEXT_SIZE, "%lluh %02llum", s / 3600, s / 60 % 60);
    else
        (void)snprintf(out, OUTPUT_TEXT_SIZE, "%llud %02lluh", s / 86400, s / 3600 % 24);
    return out;
}

const char *output_latency(uint64_t us, char out[OUTPUT_TEXT_SIZE])
{
    if (us < 1000)
        (void)snprintf(out, OUTPUT_TEXT_SIZE, "%uus", (unsigned)us);
    else if (us < 1000000)
        (void)snprintf(out, OUTPUT_TEXT_SIZE, us < 100000 ? "%.2fms" : "%.0fms", (double)us / 1e3);
    else
        (void)snprintf(out, OUTPUT_TEXT_SIZE, "%.2fs", (double)us / 1e6);
    return out;
}

const char *output_percent(double ratio, char out[OUTPUT_TEXT_SIZE])
{
    double percent = ratio * 100;
    if (percent > 0 && percent < 0.05)
        (void)snprintf(out, OUTPUT_TEXT_SIZE, "<0.1%%");
    else
        (void)snprintf(out, OUTPUT_TEXT_SIZE, percent > 0 && percent < 10 ? "%.1f%%" : "%.0f%%", percent);
    return out;
}

const char *output_rate(double rate, char out[OUTPUT_TEXT_SIZE])
{
    double percent = rate * 100;
    if (percent > 0 && percent < 1e-7) {
        (void)snprintf(out, OUTPUT_TEXT_SIZE, "<0.0000001%%");
        return out;
    }
    int decimals = percent > 0 && percent < 100 ? 2 - (int)floor(log10(percent)) : 0;
    size_t n = (size_t)snprintf(out, OUTPUT_TEXT_SIZE, "%.*f", decimals < 20 ? decimals : 20, percent);
    if (n >= OUTPUT_TEXT_SIZE - 1) /* a huge number, not a rate */
        n = (size_t)snprintf(out, OUTPUT_TEXT_SIZE, "%g", percent);
    while (memchr(out, '.', n) != NULL && (out[n - 1] == '0' || out[n - 1] == '.'))
        n--;
    (void)snprintf(out + n, OUTPUT_TEXT_SIZE - n, "%%");
    return out;
}

const char *output_time(uint64_t unix_seconds, char out[OUTPUT_TEXT_SIZE])
{
    time_t t = (time_t)unix_seconds;
    struct tm tm;
    if (localtime_r(&t, &tm) == NULL || strftime(out, OUTPUT_TEXT_SIZE, "%Y-%m-%d %H:%M:%S %z", &tm) == 0)
        (void)snprintf(out, OUTPUT_TEXT_SIZE, "%llu", (unsigned long long)unix_seconds);
    return out;
}

const char *output_when(uint64_t unix_seconds, uint64_t now, char out[OUTPUT_TEXT_SIZE])
{
    char left[OUTPUT_TEXT_SIZE], at[OUTPUT_TEXT_SIZE] = "?";
    time_t t = (time_t)unix_seconds, today = (time_t)now;
    struct tm then = {0}, current = {0};
    if (unix_seconds <= now) {
        (void)snprintf(out, OUTPUT_TEXT_SIZE, "now");
        return out;
    }
    (void)output_duration(unix_seconds - now, left);
    bool told = localtime_r(&t, &then) != NULL && localtime_r(&today, &current) != NULL;
    if (told && unix_seconds - now < UINT64_C(20) * 3600)
        (void)strftime(at, sizeof(at), "%H:%M", &then);
    else if (told && unix_seconds - now < UINT64_C(300) * 86400)
        (void)strftime(at, sizeof(at), "%b %d %H:%M", &then);
    else if (told)
        (void)strftime(at, sizeof(at), "%Y-%m-%d", &then);
    (void)snprintf(out, OUTPUT_TEXT_SIZE, "%.24s, in %.24s", at, left);
    return out;
}

const char *output_count(uint64_t n, char out[OUTPUT_TEXT_SIZE])
{
    static const char units[] = "KMGTPE";
    if (n < 1000) {
        (void)snprintf(out, OUTPUT_TEXT_SIZE, "%u", (unsigned)n);
        return out;
    }
    double value = (double)n / 1000;
    size_t unit = 0;
    while (value >= 999.5 && unit + 1 < sizeof(units) - 1) {
        value /= 1000;
        unit++;
    }
    (void)snprintf(out, OUTPUT_TEXT_SIZE, value < 99.95 ? "%.1f%c" : "%.0f%c", value, units[unit]);
    return out;
}

unsigned output_columns(void)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

const char *output_bar(double ratio, unsigned width, char out[OUTPUT_TEXT_SIZE])
{
    if (width > OUTPUT_TEXT_SIZE - 4)
        width = OUTPUT_TEXT_SIZE - 4;
    double filled = round((ratio >= 0 ? fmin(ratio, 1) : 0) * width);
    out[0] = '[';
    for (unsigned i = 0; i < width; i++)
        out[1 + i] = i < filled ? '#' : '.';
    out[1 + width] = ']';
    out[2 + width] = '\0';
    return out;
}

bool output_parse_count(const char *text, uint64_t *out)
{
    size_t length = strlen(text);
    double factor = 1;
    if (length != 0) {
        char unit = text[length - 1];
        factor = unit == 'K' || unit == 'k'   ? 1e3
                 : unit == 'M' || unit == 'm' ? 1e6
                 : unit == 'G' || unit == 'g' ? 1e9
                 : unit == 'T' || unit == 't' ? 1e12
                                              : 1;
        length -= factor > 1;
    }
    uint64_t whole;
    if (factor <= 1 && number_u64(text, length, &whole)) {
        *out = whole;
        return whole != 0;
    }
    double value;
    if (!number_double(text, length, &value))
        return false;
    value *= factor;
    double nearest = round(value); /* 1.1 x 1e6 is not exact */
    if (!(nearest >= 1 && nearest <= 9007199254740992.0) || fabs(value - nearest) > nearest * 1e-12)
        return false;
    *out = (uint64_t)nearest;
    return true;
}

bool output_parse_bytes(const char *text, uint64_t *out)
{
    static const char units[] = "KMGTP";
    size_t length = strspn(text, "0123456789.");
    const char *unit = text + length;
    double value, factor = 1;
    const char *found = unit[0] == '\0' ? NULL : strchr(units, toupper((unsigned char)unit[0]));
    if (found != NULL) {
        factor = ldexp(1, 10 * (int)(found - units + 1));
        unit++;
    }
    bool known =
        unit[0] == '\0' || strcasecmp(unit, "B") == 0 || (found != NULL && strcasecmp(unit, "iB") == 0);
    if (!known || !number_double(text, length, &value))
        return false;
    value *= factor;
    if (!(value >= 1 && value <= 9007199254740992.0) || value > floor(value))
        return false;
    *out = (uint64_t)value;
    return true;
}

/* --- bytes from outside --- */

/* C0, DEL, and C1, which some terminals interpret like ESC [. */
static bool is_control(const char *bytes, size_t n)
{
    unsigned char c = (unsigned char)bytes[0];
    return c < 0x20 || c == 0x7f || (n == 2 && c == 0xc2 && (unsigned char)bytes[1] < 0xa0);
}

void output_escape(struct buffer *b, const char *bytes, size_t length)
{
    for (size_t i = 0; i < length;) {
        size_t n = utf8_sequence(bytes + i, length - i);
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
    json_put_text(j->out, bytes, length);
}

void json_text(struct json *j, const char *name, const char *text)
{
    json_name(j, name);
    json_string(j, text, strlen(text));
}

void json_count(struct json *j, const char *name, uint64_t n)
{
    json_name(j, name);
    json_integer(j, (int64_t)n);
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

void json_number_or_string(struct json *j, const char *text, size_t length)
{
    static regex_t number; /* RFC 8259, section 6 */
    static bool ready;
    if (!ready)
        ready = regcomp(&number, "^-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?$",
                        REG_EXTENDED | REG_NOSUB) == 0;
    if (!ready || strlen(text) != length || regexec(&number, text, 0, NULL, 0) != 0) {
        json_string(j, text, length);
        return;
    }
    separate(j);
    buffer_append(j->out, text, length);
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

/* The columns of @text on a terminal, if each character takes one. */
static size_t width_of(const char *text)
{
    size_t width = 0;
    for (; *text != '\0'; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

/* The widths of all columns, by one walk over the cells. */
static void measure(const struct table *t, size_t width[TABLE_COLUMNS_MAX])
{
    for (size_t c = 0; c < t->columns; c++)
        width[c] = t->column[c].title == NULL ? 0 : width_of(t->column[c].title);
    const char *at = t->text.data;
    for (size_t i = 0; i < t->cells; i++, at += strlen(at + 1) + 2)
        if (width_of(at + 1) > width[i % t->columns])
            width[i % t->columns] = width_of(at + 1);
}

/* Print a cell. Padding is held back in @pad until text follows on the line, so that no line ends with
 * blanks. */
static void print_cell(const struct table *t, size_t column, const size_t *width, size_t *pad,
                       const char *text, enum output_color color, FILE *to, bool colored)
{
    size_t fill = width[column] - width_of(text);
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
    size_t pad = 0, width[TABLE_COLUMNS_MAX];
    measure(t, width);
    if (t->column[0].title != NULL) {
        for (size_t c = 0; c < t->columns; c++)
            print_cell(t, c, width, &pad, t->column[c].title, COLOR_QUIET, to, colored);
        (void)fputc('\n', to);
    }
    const char *at = t->text.data;
    for (size_t i = 0; i < t->cells; i++, at += strlen(at + 1) + 2) {
        pad = i % t->columns == 0 ? 0 : pad;
        print_cell(t, i % t->columns, width, &pad, at + 1, (enum output_color)at[0], to, colored);
        if (i % t->columns == t->columns - 1)
            (void)fputc('\n', to);
    }
}
