/* SPDX-License-Identifier: MIT */
/* CLIENT, COMMAND and INFO, as tools and libraries use them. */
#include "tests/integration/contract.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct client *client(void)
{
    return &contract.fixture.client[0];
}

static redisReply *ask(const char *command)
{
    redisReply *r = client_command(client(), command);
    if (r == NULL || r->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", command, r != NULL ? r->str : "no reply");
    return r;
}

static void connect_named(struct client *c, const char *name)
{
    struct error e = {""};
    must(client_open(c, contract.fixture.daemon[0].port, 20000, &e), e);
    must(client_ok(c, &e, "CLIENT SETNAME %s", name), e);
}

/* The value of " field=" in a line of CLIENT LIST. */
static void field_of(const char *line, const char *field, char out[128])
{
    char name[32];
    (void)snprintf(name, sizeof(name), " %s=", field);
    const char *at = strstr(line, name);
    if (at == NULL) {
        fail_msg("no %s in: %s", field, line);
        return;
    }
    at += strlen(name);
    (void)snprintf(out, 128, "%.*s", (int)strcspn(at, " \n"), at);
}

static unsigned named(const char *list, const char *name)
{
    char text[64];
    unsigned count = 0;
    (void)snprintf(text, sizeof(text), " name=%s ", name);
    for (const char *at = strstr(list, text); at != NULL; at = strstr(at + 1, text))
        count++;
    return count;
}

/* --- CLIENT --- */

static void test_client__refuses_what_it_does_not_know(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"CLIENT", ARITY("client")},
        {"CLIENT NOSUCH", "-ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP."},
        {"CLIENT ID x", ARITY("client|id")},
        {"CLIENT SETNAME", ARITY("client|setname")},
        {"CLIENT SETNAME \"a b\"",
         "-ERR Client names cannot contain spaces, newlines or special characters."},
        {"CLIENT SETINFO LIB-NAME \"a b\"",
         "-ERR lib-name cannot contain spaces, newlines or special characters."},
        {"CLIENT SETINFO FOO x", "-ERR Unrecognized option 'FOO'"},
        {"CLIENT NO-EVICT on", "+OK"},
        {"CLIENT NO-TOUCH off", "+OK"},
        {"CLIENT NO-EVICT maybe", "-ERR syntax error"},
        {"CLIENT REPLY ON", "+OK"},
        {"CLIENT REPLY OFF", "-ERR CLIENT REPLY OFF and SKIP are not offered: every command is answered"},
        {"CLIENT LIST FOO", "-ERR syntax error"},
        {"CLIENT LIST ID", "-ERR syntax error"},
        {"CLIENT LIST ID abc", "-ERR Invalid client ID"},
        {"CLIENT LIST TYPE foo", "-ERR Unknown client type 'foo'"},
        {"CLIENT LIST TYPE pubsub", "$0\r\n"},
        {"CLIENT LIST ID 999999999", "$0\r\n"},
        {"CLIENT KILL", ARITY("client|kill")},
        {"CLIENT KILL 1.2.3.4:5", "-ERR No such client"},
        {"CLIENT KILL ID 0", "-ERR client-id should be greater than 0"},
        {"CLIENT KILL ID 999999999", ":0"},
        {"CLIENT KILL TYPE foo", "-ERR Unknown client type 'foo'"},
        {"CLIENT KILL ID 1 SKIPME", "-ERR syntax error"},
        {"CLIENT KILL SKIPME maybe", "-ERR syntax error"},
        {"CLIENT KILL FOO bar", "-ERR syntax error"},
        {"CLIENT KILL TYPE pubsub", ":0"},
        {"CLIENT KILL ADDR \"\" TYPE normal", ":0"},
        {"CLIENT KILL TYPE pubsub TYPE normal", ":0"},
        {"PING", "+PONG"},
    };
    RUN(rows);
}

static void test_client_names__of_any_length_are_kept_or_refused(void **state)
{
    (void)state;
    char name[300], request[400], reply[400];
    memset(name, 'n', sizeof(name));
    for (size_t length = 254; length < 258; length++) {
        (void)snprintf(request, sizeof(request), "CLIENT SETNAME %.*s", (int)length, name);
        const struct exchange set = {
            request, length < 256 ? "+OK" : "-ERR Client names cannot be longer than 255 bytes."};
        (void)snprintf(reply, sizeof(reply), "$%zu\r\n%.*s", length, (int)length, name);
        const struct exchange get = {"CLIENT GETNAME", length < 256 ? reply : "$-1"};
        int fd = contract_open();
        contract_run(fd, &set, 1);
        contract_run(fd, &get, 1);
        raw_close(fd);
    }
}

