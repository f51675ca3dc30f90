/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "service/commands/command.h"
#include "service/config/users.h"

/* The hash of "hello". */
#define HASH "$y$j75$wxZuc9zvOwHhA1nQX8/PP0$d4Gp/uaOMD/tjgUyHthHB1RcgHeLw8WAR4BqJ.u7e57"
/* The hash of "abc", from FIPS 180-2, appendix B.1. */
#define ABC "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define NONE "sha256:0000000000000000000000000000000000000000000000000000000000000000"

static struct config *config_of(const char *text)
{
    struct config *c = NULL;
    struct error e = {{0}};
    FILE *f = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    assert_non_null(f);
    if (config_read_stream(&c, f, "t.ini", &e) != ERR_OK)
        fail_msg("refused: %s", e.text);
    (void)fclose(f);
    return c;
}

static const struct config_user *find(const struct config *c, const char *name)
{
    return users_find(c, name, strlen(name));
}

static void test_roles_parse__knows_what_implies_what(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good;
        unsigned roles;
    } rows[] = {{"read", true, ROLE_READ},
                {"write", true, ROLE_READ | ROLE_WRITE},
                {"admin", true, ROLE_ALL},
                {" read ,write", true, ROLE_READ | ROLE_WRITE},
                {"", false, 0},
                {"read,", false, 0},
                {"Read", false, 0},
                {"reader", false, 0},
                {"read write", false, 0}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        unsigned roles = 0;
        assert_int_equal(roles_parse(rows[i].text, &roles), rows[i].good);
        if (rows[i].good)
            assert_int_equal(roles, rows[i].roles);
    }
}

static void test_users_find__default_is_everybody_until_there_is_a_password_or_a_user(void **state)
{
    (void)state;
    struct config *open = config_of("[service]\nlisten = 127.0.0.1:1\n"),
                  *password = config_of("[service]\npassword = x\n"),
                  *users = config_of("[user app]\npassword = " HASH "\n[user off]\npassword = " HASH
                                     "\nenabled = no\n"),
                  *both = config_of("[service]\npassword = x\n[user app]\npassword = " HASH "\n");
    assert_false(users_login_required(open));
    assert_true(users_login_required(password));
    assert_true(users_login_required(users));
    assert_true(users_login_required(both));
    assert_int_equal(find(open, "default")->roles, ROLE_ALL);
    assert_non_null(find(password, "default"));
    assert_null(find(users, "default"));
    assert_non_null(find(both, "default"));
    assert_non_null(find(users, "app"));
    assert_null(find(users, "off"));
    assert_null(find(users, "App"));
    assert_null(find(users, ""));
    assert_null(users_find(users, "app\0x", 5));
    config_free(open);
    config_free(password);
    config_free(users);
    config_free(both);
}

