/* SPDX-License-Identifier: MIT */
#include "tests/fault/world.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

enum { LAUNCH_MS = 20000, STOP_MS = 20000 };

static const char *const users[WORLD_COORDINATORS_MAX] = {"c0", "c1", "c2"};

const char *world_user(unsigned i)
{
    assert(i < WORLD_COORDINATORS_MAX);
    return users[i];
}

/* --- nodes --- */

unsigned world_targets(const struct world *w)
{
    return w->clustered ? WORLD_PAIRS : WORLD_NODES;
}

struct temp_redis *world_node(struct world *w, unsigned target)
{
    if (!w->clustered)
        return &w->redis[target];
    unsigned master = temp_cluster_master(&w->cluster, target);
    return master < w->cluster.count ? &w->cluster.node[master] : NULL;
}

struct temp_redis *world_home(struct world *w)
{
    if (!w->clustered)
        return &w->redis[0];
    for (unsigned i = 0; i < w->cluster.count; i++) {
        unsigned owner = temp_cluster_owner(&w->cluster, i, w->home_slot);
        if (owner < w->cluster.count && process_running(&w->cluster.node[owner].process))
            return &w->cluster.node[owner];
    }
    return NULL;
}

/* --- start --- */

static enum err write_users(struct world *w, struct error *e)
{
    const char *path = w->users;
    (void)snprintf(w->users, sizeof(w->users), "%s/users.acl", w->directory);
    FILE *f = fopen(path, "we");
    if (f == NULL)
        return error_set(e, ERR_IO, "%s cannot be written", path);
    (void)fprintf(f, "user default on nopass ~* &* +@all\n");
    for (unsigned i = 0; i < WORLD_COORDINATORS_MAX; i++)
        (void)fprintf(f, "user %s on nopass ~* &* +@all\n", users[i]);
    return fclose(f) == 0 ? ERR_OK : error_set(e, ERR_IO, "%s cannot be written", path);
}

/* Nothing is saved to disk: a node that restarts before its replica has taken over is empty. */
static enum err start_cluster(struct world *w, struct error *e)
{
    int64_t slot = 0;
    enum err err = temp_cluster_start(&w->cluster, WORLD_PAIRS, 0, WORLD_PAIRS, e);
    if (err == ERR_OK)
        err = client_integer(&w->cluster.client[0], &slot, e, "CLUSTER KEYSLOT %s", WORLD_FILTER);
    w->home_slot = (unsigned)slot;
    return err;
}

/* Acknowledged data must survive SIGKILL: Redis writes the append-only file before it replies; fsync matters
 * only if the machine crashes. */
static enum err start_redis(struct world *w, struct error *e)
{
    if (w->clustered)
        return start_cluster(w, e);
    /* Before 7.0 nothing is protected. */
    const char *protected = temp_redis_is_before_7() ? NULL : "--enable-protected-configs";
    const char *const extra[] = {"--aclfile", w->users,  "--appendonly", "yes", "--appendfsync",
                                 "no",        protected, "yes",          NULL};
    enum err err = ERR_OK;
    for (unsigned i = 0; err == ERR_OK && i < WORLD_NODES; i++)
        err = temp_redis_start(&w->redis[i], extra, e);
    return err;
}

void world_ignore_notice(void *arg, const char *message)
{
    (void)arg;
    (void)message;
}

static enum err start_postgres(struct world *w, const struct world_options *o, struct error *e)
{
    const struct temp_postgres_options options = {.settings = o->settings};
    enum err err = temp_postgres_start(&w->postgres, &options, e);
    if (err != ERR_OK)
        return err;
    w->db = PQconnectdb(w->postgres.dsn);
    (void)PQsetNoticeProcessor(w->db, world_ignore_notice, NULL);
    bool done =
        world_sql(w, "CREATE TABLE " WORLD_TABLE " (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
                     "code text NOT NULL UNIQUE)");
    for (unsigned i = 0; done && i < WORLD_COORDINATORS_MAX; i++)
        done = world_sql(w, "CREATE ROLE %s SUPERUSER LOGIN", users[i]);
    done = done && (o->prepare == NULL || o->prepare(w));
    return done ? ERR_OK : error_set(e, ERR_IO, "Postgres: %s", PQerrorMessage(w->db));
}