static void test_client_list__tells_of_the_clients_of_all_workers(void **state)
{
    (void)state;
    enum { CLIENTS = 300 }; /* more clients than the task handles in one visit */
    static struct client many[CLIENTS];
    for (size_t i = 0; i < CLIENTS; i++)
        connect_named(&many[i], "crowd");
    redisReply *r = ask("CLIENT LIST");
    assert_int_equal(r->type, REDIS_REPLY_STRING);
    assert_int_equal(named(r->str, "crowd"), CLIENTS);
    freeReplyObject(r);
    for (size_t i = 0; i < CLIENTS; i++)
        client_close(&many[i]);
}

static void test_client_list__has_a_line_in_the_form_of_redis(void **state)
{
    (void)state;
    static const struct {
        const char *field, *value;
    } wanted[] = {{"name", "lined"}, {"db", "0"},         {"multi", "-1"},      {"cmd", "bf.exists"},
                  {"resp", "2"},     {"user", "default"}, {"lib-name", "libx"}, {"lib-ver", "1.2"},
                  {"flags", "N"},    {"sub", "0"},        {"psub", "0"},        {"qbuf", "0"},
                  {"obl", "0"}};
    struct client other;
    struct error e = {""};
    int64_t id = 0;
    char address[32], text[128];
    connect_named(&other, "lined");
    must(client_ok(&other, &e, "CLIENT SETINFO LIB-NAME libx"), e);
    must(client_ok(&other, &e, "CLIENT SETINFO LIB-VER 1.2"), e);
    must(client_integer(&other, &id, &e, "CLIENT ID"), e);
    must(client_integer(&other, &(int64_t){0}, &e, "BF.EXISTS none a"), e);
    redisReply *r = client_command(client(), "CLIENT LIST ID %lld", (long long)id);
    if (r == NULL || r->type != REDIS_REPLY_STRING) {
        fail_msg("no list of one client");
        return;
    }
    assert_true(strchr(r->str, '\n') == r->str + r->len - 1); /* exactly one line */
    assert_int_equal(strtoll(r->str + 3, NULL, 10), id);
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        field_of(r->str, wanted[i].field, text);
        if (strcmp(text, wanted[i].value) != 0)
            fail_msg("%s is %s in: %s", wanted[i].field, text, r->str);
    }
    field_of(r->str, "age", text);
    assert_true(strtoul(text, NULL, 10) < 60);
    field_of(r->str, "idle", text);
    assert_true(strtoul(text, NULL, 10) < 60);
    (void)snprintf(address, sizeof(address), "127.0.0.1:%u", contract.fixture.daemon[0].port);
    field_of(r->str, "laddr", text);
    assert_string_equal(text, address);
    field_of(r->str, "addr", text);
    assert_memory_equal(text, "127.0.0.1:", 10);
    freeReplyObject(r);
    must(client_ok(&other, &e, "CLIENT SETINFO LIB-VER 1.3"), e);
    r = client_command(client(), "CLIENT LIST ID %lld", (long long)id);
    if (r == NULL || r->type != REDIS_REPLY_STRING || strstr(r->str, " cmd=client|setinfo ") == NULL)
        fail_msg("a subcommand has no name: %s", r != NULL ? r->str : "no reply");
    freeReplyObject(r);
    client_close(&other);
}

static void test_client_info__is_the_line_of_who_asks(void **state)
{
    (void)state;
    char got[512], text[128];
    int fd = contract_open();
    contract_hello3(fd);
    assert_true(raw_puts(fd, "CLIENT SETNAME me\r\nCLIENT INFO\r\n"));
    assert_true(raw_expect(fd, "+OK\r\n="));
    assert_true(raw_read_until(fd, "\n\r\n", got, sizeof(got)));
    assert_non_null(strstr(got, "txt:id="));
    field_of(got, "name", text);
    assert_string_equal(text, "me");
    field_of(got, "resp", text);
    assert_string_equal(text, "3");
    raw_close(fd);
}

static bool is_closed(struct client *c)
{
    redisReply *r = client_command(c, "PING");
    bool closed = r == NULL;
    freeReplyObject(r);
    client_close(c);
    return closed;
}

