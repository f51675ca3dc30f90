/* SPDX-License-Identifier: MIT */
#include "tests/integration/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { REPLY_MS = 20000, BUILD_MS = 60000, WAIT_MS = 60000 };

/* The environment may choose among a program's tests: a pattern of cmocka_set_test_filter(). */
__attribute__((constructor)) static void choose_tests(void)
{
    const char *pattern = getenv("TWINBLOOM_TESTS");
    if (pattern)
        cmocka_set_test_filter(pattern);
}

bool fixture_has_memory(void)
{
    const char *memory = getenv("TWINBLOOM_RESIDENT_MEMORY");
    return memory == NULL || strcmp(memory, "0") != 0;
}

size_t fixture_code(uint64_t number, char out[CLIENT_KEY_MAX])
{
    return (size_t)snprintf(out, CLIENT_KEY_MAX, "c%llu", (unsigned long long)number);
}

size_t fixture_absent_code(uint64_t number, char out[CLIENT_KEY_MAX])
{
    return (size_t)snprintf(out, CLIENT_KEY_MAX, "absent-%llu", (unsigned long long)number);
}

void fixture_sql(PGconn *db, const char *sql)
{
    PGresult *r = PQexec(db, sql);
    ExecStatusType s = PQresultStatus(r);
    PQclear(r);
    if (s != PGRES_COMMAND_OK && s != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(db));
}

void fixture_insert(PGconn *db, uint64_t first, uint64_t count)
{
    char sql[256];
    (void)snprintf(sql, sizeof(sql),
                   "INSERT INTO short_link (code, url) SELECT 'c' || n, 'https://example.org/' || n "
                   "FROM generate_series(%llu::bigint, %llu::bigint) n",
                   (unsigned long long)first, (unsigned long long)(first + count) - 1);
    if (count > 0)
        fixture_sql(db, sql);
}

static void start_postgres(struct fixture *f, const struct fixture_options *o)
{
    struct error e = {""};
    const struct temp_postgres_options options = {.settings = o->settings};
    must(temp_postgres_start(&f->postgres, &options, &e), e);
    f->has_postgres = true;
    f->db = PQconnectdb(f->postgres.dsn);
    if (PQstatus(f->db) != CONNECTION_OK)
        fail_msg("%s", PQerrorMessage(f->db));
    fixture_sql(f->db, "CREATE TABLE short_link (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
                       "code text NOT NULL UNIQUE, url text NOT NULL, deleted_at timestamptz)");
    fixture_insert(f->db, 0, o->rows);
    fixture_sql(f->db, "ANALYZE short_link");
    if (o->schema != NULL)
        fixture_sql(f->db, o->schema);
}

static void start_nodes(struct fixture *f, const struct fixture_options *o)
{
    struct error e = {""};
    if (o->masters > 0) {
        if (o->tls)
            must(temp_cluster_start_tls(&f->cluster, o->masters, o->replicas, &e), e);
        else
            must(temp_cluster_start(&f->cluster, o->masters, o->owners, o->replicas, &e), e);
        (void)snprintf(f->node_list, sizeof(f->node_list), "%s", f->cluster.seeds);
    }
    for (unsigned i = 0; i < o->nodes; i++) {
        must(temp_redis_start(&f->redis[i], o->redis, &e), e);
        f->nodes++;
        size_t n = strlen(f->node_list);
        (void)snprintf(f->node_list + n, sizeof(f->node_list) - n, "%s%s", i == 0 ? "" : ", ",
                       f->redis[i].url);
    }
}

static void start_daemons(struct fixture *f, const struct fixture_options *o)
{
    char filters[512] = "", redis[PATH_MAX + 600] = "";
    struct error e = {""};
    (void)snprintf(redis, sizeof(redis), "%s", o->redis_lines != NULL ? o->redis_lines : "");
    if (o->tls)
        (void)snprintf(redis + strlen(redis), sizeof(redis) - strlen(redis), "tls_ca_file = %s/ours.crt\n",
                       f->cluster.certificates);
    bool follows = o->filter != NULL && strstr(o->filter, "follow = ") != NULL;
    if (o->capacity != 0)
        (void)snprintf(
            filters, sizeof(filters),
            "[filter " FILTER "]\ncapacity = %llu\nerror_rate = %s\ntable = short_link\nid_column = id\n"
            "key = code\nwhere = %s\ngrace = %s\n%s%s",
            (unsigned long long)o->capacity, o->rate, o->where != NULL ? o->where : "deleted_at IS NULL",
            o->grace != NULL ? o->grace : "500ms", follows ? "" : "follow = no\n",
            o->filter != NULL ? o->filter : "");
    const struct daemon_options d = {.nodes = f->node_list,
                                     .cluster = o->masters > 0 ? f->node_list : NULL,
                                     .dsn = o->postgres ? f->postgres.dsn : NULL,
                                     .postgres = o->postgres_lines,
                                     .service = o->service,
                                     .redis = redis,
                                     .expansion = o->expansion,
                                     .filters = filters};
    for (unsigned i = 0; i < o->daemons; i++) {
        must(daemon_start(&f->daemon[i], &d, &e), e);
        f->daemons++;
        must(client_open(&f->client[i], f->daemon[i].port, REPLY_MS, &e), e);
    }
    for (unsigned i = 0; o->capacity != 0 && i < o->daemons; i++) {
        must(client_wait_status(&f->client[i], FILTER, "built", "1", BUILD_MS, &e), e);
        must(client_wait_status(&f->client[i], FILTER, "phase", "STEADY", BUILD_MS, &e), e);
        /* The job ends after the last change of the view. */
        must(client_wait_status(&f->client[i], FILTER, "job_state", "done", BUILD_MS, &e), e);
    }
}

