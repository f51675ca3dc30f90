/* SPDX-License-Identifier: MIT */
#ifndef DEPLOY_KEYSET_H
#define DEPLOY_KEYSET_H
/* What reading the table costs when nothing is done with it: the yardsticks of a rebuild. */
#include <libpq-fe.h>
#include <stdint.h>
#include "base/error.h"

struct keyset_result {
    uint64_t rows;
    double seconds;
};

/* Read all live codes of short_link by keyset pages of @page_rows rows, one after the other, each fetched
 * whole. */
MUST_CHECK enum err keyset_scan(PGconn *pg, unsigned page_rows, struct keyset_result *out, struct error *e);

/* Called for each row of a COPY, without the line's end. */
typedef void keyset_row_fn(void *arg, const char *code, size_t length);

/* Read all live codes by one COPY (SELECT code ...) TO STDOUT. @fn may be NULL. */
MUST_CHECK enum err keyset_copy(PGconn *pg, keyset_row_fn *fn, void *arg, struct keyset_result *out,
                                struct error *e);
#endif
