/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_SCRAPE_H
#define TESTS_INTEGRATION_SCRAPE_H
/* Reads /metrics of a coordinator. */
#include <stdbool.h>
#include "tests/integration/fixture.h"

/* GET /metrics; the status must be 200. Returns the text, which the caller frees. @headers: further lines
 * with CRLF; NULL: none. */
char *scrape(const struct daemon *d, const char *headers);

/* The value of the line that begins with @series, e.g. "x_total{filter=\"a\"}"; NAN: there is none. */
double scrape_value(const char *text, const char *series);
/* The same value, scraped now. */
double scraped(const struct daemon *d, const char *series);
/* Scrape until the value is @wanted, for a minute at most. */
void scrape_wait(const struct daemon *d, const char *series, double wanted);

/* Names of metrics; scrape_names() adds those of the lines "# TYPE" in @text. */
enum { SCRAPE_NAMES_MAX = 256 };
struct scrape_names {
    char name[SCRAPE_NAMES_MAX][96];
    size_t count;
};
void scrape_names(struct scrape_names *to, const char *text);
bool scrape_has(const struct scrape_names *in, const char *name);

/* Have @command read @text; its exit status must be 0. */
void scrape_pipe(const char *text, const char *command);
#endif