static enum err start_proxy(struct world *w, uint16_t ports[WORLD_NODES], uint16_t *postgres, struct error *e)
{
    enum err err = proxy_start(&w->proxy, e);
    for (unsigned i = 0; err == ERR_OK && !w->clustered && i < WORLD_NODES; i++)
        err = proxy_add(w->proxy, WIRE_REDIS, w->redis[i].port, &w->redis_route[i], &ports[i], e);
    if (err == ERR_OK)
        err = proxy_add(w->proxy, WIRE_POSTGRES, w->postgres.port, &w->postgres_route, postgres, e);
    return err;
}

/* --- clocks --- */

static char *word(const char *format, const char *text)
{
    char *out = NULL;
    if (asprintf(&out, format, text) < 0)
        abort();
    return out;
}

void world_clock(struct world *w, unsigned i, int64_t seconds)
{
    if (pwrite(w->clock[i], &seconds, sizeof(seconds), 0) != (ssize_t)sizeof(seconds))
        (void)fprintf(stderr, "a clock cannot be set: %s\n", strerror(errno));
}

static enum err wrap_with_clock(struct world *w, unsigned i, struct error *e)
{
    char **words = w->clock_words[i];
    char path[PATH_MAX + 32];
    (void)snprintf(path, sizeof(path), "%s/clock%u", w->directory, i);
    w->clock[i] = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (w->clock[i] < 0)
        return error_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    world_clock(w, i, 0);
    const char *asan = getenv("ASAN_OPTIONS");
    char *options = word("%s:verify_asan_link_order=0", asan == NULL ? "" : asan);
    words[0] = word("%s", "env");
    words[1] = word("LD_PRELOAD=%s", CLOCK_PRELOAD);
    words[2] = word("FAULT_CLOCK=%s", path);
    words[3] = word("ASAN_OPTIONS=%s", options);
    free(options);
    w->daemon[i].wrapper = (const char *const *)words;
    return ERR_OK;
}

/* --- coordinators --- */

static enum err prepare(struct world *w, unsigned i, const struct world_options *o, const uint16_t *ports,
                        uint16_t postgres, struct error *e)
{
    char nodes[256], dsn[160], service[PATH_MAX + 256];
    size_t n = 0;
    (void)snprintf(service, sizeof(service), o->state_file ? "%sstate_file = %s/state\n" : "%s", o->service,
                   w->directory);
    for (unsigned k = 0; k < WORLD_NODES; k++)
        n += (size_t)snprintf(nodes + n, sizeof(nodes) - n, "%sredis://%s:any@127.0.0.1:%u",
                              k == 0 ? "" : ", ", world_user(i), ports[k]);
    (void)snprintf(dsn, sizeof(dsn), "postgresql://%s@127.0.0.1:%u/postgres?gssencmode=disable",
                   world_user(i), postgres);
    const struct daemon_options d = {.nodes = nodes,
                                     .cluster = w->clustered ? w->cluster.seeds : NULL,
                                     .dsn = dsn,
                                     .service = service,
                                     .redis = o->redis,
                                     .postgres = o->postgres,
                                     .expansion = o->expansion,
                                     .filters = o->filter};
    enum err err = daemon_prepare(&w->daemon[i], &d, e);
    return err == ERR_OK && o->fake_clock ? wrap_with_clock(w, i, e) : err;
}

enum err world_launch(struct world *w, unsigned i, struct error *e)
{
    if (w->runs[i])
        return ERR_OK;
    enum err err = daemon_launch(&w->daemon[i], e);
    w->runs[i] = err == ERR_OK;
    return err;
}

void world_kill(struct world *w, unsigned i)
{
    daemon_kill(&w->daemon[i]);
    w->runs[i] = false;
}

bool world_end(struct world *w, unsigned i)
{
    bool clean = !w->runs[i] || daemon_stop(&w->daemon[i], STOP_MS);
    if (!clean)
        process_show_log(&w->daemon[i].process, "a coordinator that did not end cleanly");
    w->runs[i] = false;
    return clean;
}

