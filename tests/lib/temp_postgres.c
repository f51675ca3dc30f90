/* SPDX-License-Identifier: MIT */
#include "tests/lib/temp_postgres.h"

#include <errno.h>
#include <glob.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"

enum { ARGS_MAX = 32, START_MS = 30000, STOP_MS = 10000, INITDB_MS = 60000 };

static unsigned there; /* servers that this process has made, running or not */

/* Find the newest installed version. */
static enum err find_binaries(char out[PATH_MAX], struct error *e)
{
    glob_t found;
    if (glob("/usr/lib/postgresql/*/bin/initdb", 0, NULL, &found) != 0)
        return error_set(e, ERR_NOT_FOUND, "no Postgres server under /usr/lib/postgresql");
    const char *path = found.gl_pathv[found.gl_pathc - 1];
    (void)snprintf(out, PATH_MAX, "%.*s", (int)(strlen(path) - strlen("/initdb")), path);
    globfree(&found);
    return ERR_OK;
}

/* The user for a server if the test runs as root; NULL: run as the current user. Static storage. */
static const struct passwd *other_user(void)
{
    if (geteuid() != 0)
        return NULL;
    const struct passwd *user = getpwnam("postgres");
    return user != NULL ? user : getpwnam("nobody");
}

/* @argv behind the words that change the user. The parent-death signal of process_start() does not survive a
 * change of user, so setpriv sets it again. The signal is SIGQUIT, an immediate shutdown: after SIGKILL the
 * server's children would have to notice by themselves. */
struct command {
    const char *argv[ARGS_MAX];
    size_t count;
    char user[64];
    char group[64];
};

static void add(struct command *c, const char *word)
{
    if (c->count + 1 >= ARGS_MAX)
        abort();
    c->argv[c->count++] = word;
    c->argv[c->count] = NULL;
}

static void begin_command(struct command *c)
{
    *c = (struct command){0};
    const struct passwd *user = other_user();
    add(c, "setpriv");
    add(c, "--pdeathsig");
    add(c, "QUIT");
    if (user != NULL) {
        (void)snprintf(c->user, sizeof(c->user), "--reuid=%u", (unsigned)user->pw_uid);
        (void)snprintf(c->group, sizeof(c->group), "--regid=%u", (unsigned)user->pw_gid);
        add(c, c->user);
        add(c, c->group);
        add(c, "--clear-groups");
    }
    add(c, "--");
}

static enum err make_directory(struct temp_postgres *p, struct error *e)
{
    enum err err = process_make_directory(p->directory, "postgres", e);
    const struct passwd *user = other_user();
    if (err == ERR_OK && user != NULL && chown(p->directory, user->pw_uid, user->pw_gid) != 0)
        err = error_set(e, ERR_IO, "chown %s: %s", p->directory, strerror(errno));
    there += p->directory[0] != '\0';
    return err;
}