int fixture_start(struct fixture *f, const struct fixture_options *o)
{
    (void)fixture_stop(f); /* what a failed setup may have left */
    start_nodes(f, o);
    if (o->postgres)
        start_postgres(f, o);
    if (o->prepare != NULL)
        o->prepare(f);
    start_daemons(f, o);
    if (o->command != NULL)
        fixture_ask(f, 0, o->command);
    return 0;
}

int fixture_stop(struct fixture *f)
{
    bool clean = true;
    for (unsigned i = 0; i < FIXTURE_DAEMONS_MAX; i++) {
        client_close(&f->client[i]);
        clean &= daemon_fini(&f->daemon[i]);
    }
    for (unsigned i = 0; i < f->nodes; i++)
        temp_redis_fini(&f->redis[i]);
    temp_cluster_fini(&f->cluster);
    PQfinish(f->db);
    if (f->has_postgres)
        temp_postgres_fini(&f->postgres);
    *f = (struct fixture){0};
    return clean ? 0 : -1;
}

/* The arguments of fixture_run(), as CMocka passes none to a group's setup. */
static struct {
    struct fixture *fixture;
    const struct fixture_options *options;
} group;

static int start_group(void **state)
{
    (void)state;
    return fixture_start(group.fixture, group.options);
}

static int stop_group(void **state)
{
    (void)state;
    return fixture_stop(group.fixture);
}

int fixture_run(struct fixture *f, const struct fixture_options *o, const struct CMUnitTest *tests,
                size_t count)
{
    group.fixture = f;
    group.options = o;
    return _cmocka_run_group_tests("tests", tests, count, start_group, stop_group);
}

void fixture_ask(struct fixture *f, unsigned d, const char *command)
{
    struct error e = {""};
    must(client_ok(&f->client[d], &e, command), e);
}

void fixture_wait(struct fixture *f, unsigned d, const char *field, const char *value)
{
    struct error e = {""};
    must(client_wait_status(&f->client[d], FILTER, field, value, WAIT_MS, &e), e);
}

void fixture_end_job(struct fixture *f)
{
    freeReplyObject(client_command(&f->client[0], "TB.ABORT " FILTER));
    freeReplyObject(client_command(&f->client[0], "TB.FINISH " FILTER));
    for (unsigned d = 0; d < 2; d++) {
        fixture_wait(f, d, "mutex_owner", "");
        fixture_wait(f, d, "phase", "STEADY");
    }
}

void fixture_copy_dump(const struct fixture *f, const char *from, const char *to)
{
    char command[3 * PATH_MAX];
    const char *directory = f->redis[0].directory;
    (void)snprintf(command, sizeof(command), "cp '%s/%s' '%s/%s'", directory, from, directory, to);
    assert_int_equal(system(command), 0);
}

void fixture_reconnect(struct fixture *f, unsigned d)
{
    struct error e = {""};
    client_close(&f->client[d]);
    must(client_open(&f->client[d], f->daemon[d].port, REPLY_MS, &e), e);
}

void fixture_all_present(struct fixture *f, unsigned d, uint64_t first, uint64_t count)
{
    struct error e = {""};
    uint64_t present = 0;
    uint64_t absent = 0;
    must(client_mexists(&f->client[d], FILTER, fixture_code, first, count, &present, &absent, &e), e);
    if (present != count)
        fail_msg("coordinator %u: %llu of %llu keys are reported absent, the first is c%llu", d,
                 (unsigned long long)(count - present), (unsigned long long)count,
                 (unsigned long long)absent);
}

uint64_t fixture_false_positives(struct fixture *f, unsigned d, uint64_t count)
{
    struct error e = {""};
    uint64_t present = 0;
    must(client_mexists(&f->client[d], FILTER, fixture_absent_code, 0, count, &present, NULL, &e), e);
    return present;
}

int64_t fixture_generation(struct fixture *f, unsigned d)
{
    struct error e = {""};
    int64_t n = 0;
    must(client_status_number(&f->client[d], FILTER, "generation", &n, &e), e);
    return n;
}

const struct cli_result *fixture_cli(uint16_t port, const char *arguments)
{
    static struct cli_result result;
    char line[2048];
    int length = snprintf(line, sizeof(line),
                          "env -u TWINBLOOM_URL -u TWINBLOOM_PASSWORD %s < /dev/null -p %u %s 2>&1",
                          TWINBLOOM_CLI, port, arguments);
    assert_in_range(length, 1, sizeof(line) - 1);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    size_t n = fread(result.text, 1, sizeof(result.text) - 1, pipe);
    result.text[n] = '\0';
    int status = pclose(pipe);
    result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return &result;
}
