/* SPDX-License-Identifier: MIT */
#include "tests/integration/scrape.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/lib/http.h"
#include "tests/lib/raw.h"

char *scrape(const struct daemon *d, const char *headers)
{
    int fd = raw_open(d->http_port);
    assert_true(fd >= 0);
    assert_true(http_send(fd, "GET", "/metrics", headers == NULL ? "" : headers, NULL, 0));
    struct http_reply r = http_receive(fd, false);
    raw_close(fd);
    if (r.status != 200)
        fail_msg("%d: %s", r.status, r.body == NULL ? "" : r.body);
    char *text = strdup(r.body);
    assert_non_null(text);
    http_reply_fini(&r);
    return text;
}

double scrape_value(const char *text, const char *series)
{
    size_t length = strlen(series);
    for (const char *at = text; (at = strstr(at, series)) != NULL; at++)
        if ((at == text || at[-1] == '\n') && at[length] == ' ')
            return strtod(at + length, NULL);
    return (double)NAN;
}

double scraped(const struct daemon *d, const char *series)
{
    char *text = scrape(d, NULL);
    double value = scrape_value(text, series);
    free(text);
    return value;
}

void scrape_wait(const struct daemon *d, const char *series, double wanted)
{
    uint64_t until = clock_mono_us() + 60u * 1000 * 1000;
    double value;
    while ((value = scraped(d, series)) != wanted) {
        if (clock_mono_us() > until)
            fail_msg("%s is %g, not %g", series, value, wanted);
        clock_sleep_us(50 * 1000);
    }
}

bool scrape_has(const struct scrape_names *in, const char *name)
{
    for (size_t i = 0; i < in->count; i++)
        if (strcmp(in->name[i], name) == 0)
            return true;
    return false;
}

void scrape_names(struct scrape_names *to, const char *text)
{
    static const char head[] = "# TYPE ";
    for (const char *at = text; (at = strstr(at, head)) != NULL;) {
        char name[96];
        at += sizeof(head) - 1;
        (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, " "), at);
        if (scrape_has(to, name))
            continue;
        assert_true(to->count < SCRAPE_NAMES_MAX);
        memcpy(to->name[to->count++], name, sizeof(name));
    }
}

void scrape_pipe(const char *text, const char *command)
{
    FILE *to = popen(command, "w"); /* NOLINT(cert-env33-c): a literal of the test */
    assert_non_null(to);
    assert_int_equal(fwrite(text, 1, strlen(text), to), strlen(text));
    int status = pclose(to);
    if (status != 0)
        fail_msg("%s: %d", command, status);
}