static void test_client_kill__closes_by_every_filter_and_counts(void **state)
{
    (void)state;
    struct error e = {""};
    struct client victim[3];
    int64_t id = 0, n = 0;
    char address[128];
    for (size_t i = 0; i < 3; i++)
        connect_named(&victim[i], "victim");
    must(client_integer(&victim[0], &id, &e, "CLIENT ID"), e);
    must(client_integer(client(), &n, &e, "CLIENT KILL ID %lld USER default TYPE normal", (long long)id), e);
    assert_int_equal(n, 1);
    assert_true(is_closed(&victim[0]));
    must(client_integer(client(), &n, &e, "CLIENT KILL ID %lld", (long long)id), e);
    assert_int_equal(n, 0);
    redisReply *r = client_command(&victim[1], "CLIENT INFO");
    assert_true(r != NULL && r->type == REDIS_REPLY_STRING);
    field_of(r->str, "addr", address);
    freeReplyObject(r);
    must(client_integer(client(), &n, &e, "CLIENT KILL ADDR %s USER nobody", address), e);
    assert_int_equal(n, 0);
    must(client_ok(client(), &e, "CLIENT KILL %s", address), e); /* the old form of CLIENT KILL */
    assert_true(is_closed(&victim[1]));
    must(client_ok(&victim[2], &e, "CLIENT SETNAME survivor"), e);
    client_close(&victim[2]);
}

static void test_client_kill__spares_who_asks_unless_told_otherwise(void **state)
{
    (void)state;
    struct error e = {""};
    struct client others[4], self;
    int64_t n = 0;
    for (size_t i = 0; i < 4; i++)
        connect_named(&others[i], "other");
    connect_named(&self, "self");
    must(client_integer(&self, &n, &e, "CLIENT KILL TYPE normal"), e);
    assert_true(n >= 5); /* including the fixture's clients */
    for (size_t i = 0; i < 4; i++)
        assert_true(is_closed(&others[i]));
    must(client_integer(&self, &n, &e, "CLIENT KILL TYPE normal SKIPME no"), e);
    assert_int_equal(n, 1);
    assert_true(is_closed(&self));
    fixture_reconnect(&contract.fixture, 0);
}

/* --- COMMAND --- */

static void test_command__lists_counts_and_finds_keys(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"COMMAND NOSUCH", "-ERR unknown subcommand 'NOSUCH'. Try COMMAND HELP."},
        {"COMMAND COUNT x", ARITY("command|count")},
        {"COMMAND GETKEYS", ARITY("command|getkeys")},
        {"COMMAND GETKEYS BF.ADD k a", "*1\r\n$1\r\nk"},
        {"COMMAND GETKEYS BF.ADD k", "-ERR Invalid number of arguments specified for command"},
        {"COMMAND GETKEYS DEL a b c", "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc"}, /* leaves a fourth argument */
        {"COMMAND GETKEYS TB.STATUS", "-ERR Invalid number of arguments specified for command"},
        {"COMMAND GETKEYS TB.COORDINATORS", "-ERR Invalid number of arguments specified for command"},
        {"COMMAND GETKEYS TB.STATUS k", "*1\r\n$1\r\nk"},
        {"COMMAND GETKEYS PING", "-ERR The command has no key arguments"},
        {"COMMAND GETKEYS NOSUCH", "-ERR Invalid command specified"},
        {"COMMAND LIST FILTERBY PATTERN bf.[ac]*", "*2\r\n$6\r\nbf.add\r\n$7\r\nbf.card"},
        {"COMMAND LIST FILTERBY FOO x", "-ERR syntax error"},
        {"COMMAND LIST x", "-ERR syntax error"},
        {"COMMAND DOCS nosuch", "*0"},
        {"COMMAND INFO nosuch", "*1\r\n$-1"},
    };
    RUN(rows);
    struct error e = {""};
    int64_t count = 0;
    must(client_integer(client(), &count, &e, "COMMAND COUNT"), e);
    static const char *const all[] = {"COMMAND", "COMMAND INFO", "COMMAND LIST"};
    for (size_t i = 0; i < 3; i++) {
        redisReply *r = ask(all[i]);
        assert_int_equal(r->elements, count);
        freeReplyObject(r);
    }
}

/* With the fewest words that each command takes. */
static void test_command_getkeys__returns_only_words_that_were_sent(void **state)
{
    (void)state;
    redisReply *info = ask("COMMAND");
    for (size_t i = 0; i < info->elements; i++) {
        const redisReply *command = info->element[i];
        long long words = llabs(command->element[1]->integer), first = command->element[3]->integer;
        char text[128];
        int n = snprintf(text, sizeof(text), "COMMAND GETKEYS %s", command->element[0]->str);
        for (long long k = 1; k < words; k++)
            n += snprintf(text + n, sizeof(text) - (size_t)n, " k");
        freeReplyObject(ask("COMMAND GETKEYS DEL a b c d e f")); /* its words must not show */
        redisReply *r = client_command(client(), text);
        bool has_key = first > 0 && first < words;
        assert_non_null(r);
        if (r->type != (has_key ? REDIS_REPLY_ARRAY : REDIS_REPLY_ERROR))
            fail_msg("wrong reply to: %s", text);
        for (size_t k = 0; k < r->elements; k++)
            assert_string_equal(r->element[k]->str, "k");
        freeReplyObject(r);
    }
    freeReplyObject(info);
}

