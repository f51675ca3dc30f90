/* SPDX-License-Identifier: MIT */
#include "tests/integration/dumps.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shard/filter/names.h"

/* --- two installations --- */

int two_start(struct two *t)
{
    static const char *const little_memory[] = {"--maxmemory", "64mb", NULL};
    struct error e = {""};
    if (fixture_start(&t->fixture, &(struct fixture_options){.nodes = 2,
                                                             .daemons = 1,
                                                             .postgres = true,
                                                             .rows = 2000,
                                                             .capacity = 3000,
                                                             .rate = "0.01",
                                                             .service = "timeout = 20s\n"}) != 0)
        return -1;
    must(temp_redis_start(&t->redis, little_memory, &e), e);
    must(daemon_start(&t->daemon,
                      &(struct daemon_options){.nodes = t->redis.url,
                                               .service = "timeout = 20s\n",
                                               .redis = "prefix = other\ntimeout = 10s\n",
                                               .filters = "[filter configured]\ncapacity = 1000\n"},
                      &e),
         e);
    must(client_open(&t->from, t->fixture.daemon[0].port, TWO_REPLY_MS, &e), e);
    must(client_open(&t->to, t->daemon.port, TWO_REPLY_MS, &e), e);
    must(client_open(&t->from_node, t->fixture.redis[0].port, TWO_REPLY_MS, &e), e);
    must(client_open(&t->to_node, t->redis.port, TWO_REPLY_MS, &e), e);
    return 0;
}

int two_stop(struct two *t)
{
    client_close(&t->from);
    client_close(&t->to);
    client_close(&t->from_node);
    client_close(&t->to_node);
    bool clean = daemon_fini(&t->daemon);
    temp_redis_fini(&t->redis);
    return fixture_stop(&t->fixture) == 0 && clean ? 0 : -1;
}

static void count_name(const char *name, void *arg)
{
    (void)name;
    ++*(unsigned *)arg;
}

/* Count keys of the node to which dumps are loaded. */
unsigned two_count_keys(struct two *t, const char *pattern)
{
    struct error e = {""};
    unsigned count = 0;
    must(client_scan(&t->to_node, pattern, count_name, &count, &e), e);
    return count;
}

static void take_name(const char *name, void *arg)
{
    (void)snprintf(arg, KEY_NAME_MAX, "%s", name);
}

/* Find one key that matches @pattern. */
void two_find_key(struct client *node, const char *pattern, char name[KEY_NAME_MAX])
{
    struct error e = {""};
    name[0] = '\0';
    must(client_scan(node, pattern, take_name, name, &e), e);
    assert_string_not_equal(name, "");
}