static void test_users_patterns_match__takes_any_of_a_list(void **state)
{
    (void)state;
    static const struct {
        const char *patterns, *filter;
        bool match;
    } rows[] = {{"*", "x", true},        {"*", "", true},
                {"a*", "abc", true},     {"a*", "Abc", false},
                {"a*, b?", "b1", true},  {"a*, b?", "b12", false},
                {"a,b", "a,b", false},   {"a\\,b", "a,b", true},
                {"[a-c]x", "bx", true},  {"[a-c]x", "Bx", false},
                {"a\\*", "a*", true},    {"a\\*", "ab", false},
                {"", "", false},         {" , ", "", false},
                {"a\\ , b", "a ", true}, {"short-link", "short-lin", false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (users_patterns_match(rows[i].patterns, rows[i].filter, strlen(rows[i].filter)) != rows[i].match)
            fail_msg("'%s' and '%s'", rows[i].patterns, rows[i].filter);
}

static void test_user_may__is_bounded_by_roles_and_patterns(void **state)
{
    (void)state;
    struct config *c = config_of("[user app]\npassword = " HASH "\nroles = write\nfilters = app-*\n");
    const struct config_user *u = find(c, "app");
    assert_true(user_may(u, ROLE_READ));
    assert_true(user_may(u, ROLE_WRITE));
    assert_false(user_may(u, ROLE_ADMIN));
    assert_true(user_may_filter(u, "app-1", 5));
    assert_false(user_may_filter(u, "other", 5));
    assert_false(user_may_all_filters(u));
    config_free(c);
}

static void test_users_verify__takes_hashes_and_plain_text(void **state)
{
    (void)state;
    assert_true(users_is_hash(HASH));
    assert_false(users_is_hash("hello"));
    assert_false(users_is_hash("$y$hello"));
    assert_false(users_is_hash(""));
    assert_true(users_verify(HASH, "hello"));
    assert_false(users_verify(HASH, "hellO"));
    assert_false(users_verify(HASH, ""));
    assert_false(users_verify(HASH, HASH));
    assert_true(users_verify("plain", "plain"));
    assert_false(users_verify("plain", "plainer"));
    assert_false(users_verify("plain", ""));
    assert_false(users_verify("", "")); /* without a password no login succeeds */
}

static void test_users_by_token__finds_whose_it_is(void **state)
{
    (void)state;
    struct config *c = config_of("[user one]\ntoken = " NONE "\n[user two]\ntoken = " NONE ", " ABC "\n");
    assert_ptr_equal(users_by_token(c, "abc", 3), find(c, "two"));
    assert_null(users_by_token(c, "abcd", 4));
    assert_null(users_by_token(c, "", 0));
    assert_null(users_by_token(c, ABC, strlen(ABC))); /* the hash itself is no token */
    config_free(c);
    c = config_of("[user two]\ntoken = " ABC "\nenabled = no\n");
    assert_null(users_by_token(c, "abc", 3));
    config_free(c);
}

/* Every row must name a role. A row without a role would be for administrators only, perhaps by mistake. */
static void test_command_table__says_of_each_command_who_may_run_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < command_count; i++) {
        const struct command *command = &command_table[i];
        unsigned roles = command->flags & (COMMAND_READ | COMMAND_WRITE | COMMAND_FREE | COMMAND_ADMIN);
        if (roles == 0)
            fail_msg("%s: which role?", command->name);
        bool of_filters = strncmp(command->name, "BF.", 3) == 0 || strncmp(command->name, "TB.", 3) == 0;
        /* A command without arguments selects the filters of the user itself. */
        if (of_filters && command->arity != 1 && command->keys.first == 0)
            fail_msg("%s: which of its arguments is the filter?", command->name);
        if (of_filters && (command->flags & COMMAND_FREE) != 0)
            fail_msg("%s is for everybody", command->name);
    }
}

static void test_command_role__is_that_of_the_subcommand(void **state)
{
    (void)state;
    static const struct {
        const char *words[2];
        size_t count;
        unsigned role;
    } rows[] = {{{"BF.EXISTS", "f"}, 2, ROLE_READ},
                {{"BF.ADD", "f"}, 2, ROLE_WRITE},
                {{"TB.REBUILD", "f"}, 2, ROLE_ADMIN},
                {{"TB.STATUS", ""}, 1, ROLE_READ},
                {{"CONFIG", "get"}, 2, ROLE_ADMIN},
                {{"CONFIG", "nonsense"}, 2, ROLE_ADMIN},
                {{"CLIENT", "kill"}, 2, ROLE_ADMIN},
                {{"CLIENT", "List"}, 2, ROLE_ADMIN},
                {{"CLIENT", "SETNAME"}, 2, 0},
                {{"PING", ""}, 1, 0},
                {{"INFO", ""}, 1, 0}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct argument a[2];
        for (size_t j = 0; j < 2; j++)
            a[j] = (struct argument){.bytes = rows[i].words[j], .length = strlen(rows[i].words[j])};
        const struct command *command = command_find(a[0].bytes, a[0].length);
        assert_non_null(command);
        if (command_role(command, a, rows[i].count) != rows[i].role)
            fail_msg("%s %s", rows[i].words[0], rows[i].words[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_roles_parse__knows_what_implies_what),
        cmocka_unit_test(test_users_find__default_is_everybody_until_there_is_a_password_or_a_user),
        cmocka_unit_test(test_users_patterns_match__takes_any_of_a_list),
        cmocka_unit_test(test_user_may__is_bounded_by_roles_and_patterns),
        cmocka_unit_test(test_users_verify__takes_hashes_and_plain_text),
        cmocka_unit_test(test_users_by_token__finds_whose_it_is),
        cmocka_unit_test(test_command_table__says_of_each_command_who_may_run_it),
        cmocka_unit_test(test_command_role__is_that_of_the_subcommand),
    };
    return cmocka_run_group_tests_name("users", tests, NULL, NULL);
}