/* Each name makes a reply of a hundred times its size. */
static void test_command_info_and_docs__take_as_many_names_as_there_are_commands(void **state)
{
    enum { WORDS_MAX = 256 };
    (void)state;
    static const char *const subcommands[] = {"INFO", "DOCS"};
    const char *words[WORDS_MAX] = {"COMMAND"};
    struct error e = {""};
    int64_t count = 0;
    must(client_integer(client(), &count, &e, "COMMAND COUNT"), e);
    assert_in_range(count, 1, WORDS_MAX - 3);
    for (size_t i = 2; i < WORDS_MAX; i++)
        words[i] = "PING";
    for (size_t i = 0; i < 2; i++) {
        words[1] = subcommands[i];
        redisReply *r = client_argv(client(), (size_t)count + 2, words, NULL);
        assert_true(r != NULL && r->type == REDIS_REPLY_ARRAY);
        freeReplyObject(r);
        r = client_argv(client(), (size_t)count + 3, words, NULL);
        assert_true(r != NULL && r->type == REDIS_REPLY_ERROR);
        freeReplyObject(r);
    }
}

static void test_command_info__has_arity_flags_and_keys(void **state)
{
    (void)state;
    redisReply *r = ask("COMMAND INFO BF.MADD ping");
    assert_int_equal(r->elements, 2);
    const redisReply *madd = r->element[0], *ping = r->element[1];
    assert_int_equal(madd->elements, 10);
    assert_string_equal(madd->element[0]->str, "bf.madd");
    assert_int_equal(madd->element[1]->integer, -3);
    assert_string_equal(madd->element[2]->element[0]->str, "write");
    for (size_t i = 3; i < 6; i++) {
        assert_int_equal(madd->element[i]->integer, 1);
        assert_int_equal(ping->element[i]->integer, 0);
    }
    assert_int_equal(madd->element[8]->elements, 1); /* the specification of the command's keys */
    assert_int_equal(ping->element[8]->elements, 0);
    freeReplyObject(r);
}

/* The map of a command in the flat array of COMMAND DOCS, or a value in a flat map; NULL: there is none. */
static const redisReply *value_of(const redisReply *map, const char *name)
{
    for (size_t i = 0; i + 1 < map->elements; i += 2)
        if (strcmp(map->element[i]->str, name) == 0)
            return map->element[i + 1];
    return NULL;
}

/* The least number of words of a request, by the documented arguments. */
static long long least_words(const redisReply *arguments)
{
    long long words = 1;
    for (size_t i = 0; arguments != NULL && i < arguments->elements; i++) {
        const redisReply *flags = value_of(arguments->element[i], "flags");
        bool optional = false;
        for (size_t k = 0; flags != NULL && k < flags->elements; k++)
            optional |= strcmp(flags->element[k]->str, "optional") == 0;
        if (!optional)
            words += value_of(arguments->element[i], "token") == NULL ? 1 : 2;
    }
    return words;
}

/* This fails if a new command lacks its arguments: see the table of command_docs.c. */
static void test_command_docs__describes_every_command_as_its_arity_has_it(void **state)
{
    (void)state;
    redisReply *docs = ask("COMMAND DOCS"), *info = ask("COMMAND");
    assert_int_equal(docs->elements, 2 * info->elements);
    for (size_t i = 0; i < info->elements; i++) {
        const char *name = info->element[i]->element[0]->str;
        long long arity = llabs(info->element[i]->element[1]->integer);
        const redisReply *doc = value_of(docs, name);
        if (doc == NULL || value_of(doc, "summary") == NULL || value_of(doc, "group") == NULL)
            fail_msg("%s is not described", name);
        long long words = least_words(value_of(doc, "arguments"));
        if (words != arity)
            fail_msg("%s takes %lld words, its arguments make %lld", name, arity, words);
    }
    freeReplyObject(docs);
    freeReplyObject(info);
}

/* --- INFO --- */