/* Send a command to a node. Only an error reply fails the test. */
void two_tell(struct client *node, const char *command, const char *key)
{
    redisReply *r = client_command(node, command, key);
    assert_non_null(r);
    if (r->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", command, r->str);
    freeReplyObject(r);
}

void two_refused(enum err code, const struct error *e, const char *text)
{
    if (code != ERR_REFUSED || strcmp(e->text, text) != 0)
        fail_msg("expected: %s; got %s: %s", text, error_name(code), e->text);
}

/* Make a small filter with the keys [0, @count), and dump it. */
void two_make(struct two *t, const char *name, unsigned capacity, unsigned count, struct dump *d)
{
    struct error e = {""};
    must(client_ok(&t->from, &e, "BF.RESERVE %s 0.01 %d", name, capacity), e);
    must(client_madd(&t->from, name, fixture_code, 0, count, &e), e);
    must(dump_rest(d, &t->from, name, &e), e);
}

void two_all_present(struct client *c, const char *filter, uint64_t first, uint64_t count)
{
    struct error e = {""};
    uint64_t present = 0, absent = 0;
    must(client_mexists(c, filter, fixture_code, first, count, &present, &absent, &e), e);
    if (present != count)
        fail_msg("%s: %" PRIu64 " of %" PRIu64 " keys are absent, the first is c%" PRIu64, filter,
                 count - present, count, absent);
}

uint64_t two_false_positives(struct client *c, const char *filter)
{
    struct error e = {""};
    uint64_t present = 0;
    must(client_mexists(c, filter, fixture_absent_code, 0, TWO_ABSENT, &present, NULL, &e), e);
    return present;
}

int64_t two_status(struct client *c, const char *filter, const char *field)
{
    struct error e = {""};
    int64_t n = 0;
    must(client_status_number(c, filter, field, &n, &e), e);
    return n;
}

void two_same_info(struct two *t, const char *a, const char *b)
{
    redisReply *one = client_command(&t->from, "BF.INFO %s", a);
    redisReply *two = client_command(&t->to, "BF.INFO %s", b);
    assert_int_equal(one->elements, 10);
    assert_int_equal(two->elements, 10);
    for (size_t i = 1; i < 10; i += 2)
        if (one->element[i]->integer != two->element[i]->integer)
            fail_msg("%s: %lld, %lld", one->element[i - 1]->str, one->element[i]->integer,
                     two->element[i]->integer);
    freeReplyObject(one);
    freeReplyObject(two);
}

void two_says(struct client *c, const char *command, const char *reply)
{
    redisReply *r = client_command(c, command);
    assert_non_null(r);
    if ((r->type != REDIS_REPLY_ERROR && r->type != REDIS_REPLY_STATUS) || strcmp(r->str, reply) != 0)
        fail_msg("%s: %s", command, r->str != NULL ? r->str : "not a line");
    freeReplyObject(r);
}

/* Layers of 10, 100, 1000, ... keys make several chunks. */
void two_make_layers(struct two *t, const char *name, struct dump *d)
{
    struct error e = {""};
    must(client_ok(&t->from, &e, "BF.RESERVE %s 0.01 10 EXPANSION 10", name), e);
    must(client_madd(&t->from, name, fixture_code, 0, 3000, &e), e);
    must(dump_rest(d, &t->from, name, &e), e);
    assert_in_range(d->count, 5, DUMP_PIECES_MAX);
}

/* --- the command line --- */

int two_cli(const struct client *c, const char *arguments, char **output)
{
    char line[4096];
    int code = -1;
    struct error e = {""};
    int n = snprintf(line, sizeof(line),
                     "exec 2>&1; unset TWINBLOOM_PASSWORD; export TWINBLOOM_URL=redis://127.0.0.1:%u "
                     "TWINBLOOM=%s; twinbloom() { $TWINBLOOM \"$@\"; }; twinbloom %s",
                     c->port, TWINBLOOM_CLI, arguments);
    assert_in_range(n, 1, sizeof(line) - 1);
    const char *argv[] = {"bash", "-c", line, NULL};
    must(process_run(argv, 120000, output, &code, &e), e);
    return code;
}

void two_cli_says(const struct client *c, const char *arguments, int code, const char *part)
{
    char *output;
    int got = two_cli(c, arguments, &output);
    if (got != code || strstr(output, part) == NULL)
        fail_msg("%s: code %d\n%s", arguments, got, output);
    free(output);
}

/* --- dumps --- */

enum err dump_next(struct dump *d, struct client *c, const char *filter, int64_t position, struct error *e)
{
    enum err code = ERR_OK;
    redisReply *r = client_command(c, "BF.SCANDUMP %s %lld", filter, (long long)position);
    if (r == NULL)
        return error_set(e, ERR_IO, "BF.SCANDUMP: no reply");
    if (r->type == REDIS_REPLY_ERROR)
        code = error_set(e, ERR_REFUSED, "%s", r->str);
    else if (r->type != REDIS_REPLY_ARRAY || r->elements != 2 || r->element[0]->type != REDIS_REPLY_INTEGER ||
             r->element[1]->type != REDIS_REPLY_STRING)
        code = error_set(e, ERR_PARSE, "BF.SCANDUMP: not a position and bytes");
    else if (r->element[0]->integer == 0)
        code = r->element[1]->len == 0 ? ERR_NOT_FOUND : error_set(e, ERR_PARSE, "bytes at the end");
    else if (d->count == DUMP_PIECES_MAX)
        code = error_set(e, ERR_RANGE, "more than %d pieces", DUMP_PIECES_MAX);
    if (code == ERR_OK) {
        struct piece *p = &d->piece[d->count++];
        *p = (struct piece){.position = r->element[0]->integer, .length = r->element[1]->len};
        p->data = malloc(p->length);
        if (p->data == NULL)
            abort();
        memcpy(p->data, r->element[1]->str, p->length);
    }
    freeReplyObject(r);
    return code;
}

enum err dump_rest(struct dump *d, struct client *c, const char *filter, struct error *e)
{
    enum err code = ERR_OK;
    while (code == ERR_OK)
        code = dump_next(d, c, filter, d->count == 0 ? 0 : d->piece[d->count - 1].position, e);
    return code == ERR_NOT_FOUND ? ERR_OK : code;
}

void dump_free(struct dump *d)
{
    for (size_t i = 0; i < d->count; i++)
        free(d->piece[i].data);
    *d = (struct dump){0};
}

enum err dump_load(const struct piece *p, struct client *c, const char *filter, struct error *e)
{
    char position[24];
    int n = snprintf(position, sizeof(position), "%" PRId64, p->position);
    const char *argv[] = {"BF.LOADCHUNK", filter, position, p->data};
    const size_t lengths[] = {12, strlen(filter), (size_t)n, p->length};
    redisReply *r = client_argv(c, 4, argv, lengths);
    enum err code = ERR_OK;
    if (r == NULL)
        code = error_set(e, ERR_IO, "BF.LOADCHUNK: no reply");
    else if (r->type == REDIS_REPLY_ERROR)
        code = error_set(e, ERR_REFUSED, "%s", r->str);
    else if (r->type != REDIS_REPLY_STATUS || strcmp(r->str, "OK") != 0)
        code = error_set(e, ERR_PARSE, "BF.LOADCHUNK: not OK");
    freeReplyObject(r);
    return code;
}

enum err dump_load_all(const struct dump *d, struct client *c, const char *filter, struct error *e)
{
    enum err code = ERR_OK;
    for (size_t i = 0; i < d->count && code == ERR_OK; i++)
        code = dump_load(&d->piece[i], c, filter, e);
    return code;
}
