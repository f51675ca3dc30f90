/* SPDX-License-Identifier: MIT */
/* Messages of pgoutput: no bytes may crash the decoder, and an accepted message can be read to its end within
 * its bytes. The first byte of the input selects the id columns. */
#include <string.h>

#include "migrate/change/pgoutput.h"
#include "tests/fuzz/fuzz.h"

static const char *begin, *end; /* of the message */

static void check_text(const char *text)
{
    fuzz_check(text >= begin && text < end);
    fuzz_check(memchr(text, '\0', (size_t)(end - text)) != NULL);
}

static void check_row(const struct pgoutput_row *row)
{
    for (uint16_t i = 0; i < row->count && i < 64; i++) {
        struct pgoutput_value v = pgoutput_value_at(row, i);
        fuzz_check(v.length == 0 ||
                   (v.bytes >= begin && v.bytes < end && v.length <= (size_t)(end - v.bytes)));
        fuzz_check(v.length == 0 || v.kind == PGOUTPUT_TEXT || v.kind == PGOUTPUT_BINARY);
    }
}

/* COPY must read the id as one line with @columns values. */
static void check_id(const char *id, size_t length, size_t columns)
{
    size_t tabs = 0;
    for (size_t i = 0; i < length; i++) {
        tabs += id[i] == '\t';
        fuzz_check(id[i] != '\n' && id[i] != '\r');
        if (id[i] == '\\')
            fuzz_check(++i < length && strchr("bfnrtv\\", id[i]) != NULL && id[i] != '\0');
    }
    fuzz_check(tabs == columns - 1);
}

static void try_id(const struct pgoutput_change *change, uint8_t choice)
{
    const uint16_t columns[] = {(uint16_t)(choice & 7), (uint16_t)(choice >> 3 & 7), (uint16_t)(choice >> 6)};
    struct buffer id = {0};
    struct error e = {{0}};
    for (size_t count = 1; count <= 3; count++) {
        buffer_clear(&id);
        if (pgoutput_put_id(change, columns, count, &id, &e) == ERR_OK)
            check_id(id.data == NULL ? "" : id.data, id.length, count);
        else
            fuzz_check(id.length == 0 && e.text[0] != '\0');
    }
    buffer_fini(&id);
}

static void try_relation(const struct pgoutput_relation *r)
{
    uint16_t index = 0;
    check_text(r->schema);
    check_text(r->name);
    if (pgoutput_find_column(r, "id", &index))
        fuzz_check(index < r->column_count);
    fuzz_check(r->columns >= (const uint8_t *)begin && r->end <= (const uint8_t *)end);
}

static void try_message(const char *bytes, size_t size, uint8_t choice)
{
    struct pgoutput_message m;
    struct error e = {{0}};
    if (pgoutput_decode(&m, bytes, size, &e) != ERR_OK) {
        fuzz_check(e.text[0] != '\0');
        return;
    }
    if (m.kind == PGOUTPUT_RELATION)
        try_relation(&m.relation);
    if (m.kind != PGOUTPUT_INSERT && m.kind != PGOUTPUT_UPDATE && m.kind != PGOUTPUT_DELETE)
        return;
    fuzz_check(m.change.has_new == (m.kind != PGOUTPUT_DELETE));
    check_row(&m.change.old_row);
    check_row(&m.change.new_row);
    try_id(&m.change, choice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    char *bytes = malloc(size > 1 ? size - 1 : 1); /* exact size */
    fuzz_check(bytes != NULL);
    if (size > 1)
        memcpy(bytes, data + 1, size - 1);
    begin = bytes;
    end = bytes + size - 1;
    try_message(bytes, size - 1, data[0]);
    free(bytes);
    return 0;
}