static void test_info__has_the_sections_that_are_asked_for(void **state)
{
    (void)state;
    static const char *const names[] = {"# Server\r\n",   "# Clients\r\n",     "# Memory\r\n",
                                        "# Stats\r\n",    "# Persistence\r\n", "# Replication\r\n",
                                        "# CPU\r\n",      "# Modules\r\n",     "# Cluster\r\n",
                                        "# Keyspace\r\n", "# Twinbloom\r\n"};
    static const char *const whole[] = {"INFO", "INFO everything", "info ALL", "INFO default"};
    for (size_t i = 0; i < 4; i++) {
        redisReply *r = ask(whole[i]);
        for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++)
            if (strstr(r->str, names[k]) == NULL)
                fail_msg("%s: no %s", whole[i], names[k]);
        freeReplyObject(r);
    }
    redisReply *r = ask("INFO cpu SERVER nosuch");
    assert_memory_equal(r->str, "# Server\r\nredis_version:7.", 26);
    assert_non_null(strstr(r->str, "\r\n\r\n# CPU\r\n"));
    assert_null(strstr(r->str, "# Stats"));
    freeReplyObject(r);
    r = ask("INFO nosuch");
    assert_string_equal(r->str, "");
    freeReplyObject(r);
}

/* Lettuce's MasterReplica with a list of addresses asks each for its ROLE, and fails where one has none. */
static void test_role__is_that_of_info(void **state)
{
    (void)state;
    static const struct exchange rows[] = {
        {"ROLE", "*3\r\n$6\r\nmaster\r\n:0\r\n*0"},
        {"role x", ARITY("role")},
    };
    RUN(rows);
    RUN3(rows);
    redisReply *r = ask("INFO replication");
    assert_non_null(strstr(r->str, "\r\nrole:master\r\n"));
    freeReplyObject(r);
}

static long long info_number(const char *field)
{
    redisReply *r = ask("INFO");
    char name[64];
    (void)snprintf(name, sizeof(name), "\r\n%s:", field);
    const char *at = strstr(r->str, name);
    if (at == NULL) {
        fail_msg("no %s in INFO", field);
        return -1;
    }
    long long value = strtoll(at + strlen(name), NULL, 10);
    freeReplyObject(r);
    return value;
}

static void test_info__counts_connections_commands_and_memory(void **state)
{
    (void)state;
    struct client other;
    long long connections = info_number("total_connections_received");
    long long commands = info_number("total_commands_processed");
    long long clients = info_number("connected_clients");
    connect_named(&other, "counted");
    assert_int_equal(info_number("connected_clients"), clients + 1);
    assert_int_equal(info_number("total_connections_received"), connections + 1);
    assert_true(info_number("total_commands_processed") > commands);
    assert_int_equal(info_number("tcp_port"), contract.fixture.daemon[0].port);
    assert_int_equal(info_number("process_id"), contract.fixture.daemon[0].process.pid);
    assert_int_equal(info_number("loading"), 0); /* else clients would wait */
    assert_true(info_number("used_memory") > 1000000);
    assert_true(info_number("total_system_memory") > info_number("used_memory"));
    client_close(&other);
}

/* Commands for every user reveal no secret. */
static void test_info__keeps_the_password_to_itself(void **state)
{
    (void)state;
    char got[8192];
    int fd = contract_open_guarded();
    assert_true(raw_puts(fd, "AUTH s3cret\r\nINFO\r\nCLIENT LIST\r\nCONFIG GET *\r\nECHO end-of-it\r\n"));
    assert_true(raw_read_until(fd, "end-of-it\r\n", got, sizeof(got)));
    assert_null(strstr(got, "s3cret"));
    raw_close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_client__refuses_what_it_does_not_know),
        cmocka_unit_test(test_client_names__of_any_length_are_kept_or_refused),
        cmocka_unit_test(test_client_list__tells_of_the_clients_of_all_workers),
        cmocka_unit_test(test_client_list__has_a_line_in_the_form_of_redis),
        cmocka_unit_test(test_client_info__is_the_line_of_who_asks),
        cmocka_unit_test(test_client_kill__closes_by_every_filter_and_counts),
        cmocka_unit_test(test_client_kill__spares_who_asks_unless_told_otherwise),
        cmocka_unit_test(test_command__lists_counts_and_finds_keys),
        cmocka_unit_test(test_command_getkeys__returns_only_words_that_were_sent),
        cmocka_unit_test(test_command_info_and_docs__take_as_many_names_as_there_are_commands),
        cmocka_unit_test(test_command_info__has_arity_flags_and_keys),
        cmocka_unit_test(test_command_docs__describes_every_command_as_its_arity_has_it),
        cmocka_unit_test(test_info__has_the_sections_that_are_asked_for),
        cmocka_unit_test(test_role__is_that_of_info),
        cmocka_unit_test(test_info__counts_connections_commands_and_memory),
        cmocka_unit_test(test_info__keeps_the_password_to_itself),
    };
    return cmocka_run_group_tests(tests, contract_setup, contract_teardown);
}
