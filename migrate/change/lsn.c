/* SPDX-License-Identifier: MIT */
#include "migrate/change/lsn.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"

enum {
    PAGE_HEADER = 24,    /* bytes in front of the records of a WAL page */
    SEGMENT_HEADER = 40, /* the same, of the first page of a segment */
    HALF_DIGITS = 8,
};

bool lsn_parse(const char *text, uint64_t *out)
{
    uint64_t high;
    uint64_t low;
    size_t digits = strcspn(text, "/");
    if (text[digits] != '/' || digits > HALF_DIGITS || strlen(text + digits + 1) > HALF_DIGITS)
        return false;
    if (!number_hex64(text, digits, &high) ||
        !number_hex64(text + digits + 1, strlen(text + digits + 1), &low))
        return false;
    *out = high << 32 | low;
    return true;
}

const char *lsn_format(uint64_t lsn, char out[LSN_TEXT])
{
    (void)snprintf(out, LSN_TEXT, "%" PRIX32 "/%" PRIX32, (uint32_t)(lsn >> 32), (uint32_t)lsn);
    return out;
}

uint64_t lsn_record_end(uint64_t insert, uint64_t block, uint64_t segment)
{
    if (block == 0 || segment == 0)
        return insert;
    if (insert % segment == SEGMENT_HEADER)
        return insert - SEGMENT_HEADER;
    bool first_page = insert % segment < block;
    return insert % block == PAGE_HEADER && !first_page ? insert - PAGE_HEADER : insert;
}
