/* SPDX-License-Identifier: MIT */
/* The messages are made by hand. Each is decoded from memory of its exact size, so that ASan reports a read
 * beyond the end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "migrate/change/pgoutput.h"

/* A string literal, without its NUL. */
#define BYTES(text) (text), sizeof(text) - 1

static enum err decode(struct pgoutput_message *m, char **memory, const char *bytes, size_t length,
                       struct error *e)
{
    *memory = malloc(length == 0 ? 1 : length);
    assert_non_null(*memory);
    memcpy(*memory, bytes, length);
    return pgoutput_decode(m, *memory, length, e);
}

static void refuse(const char *bytes, size_t length, const char *text)
{
    struct pgoutput_message m;
    struct error e = {{0}};
    char *memory;
    assert_int_equal(decode(&m, &memory, bytes, length, &e), ERR_PARSE);
    if (text != NULL)
        assert_string_equal(e.text, text);
    free(memory);
}

/* The message is valid. Every shorter piece is refused, and so is the message with one more byte. */
static struct pgoutput_message accept(char **memory, const char *bytes, size_t length)
{
    struct pgoutput_message m;
    struct error e = {{0}};
    for (size_t n = 0; n < length; n++)
        refuse(bytes, n, NULL);
    char *longer = malloc(length + 1);
    assert_non_null(longer);
    memcpy(longer, bytes, length);
    longer[length] = 'x';
    refuse(longer, length + 1, NULL);
    free(longer);
    if (decode(&m, memory, bytes, length, &e) != ERR_OK)
        fail_msg("%s", e.text);
    return m;
}

#define TIME "\0\0\0\0\0\0\0\1"

static void test_pgoutput_decode__reads_the_ends_of_a_transaction(void **state)
{
    (void)state;
    char *memory;
    struct pgoutput_message m = accept(&memory, BYTES("B\0\0\0\1\xff\0\0\2" TIME "\0\0\3\xe8"));
    assert_int_equal(m.kind, PGOUTPUT_BEGIN);
    assert_true(m.begin.commit_lsn == UINT64_C(0x1ff000002));
    assert_int_equal(m.begin.xid, 1000);
    free(memory);
    m = accept(&memory, BYTES("C\0\0\0\0\1\0\0\0\2\0\0\0\1\0\0\0\x30" TIME));
    assert_int_equal(m.kind, PGOUTPUT_COMMIT);
    assert_true(m.commit.commit_lsn == UINT64_C(0x100000002));
    assert_true(m.commit.end_lsn == UINT64_C(0x100000030));
    free(memory);
    refuse(BYTES("C\7\0\0\0\1\0\0\0\2\0\0\0\1\0\0\0\x30" TIME),
           "pgoutput: a commit with unknown flags 0x07 ('?')");
}

#define COLUMN(flag, name) flag name "\0\0\0\0\x19\xff\xff\xff\xff"
#define RELATION(columns) "R\0\0\x40\1public\0odd table\0d" columns

static void test_pgoutput_decode__reads_a_relation(void **state)
{
    (void)state;
    char *memory;
    struct pgoutput_message m =
        accept(&memory, BYTES(RELATION("\0\3" COLUMN("\0", "note") COLUMN("\1", "id") COLUMN("\1", "part"))));
    assert_int_equal(m.kind, PGOUTPUT_RELATION);
    assert_int_equal(m.relation.relid, 0x4001);
    assert_string_equal(m.relation.schema, "public");
    assert_string_equal(m.relation.name, "odd table");
    assert_int_equal(m.relation.identity, 'd');
    assert_int_equal(m.relation.column_count, 3);
    uint16_t at = 99;
    assert_true(pgoutput_find_column(&m.relation, "id", &at));
    assert_int_equal(at, 1);
    assert_true(pgoutput_find_column(&m.relation, "note", &at));
    assert_int_equal(at, 0);
    assert_true(pgoutput_find_column(&m.relation, "part", &at));
    assert_int_equal(at, 2);
    assert_false(pgoutput_find_column(&m.relation, "i", &at));
    assert_false(pgoutput_find_column(&m.relation, "ID", &at));
    free(memory);
    m = accept(&memory, BYTES("R\0\0\0\1\0t\0n\0\0")); /* a table of pg_catalog, without columns */
    assert_string_equal(m.relation.schema, "");
    assert_false(pgoutput_find_column(&m.relation, "", &at));
    free(memory);
}

static void test_pgoutput_decode__refuses_more_columns_than_there_are(void **state)
{
    (void)state;
    refuse(BYTES(RELATION("\xff\xff" COLUMN("\0", "id"))), "pgoutput: a message that is cut, 0x52 ('R')");
    refuse(BYTES("I\0\0\0\1N\xff\xff"
                 "n"),
           "pgoutput: a message that is cut, 0x49 ('I')");
    refuse(BYTES("I\0\0\0\1N\0\1t\xff\xff\xff\xff"
                 "1"),
           "pgoutput: a message that is cut, 0x49 ('I')");
    refuse(BYTES("T\xff\xff\xff\xff\0"), "pgoutput: a message that is cut, 0x54 ('T')");
}

