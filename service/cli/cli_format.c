/* SPDX-License-Identifier: MIT */
/* Numbers for people, and from them. */
#include <ctype.h>
#include <math.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/number.h"
#include "service/cli/cli_output.h"

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
    if (n >= OUTPUT_TEXT_SIZE - 1) /* no rate */
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
    double nearest = round(value); /* 1.1 x 1e6 is off by a whisker */
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