static enum err run_initdb(struct temp_postgres *p, struct error *e)
{
    char program[PATH_MAX + 16];
    char data[PATH_MAX + 16];
    (void)snprintf(program, sizeof(program), "%s/initdb", p->binaries);
    (void)snprintf(data, sizeof(data), "%s/data", p->directory);
    struct command c;
    begin_command(&c);
    const char *const words[] = {program,
                                 "-D",
                                 data,
                                 "-Upostgres",
                                 "-Atrust",
                                 "-EUTF8",
                                 "--locale=C.UTF-8",
                                 "--no-sync",
                                 "--no-instructions",
                                 "--wal-segsize=1"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        add(&c, words[i]);
    char *output = NULL;
    int status = 0;
    enum err err = process_run(c.argv, INITDB_MS, &output, &status, e);
    if (err == ERR_OK && status != 0)
        err = error_set(e, ERR_IO, "initdb ended with %d: %.400s", status, output);
    free(output);
    return err;
}

/* Copy a directory with its contents to @to, which must not exist. */
static bool copy(const char *from, const char *to)
{
    const char *const argv[] = {"cp", "-a", from, to, NULL};
    struct error ignored;
    char *output = NULL;
    int status = -1;
    bool fine = process_run(argv, INITDB_MS, &output, &status, &ignored) == ERR_OK && status == 0;
    free(output);
    return fine;
}

/* The result of initdb is kept under the build directory, by version and user, and copied later, which
 * saves a second or more. A copy has the same system identifier, so a second server of one process gets
 * a new one. */
static enum err make_data(struct temp_postgres *p, struct error *e)
{
    char kept[PATH_MAX], ours[PATH_MAX + 16], data[PATH_MAX + 16], version[32];
    const char *at = strstr(p->binaries, "postgresql/");
    (void)snprintf(version, sizeof(version), "%.*s", (int)strcspn(at + strlen("postgresql/"), "/"),
                   at + strlen("postgresql/"));
    (void)snprintf(kept, sizeof(kept), "%s-%s-%u", POSTGRES_KEPT, version, (unsigned)geteuid());
    (void)snprintf(ours, sizeof(ours), "%s.%ld", kept, (long)getpid());
    (void)snprintf(data, sizeof(data), "%s/data", p->directory);
    if (there == 1 && access(kept, F_OK) == 0 && copy(kept, data))
        return ERR_OK;
    process_remove_directory(data);
    enum err err = run_initdb(p, e);
    if (err == ERR_OK && access(kept, F_OK) != 0 && (!copy(data, ours) || rename(ours, kept) != 0))
        process_remove_directory(ours); /* another process was faster, or the disk is full */
    return err;
}

enum err temp_postgres_set_epoch(struct temp_postgres *p, unsigned epoch, struct error *e)
{
    char program[PATH_MAX + 16], data[PATH_MAX + 16], number[16];
    (void)snprintf(program, sizeof(program), "%s/pg_resetwal", p->binaries);
    (void)snprintf(data, sizeof(data), "%s/data", p->directory);
    (void)snprintf(number, sizeof(number), "%u", epoch);
    struct command c;
    begin_command(&c);
    const char *const words[] = {program, "-e", number, "-D", data};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        add(&c, words[i]);
    char *output = NULL;
    int status = 0;
    enum err err = process_run(c.argv, INITDB_MS, &output, &status, e);
    if (err == ERR_OK && status != 0)
        err = error_set(e, ERR_IO, "pg_resetwal ended with %d: %.400s", status, output);
    free(output);
    return err;
}

static enum err write_settings(const struct temp_postgres *p, const struct temp_postgres_options *options,
                               struct error *e)
{
    unsigned max_connections =
        options == NULL || options->max_connections == 0 ? 50 : options->max_connections;
    char path[PATH_MAX + 32];
    (void)snprintf(path, sizeof(path), "%s/data/postgresql.auto.conf", p->directory);
    FILE *f = fopen(path, "we");
    if (f == NULL)
        return error_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    (void)fprintf(f, "listen_addresses = '127.0.0.1'\nport = %u\nunix_socket_directories = ''\n",
                  (unsigned)p->port);
    (void)fprintf(f, "max_connections = %u\nmax_prepared_transactions = 10\n", max_connections);
    (void)fprintf(f, "fsync = off\nsynchronous_commit = off\nfull_page_writes = off\n");
    (void)fprintf(
        f, "shared_buffers = 128MB\nmax_wal_size = 2GB\nlog_destination = stderr\nlogging_collector = off\n");
    if (options != NULL && options->settings != NULL)
        (void)fputs(options->settings, f);
    if (fclose(f) != 0)
        return error_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    return ERR_OK;
}

static bool answers(const struct temp_postgres *p)
{
    char program[PATH_MAX + 16];
    (void)snprintf(program, sizeof(program), "%s/pg_isready", p->binaries);
    const char *const argv[] = {program, "-q", "-t", "3", "-d", p->dsn, NULL};
    char *output = NULL;
    int status = 1;
    enum err err = process_run(argv, 5000, &output, &status, NULL);
    free(output);
    return err == ERR_OK && status == 0;
}

enum err temp_postgres_restart(struct temp_postgres *p, struct error *e)
{
    char program[PATH_MAX + 16];
    char data[PATH_MAX + 16];
    char log[PATH_MAX + 16];
    (void)snprintf(program, sizeof(program), "%s/postgres", p->binaries);
    (void)snprintf(data, sizeof(data), "%s/data", p->directory);
    (void)snprintf(log, sizeof(log), "%s/log", p->directory);
    struct command c;
    begin_command(&c);
    add(&c, program);
    add(&c, "-D");
    add(&c, data);
    enum err err = process_start(&p->process, c.argv, log, e);
    uint64_t deadline = clock_mono_us() + START_MS * UINT64_C(1000);
    while (err == ERR_OK && !answers(p)) {
        if (!process_running(&p->process))
            err = error_set(e, ERR_IO, "postgres ended at once with %d", process_exit_status(&p->process));
        else if (clock_mono_us() > deadline)
            err = error_set(e, ERR_TIMEOUT, "postgres does not answer on port %u", (unsigned)p->port);
        else
            clock_sleep_us(50000);
    }
    if (err != ERR_OK)
        process_show_log(&p->process, "postgres");
    return err;
}

static void set_dsn(struct temp_postgres *p)
{
    (void)snprintf(p->dsn, sizeof(p->dsn), "postgresql://postgres@127.0.0.1:%u/postgres", (unsigned)p->port);
}

static enum err run_basebackup(const struct temp_postgres *p, const struct temp_postgres *primary,
                               bool standby, struct error *e)
{
    char program[PATH_MAX + 16];
    char data[PATH_MAX + 16];
    (void)snprintf(program, sizeof(program), "%s/pg_basebackup", p->binaries);
    (void)snprintf(data, sizeof(data), "%s/data", p->directory);
    struct command c;
    begin_command(&c);
    const char *const words[] = {program, "-D", data, "-d", primary->dsn, "-c", "fast", "--no-sync"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        add(&c, words[i]);
    if (standby)
        add(&c, "-R");
    char *output = NULL;
    int status = 0;
    enum err err = process_run(c.argv, INITDB_MS, &output, &status, e);
    if (err == ERR_OK && status != 0)
        err = error_set(e, ERR_IO, "pg_basebackup ended with %d: %.400s", status, output);
    free(output);
    return err;
}

/* Append to the settings of the primary, which were copied with its data. */
static enum err write_standby_settings(const struct temp_postgres *p, struct error *e)
{
    char path[PATH_MAX + 32];
    (void)snprintf(path, sizeof(path), "%s/data/postgresql.auto.conf", p->directory);
    FILE *f = fopen(path, "ae");
    if (f == NULL)
        return error_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    (void)fprintf(f, "port = %u\nwal_receiver_status_interval = 1s\n", (unsigned)p->port);
    return fclose(f) == 0 ? ERR_OK : error_set(e, ERR_IO, "%s: %s", path, strerror(errno));
}

static enum err start_copy(struct temp_postgres *p, const struct temp_postgres *primary, bool standby,
                           struct error *e)
{
    *p = (struct temp_postgres){0};
    enum err err = find_binaries(p->binaries, e);
    if (err == ERR_OK)
        err = make_directory(p, e);
    p->port = process_free_port();
    if (err == ERR_OK && p->port == 0)
        err = error_set(e, ERR_IO, "no free port");
    set_dsn(p);
    if (err == ERR_OK)
        err = run_basebackup(p, primary, standby, e);
    if (err == ERR_OK)
        err = write_standby_settings(p, e);
    if (err == ERR_OK)
        err = temp_postgres_restart(p, e);
    if (err != ERR_OK)
        temp_postgres_fini(p);
    return err;
}

enum err temp_postgres_start_standby(struct temp_postgres *p, const struct temp_postgres *primary,
                                     struct error *e)
{
    return start_copy(p, primary, true, e);
}

enum err temp_postgres_start_clone(struct temp_postgres *p, const struct temp_postgres *primary,
                                   struct error *e)
{
    return start_copy(p, primary, false, e);
}

enum err temp_postgres_start(struct temp_postgres *p, const struct temp_postgres_options *options,
                             struct error *e)
{
    *p = (struct temp_postgres){0};
    enum err err = find_binaries(p->binaries, e);
    if (err == ERR_OK)
        err = make_directory(p, e);
    if (err == ERR_OK)
        err = make_data(p, e);
    p->port = process_free_port();
    if (err == ERR_OK && p->port == 0)
        err = error_set(e, ERR_IO, "no free port");
    set_dsn(p);
    if (err == ERR_OK)
        err = write_settings(p, options, e);
    if (err == ERR_OK)
        err = temp_postgres_restart(p, e);
    if (err != ERR_OK)
        temp_postgres_fini(p);
    return err;
}

void temp_postgres_stop(struct temp_postgres *p)
{
    if (!process_running(&p->process))
        return;
    process_signal(&p->process, SIGINT); /* fast shutdown: SIGTERM would wait until the clients disconnect */
    if (process_wait(&p->process, STOP_MS, NULL) != ERR_OK)
        process_kill(&p->process);
}

void temp_postgres_fini(struct temp_postgres *p)
{
    temp_postgres_stop(p);
    process_remove_directory(p->directory);
    there -= p->directory[0] != '\0';
    p->directory[0] = '\0';
}