static void has_value(const struct pgoutput_row *row, uint16_t index, enum pgoutput_value_kind kind,
                      const char *text)
{
    struct pgoutput_value v = pgoutput_value_at(row, index);
    assert_int_equal(v.kind, kind);
    assert_int_equal(v.length, strlen(text));
    assert_memory_equal(v.bytes, text, v.length);
}

static void test_pgoutput_decode__reads_the_row_of_an_insert(void **state)
{
    (void)state;
    char *memory;
    struct pgoutput_message m = accept(&memory, BYTES("I\0\0\x40\1N\0\5"
                                                      "t\0\0\0\2"
                                                      "42"
                                                      "n"
                                                      "u"
                                                      "b\0\0\0\1"
                                                      "\7"
                                                      "t\0\0\0\0"));
    assert_int_equal(m.kind, PGOUTPUT_INSERT);
    assert_int_equal(m.change.relid, 0x4001);
    assert_int_equal(m.change.old_kind, 0);
    assert_true(m.change.has_new);
    assert_int_equal(m.change.new_row.count, 5);
    has_value(&m.change.new_row, 0, PGOUTPUT_TEXT, "42");
    has_value(&m.change.new_row, 1, PGOUTPUT_NULL, "");
    has_value(&m.change.new_row, 2, PGOUTPUT_UNCHANGED, "");
    has_value(&m.change.new_row, 3, PGOUTPUT_BINARY, "\7");
    has_value(&m.change.new_row, 4, PGOUTPUT_TEXT, "");
    free(memory);
    refuse(BYTES("I\0\0\0\1K\0\0N\0\0"), "pgoutput: a row of unexpected kind 0x4b ('K')");
    refuse(BYTES("I\0\0\0\1N\0\1q"), "pgoutput: a value of unknown kind 0x71 ('q')");
}

static void test_pgoutput_decode__reads_both_rows_of_an_update(void **state)
{
    (void)state;
    char *memory;
    struct pgoutput_message m = accept(&memory, BYTES("U\0\0\0\1N\0\1t\0\0\0\1a"));
    assert_int_equal(m.change.old_kind, 0);
    has_value(&m.change.new_row, 0, PGOUTPUT_TEXT, "a");
    free(memory);
    m = accept(&memory, BYTES("U\0\0\0\1K\0\2t\0\0\0\1an"
                              "N\0\2t\0\0\0\1bu"));
    assert_int_equal(m.change.old_kind, 'K');
    has_value(&m.change.old_row, 0, PGOUTPUT_TEXT, "a");
    has_value(&m.change.old_row, 1, PGOUTPUT_NULL, "");
    has_value(&m.change.new_row, 0, PGOUTPUT_TEXT, "b");
    has_value(&m.change.new_row, 1, PGOUTPUT_UNCHANGED, "");
    free(memory);
    refuse(BYTES("U\0\0\0\1O\0\0O\0\0"), "pgoutput: a row of unexpected kind 0x4f ('O')");
}

static void test_pgoutput_decode__reads_what_nobody_asks_for(void **state)
{
    (void)state;
    char *memory;
    struct pgoutput_message m = accept(&memory, BYTES("D\0\0\0\1K\0\1t\0\0\0\1a"));
    assert_int_equal(m.kind, PGOUTPUT_DELETE);
    assert_false(m.change.has_new);
    free(memory);
    refuse(BYTES("D\0\0\0\1N\0\0"), "pgoutput: a row of unexpected kind 0x4e ('N')");
    assert_int_equal(accept(&memory, BYTES("T\0\0\0\2\3\0\0\0\1\0\0\0\2")).kind, PGOUTPUT_TRUNCATE);
    free(memory);
    assert_int_equal(accept(&memory, BYTES("O\0\0\0\0\0\0\0\1name\0")).kind, PGOUTPUT_ORIGIN);
    free(memory);
    assert_int_equal(accept(&memory, BYTES("Y\0\0\x40\2public\0mood\0")).kind, PGOUTPUT_TYPE);
    free(memory);
    assert_int_equal(accept(&memory, BYTES("M\1\0\0\0\0\0\0\0\1prefix\0\0\0\0\2\0\0")).kind,
                     PGOUTPUT_MESSAGE);
    free(memory);
}

static void test_pgoutput_decode__names_the_byte_of_an_unknown_message(void **state)
{
    (void)state;
    refuse(BYTES("S\0\0\0\1"), "pgoutput: an unknown message 0x53 ('S')");
    refuse(BYTES("\0"), "pgoutput: an unknown message 0x00 ('?')");
    refuse(BYTES("\xff"), "pgoutput: an unknown message 0xff ('?')");
    refuse(BYTES(""), "pgoutput: an empty message");
}

