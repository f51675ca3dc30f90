/* SPDX-License-Identifier: MIT */
/* rows N < homepages: N rows of short_link in the form that COPY (code, url, created_at, deleted_at) reads.
 * Each line of the input is a URL; where there are none, URLs are made up. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/number.h"
#include "deploy/codes.h"

enum { URL_MAX = 2048, DELETED_EVERY = 50, SECONDS_BETWEEN_ROWS = 25 };

struct urls {
    char **items;
    size_t count;
};

/* Only what needs no escaping in COPY's text form. */
static bool usable(const char *line, size_t length)
{
    if (length == 0 || (strncmp(line, "http://", 7) != 0 && strncmp(line, "https://", 8) != 0))
        return false;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)line[i] <= ' ' || (unsigned char)line[i] > '~' || line[i] == '\\')
            return false;
    return true;
}

static bool urls_read(struct urls *urls, FILE *from)
{
    char line[URL_MAX];
    size_t capacity = 0;
    while (fgets(line, sizeof(line), from) != NULL) {
        size_t length = strcspn(line, "\r\n");
        line[length] = '\0';
        if (!usable(line, length))
            continue;
        if (urls->count == capacity) {
            capacity = capacity == 0 ? 1024 : capacity * 2;
            char **grown = realloc(urls->items, capacity * sizeof(*grown));
            if (grown == NULL)
                return false;
            urls->items = grown;
        }
        urls->items[urls->count] = strdup(line);
        if (urls->items[urls->count] == NULL)
            return false;
        urls->count++;
    }
    return true;
}

static void print_time(time_t t)
{
    struct tm parts;
    char text[32];
    if (gmtime_r(&t, &parts) == NULL || strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S+00", &parts) == 0)
        (void)snprintf(text, sizeof(text), "now");
    (void)fputs(text, stdout);
}

static void print_row(uint64_t i, uint64_t total, const struct urls *urls, time_t now)
{
    time_t created = now - (time_t)((total - i) * SECONDS_BETWEEN_ROWS);
    (void)printf("%s\t", code_of(i).text);
    if (urls->count > 0)
        (void)printf("%s\t", urls->items[(i * UINT64_C(2654435761)) % urls->count]);
    else
        (void)printf("https://www.example.org/page/%llu\t", (unsigned long long)i);
    print_time(created);
    (void)fputc('\t', stdout);
    if (i % DELETED_EVERY == DELETED_EVERY - 1)
        print_time(created + (time_t)SECONDS_BETWEEN_ROWS / 2);
    else
        (void)fputs("\\N", stdout);
    (void)fputc('\n', stdout);
}

int main(int argc, char **argv)
{
    uint64_t total;
    if (argc != 2 || !number_u64(argv[1], strlen(argv[1]), &total) || total >= CODE_COUNT / 64) {
        (void)fprintf(stderr, "usage: rows N < urls\n");
        return 2;
    }
    struct urls urls = {0};
    bool ok = urls_read(&urls, stdin);
    if (!ok)
        (void)fprintf(stderr, "rows: no memory for the list of URLs\n");
    time_t now = time(NULL);
    for (uint64_t i = 0; ok && i < total && !ferror(stdout); i++)
        print_row(i, total, &urls, now);
    if (ok && (fflush(stdout) != 0 || ferror(stdout))) {
        (void)fprintf(stderr, "rows: the output could not be written\n");
        ok = false;
    }
    for (size_t i = 0; i < urls.count; i++)
        free(urls.items[i]);
    free(urls.items);
    return ok ? 0 : 1;
}