enum err world_start(struct world *w, const struct world_options *o, struct error *e)
{
    *w = (struct world){.coordinators = o->coordinators, .keep = o->keep, .clustered = o->cluster};
    uint16_t ports[WORLD_NODES] = {0}, postgres = 0;
    if (w->coordinators > WORLD_COORDINATORS_MAX)
        return error_set(e, ERR_RANGE, "at most %d coordinators", WORLD_COORDINATORS_MAX);
    enum err err = process_make_directory(w->directory, "fault", e);
    if (err == ERR_OK)
        err = write_users(w, e);
    if (err == ERR_OK)
        err = start_redis(w, e);
    if (err == ERR_OK)
        err = start_postgres(w, o, e);
    if (err == ERR_OK)
        err = start_proxy(w, ports, &postgres, e);
    for (unsigned i = 0; err == ERR_OK && i < w->coordinators; i++)
        err = prepare(w, i, o, ports, postgres, e);
    for (unsigned i = 0; err == ERR_OK && i < w->coordinators; i++)
        err = world_launch(w, i, e);
    return err;
}

static void show_directories(const struct world *w)
{
    for (unsigned i = 0; i < w->coordinators; i++)
        (void)printf("coordinator %u: %s\n", i, w->daemon[i].directory);
    for (unsigned i = 0; !w->clustered && i < WORLD_NODES; i++)
        (void)printf("Redis node %u: %s\n", i, w->redis[i].directory);
    for (unsigned i = 0; i < w->cluster.count; i++)
        (void)printf("Redis node %u: %s\n", i, w->cluster.node[i].directory);
    (void)printf("Postgres: %s\n", w->postgres.directory);
}

bool world_stop(struct world *w)
{
    bool clean = true;
    client_close(&w->order);
    if (w->keep)
        show_directories(w);
    for (unsigned i = 0; i < w->coordinators; i++) {
        clean &= world_end(w, i);
        if (w->keep)
            w->daemon[i].directory[0] = '\0';
        (void)daemon_fini(&w->daemon[i]);
        for (size_t k = 0; k < sizeof(w->clock_words[i]) / sizeof(w->clock_words[i][0]); k++)
            free(w->clock_words[i][k]);
        if (w->clock[i] > 0)
            (void)close(w->clock[i]);
    }
    proxy_stop(w->proxy);
    for (unsigned i = 0; i < WORLD_NODES; i++) {
        process_signal(&w->redis[i].process, SIGCONT);
        if (w->keep)
            w->redis[i].directory[0] = '\0';
        temp_redis_fini(&w->redis[i]);
    }
    for (unsigned i = 0; w->keep && i < w->cluster.count; i++) {
        temp_redis_kill(&w->cluster.node[i]);
        w->cluster.node[i].directory[0] = '\0';
    }
    temp_cluster_fini(&w->cluster);
    PQfinish(w->db);
    if (w->keep)
        w->postgres.directory[0] = '\0';
    temp_postgres_fini(&w->postgres);
    process_remove_directory(w->directory);
    return clean;
}

uint64_t world_logged(const struct world *w, const char *text, const char *more)
{
    uint64_t count = 0;
    char line[2100];
    for (unsigned i = 0; i < w->coordinators; i++) {
        FILE *f = fopen(w->daemon[i].process.log, "re");
        while (f != NULL && fgets(line, sizeof(line), f) != NULL)
            count += strstr(line, text) != NULL && strstr(line, more) != NULL;
        if (f != NULL)
            (void)fclose(f);
    }
    return count;
}

bool world_sql(struct world *w, const char *format, ...)
{
    char sql[512];
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(sql, sizeof(sql), format, ap);
    va_end(ap);
    if (PQstatus(w->db) != CONNECTION_OK)
        PQreset(w->db);
    PGresult *r = PQexec(w->db, sql);
    ExecStatusType s = PQresultStatus(r);
    PQclear(r);
    return s == PGRES_COMMAND_OK || s == PGRES_TUPLES_OK;
}