/* Expect the id of the row, or the error with this text. */
static void expect_id(const char *bytes, size_t length, const uint16_t *columns, size_t count,
                      enum err wanted, const char *text)
{
    struct pgoutput_message m;
    struct error e = {{0}};
    char *memory;
    struct buffer out = {0};
    buffer_puts(&out, "kept|");
    assert_int_equal(decode(&m, &memory, bytes, length, &e), ERR_OK);
    assert_int_equal(pgoutput_put_id(&m.change, columns, count, &out, &e), wanted);
    assert_string_equal(buffer_text(&out), wanted == ERR_OK ? text : "kept|");
    if (wanted != ERR_OK)
        assert_string_equal(e.text, text);
    buffer_fini(&out);
    free(memory);
}

static void test_pgoutput_put_id__takes_the_columns_in_the_order_of_the_id(void **state)
{
    (void)state;
    expect_id(BYTES("I\0\0\0\1N\0\3t\0\0\0\1at\0\0\0\1bt\0\0\0\1c"), (const uint16_t[]){2, 0}, 2, ERR_OK,
              "kept|c\ta");
    expect_id(BYTES("I\0\0\0\1N\0\2t\0\0\0\x8x\tx\\x\nx\rt\0\0\0\0"), (const uint16_t[]){0, 1}, 2, ERR_OK,
              "kept|x\\tx\\\\x\\nx\\r\t");
}

static void test_pgoutput_put_id__takes_what_did_not_change_from_the_old_row(void **state)
{
    (void)state;
    const uint16_t both[] = {0, 1};
    expect_id(BYTES("U\0\0\0\1K\0\2t\0\0\0\1at\0\0\0\1bN\0\2t\0\0\0\1cu"), both, 2, ERR_OK, "kept|c\tb");
    expect_id(BYTES("U\0\0\0\1O\0\2t\0\0\0\1at\0\0\0\1bN\0\2uu"), both, 2, ERR_OK, "kept|a\tb");
    static const char remedy[] =
        "a row's id is so long that Postgres keeps it out of line and did not send it; "
        "ALTER TABLE ... REPLICA IDENTITY FULL";
    expect_id(BYTES("U\0\0\0\1N\0\2t\0\0\0\1cu"), both, 2, ERR_CONFIG, remedy);
    expect_id(BYTES("U\0\0\0\1K\0\2t\0\0\0\1anN\0\2t\0\0\0\1cu"), both, 2, ERR_CONFIG,
              remedy); /* not a column of the key */
    expect_id(BYTES("U\0\0\0\1K\0\2t\0\0\0\1auN\0\2t\0\0\0\1cu"), both, 2, ERR_CONFIG, remedy);
    expect_id(BYTES("U\0\0\0\1K\0\1t\0\0\0\1aN\0\2t\0\0\0\1cu"), both, 2, ERR_CONFIG,
              remedy); /* the old row has fewer columns */
}

static void test_pgoutput_put_id__refuses_what_is_no_id(void **state)
{
    (void)state;
    const uint16_t both[] = {0, 1};
    expect_id(BYTES("I\0\0\0\1N\0\2t\0\0\0\1an"), both, 2, ERR_CONFIG,
              "a row's id is NULL; ALTER TABLE ... ALTER COLUMN ... SET NOT NULL");
    /* The new row counts, whatever the old row has. */
    expect_id(BYTES("U\0\0\0\1O\0\2t\0\0\0\1at\0\0\0\1bN\0\2t\0\0\0\1an"), both, 2, ERR_CONFIG,
              "a row's id is NULL; ALTER TABLE ... ALTER COLUMN ... SET NOT NULL");
    expect_id(BYTES("I\0\0\0\1N\0\1t\0\0\0\1a"), both, 2, ERR_PARSE,
              "pgoutput: a row of 1 columns has no column 2");
    expect_id(BYTES("I\0\0\0\1N\0\2t\0\0\0\1ab\0\0\0\1\1"), both, 2, ERR_PARSE,
              "pgoutput: a row's id came in binary");
    expect_id(BYTES("D\0\0\0\1K\0\1t\0\0\0\1a"), both, 1, ERR_PARSE,
              "pgoutput: a row of 0 columns has no column 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pgoutput_decode__reads_the_ends_of_a_transaction),
        cmocka_unit_test(test_pgoutput_decode__reads_a_relation),
        cmocka_unit_test(test_pgoutput_decode__refuses_more_columns_than_there_are),
        cmocka_unit_test(test_pgoutput_decode__reads_the_row_of_an_insert),
        cmocka_unit_test(test_pgoutput_decode__reads_both_rows_of_an_update),
        cmocka_unit_test(test_pgoutput_decode__reads_what_nobody_asks_for),
        cmocka_unit_test(test_pgoutput_decode__names_the_byte_of_an_unknown_message),
        cmocka_unit_test(test_pgoutput_put_id__takes_the_columns_in_the_order_of_the_id),
        cmocka_unit_test(test_pgoutput_put_id__takes_what_did_not_change_from_the_old_row),
        cmocka_unit_test(test_pgoutput_put_id__refuses_what_is_no_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
