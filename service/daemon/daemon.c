/* SPDX-License-Identifier: MIT */
/* twinbloomd: its options, the configuration and the sources that it names, and the service that runs by it.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/number.h"
#include "base/random.h"
#include "base/standard_files.h"
#include "expansion/follow/follower.h"
#include "service/core/tls.h"
#include "service/daemon/daemon_options.h"
#include "service/doctor/doctor.h"
#include "service/daemon/service_run.h"
#include "service/filters/sources.h"

enum { EXIT_USAGE = 2 };

/* Tests build another version. */
#ifndef TWINBLOOMD_VERSION
#define TWINBLOOMD_VERSION TWINBLOOM_VERSION
#endif

static void explain_rows(const struct config_filter *f, const struct source_rows *rows)
{
    static const char *const by[] = {[SOURCE_ROWS_COUNTED] = "counted",
                                     [SOURCE_ROWS_PLANNED] = "estimated by Postgres",
                                     [SOURCE_ROWS_GUESSED] = "guessed: run ANALYZE"};
    char text[NUMBER_GROUPED_SIZE];
    uint64_t least = config_capacity(f), needed = (uint64_t)((double)rows->rows * f->headroom);
    (void)printf("  table      %s: %s rows, %s\n", f->table, number_grouped(rows->rows, text), by[rows->by]);
    (void)printf("  capacity   %s at the first build: %s\n",
                 number_grouped(needed > least ? needed : least, text),
                 needed > least     ? "rows x headroom"
                 : f->capacity != 0 ? "as configured"
                                    : "the least with a table");
}

static void explain_follower(const struct config *config, const struct config_filter *f,
                             const struct source *s)
{
    (void)fputs("  follow     ", stdout);
    if (!f->follow)
        (void)puts("no: rows that plain SQL writes wait for the next rebuild");
    else if (f->follow_by != FOLLOW_BY_IDS)
        (void)printf("yes, by %s; --doctor looks for what that needs\n",
                     f->follow_by == FOLLOW_BY_OUTBOX ? "outbox" : "logical replication");
    else if (source_id_is_integer(s))
        (void)printf("yes, by ids, every %" PRIu64 " ms\n", config->follower_interval_ms);
    else
        (void)printf("not possible: %s\n", FOLLOWER_NO_INTEGER);
}

static enum err explain(const struct config *config, const struct config_filter *f, struct source *source,
                        struct error *e)
{
    struct source_rows rows;
    enum err code = source_check(source, e);
    if (code == ERR_OK)
        code = source_rows_look(source, &rows, e);
    if (code != ERR_OK)
        return code;
    (void)printf("[filter %s]\n", f->name);
    explain_rows(f, &rows);
    (void)printf("  id_column  %s%s\n", source_id_text(source),
                 f->id_column[0] == '\0' ? ": the primary key" : "");
    explain_follower(config, f, source);
    return ERR_OK;
}

/* The error's text is "file:line: [filter NAME]: what; remedy". */
static enum err explain_sources(const struct config *config, const char *path, struct error *e)
{
    enum err code = ERR_OK;
    for (size_t i = 0; i < config->filter_count && code == ERR_OK; i++) {
        const struct config_filter *f = &config->filter[i];
        if (f->table[0] == '\0')
            continue;
        SCOPED(source_drop) struct source *source = NULL;
        const struct source_config sc = sources_config(config, f);
        code = source_open(&source, &sc, (unsigned)config->postgres_timeout_ms, e);
        if (code == ERR_OK)
            code = explain(config, f, source, e);
        if (code != ERR_OK)
            code = error_prefix(e, code, "%s:%u: [filter %s]", path, f->line, f->name);
    }
    return code;
}

/* --check-config: say what was found and what was chosen where the file leaves it open. Returns the exit
 * status. */
static int check_config(const struct config *config, const char *path)
{
    struct error e;
    struct tls_contexts certificates;
    enum err code = tls_load(&certificates, config, &e);
    tls_unload(&certificates);
    if (code != ERR_OK || explain_sources(config, path, &e) != ERR_OK) {
        (void)fflush(stdout);
        (void)fprintf(stderr, "twinbloomd: %s\n", e.text);
        return EXIT_USAGE;
    }
    (void)printf("%s: valid, %zu filter%s\n", path, config->filter_count,
                 config->filter_count == 1 ? "" : "s");
    return EXIT_SUCCESS;
}

static int start(const struct config *config, const char *path)
{
    struct error e = {.text = ""};
    struct service *s = &(struct service){0};
    char host[32] = "host";
    (void)gethostname(host, sizeof(host) - 1);
    for (char *p = host; *p != '\0'; p++)
        if (*p == ':' || *p == ' ')
            *p = '-';
    (void)snprintf(s->host, sizeof(s->host), "%s", host);
    s->version = TWINBLOOMD_VERSION;
    (void)snprintf(s->owner, sizeof(s->owner), "%s-%d-%08" PRIx32, host, (int)getpid(),
                   (uint32_t)random_u64());
    s->config = live_config_new(config);
    if (s->config == NULL)
        return EXIT_FAILURE;
    (void)pthread_mutex_init(&s->reloading, NULL);
    s->config_path = path;
    (void)snprintf(s->prefix, sizeof(s->prefix), "%s", config->prefix);
    s->redis_timeout_ms = (unsigned)config->redis_timeout_ms;
    s->started_us = clock_mono_us();
    s->started_wall_us = clock_wall_us();
    log_set_level(config->log_level);
    log_set_format(config->log_format);
    service_block_signals();
    enum err code = service_run(s, config, &e);
    if (code != ERR_OK)
        log_error("start_failed", "code=%s error=%s", error_name(code), log_quote(e.text));
    else
        log_info("stopped", "uptime_seconds=%" PRIu64, (clock_mono_us() - s->started_us) / 1000000);
    live_config_free(s->config);
    (void)pthread_mutex_destroy(&s->reloading);
    return code == ERR_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* What is printed without a configuration. False: @wish is nothing of that kind. */
static bool describe(const struct daemon_wish *wish)
{
    static const struct {
        enum daemon_option wish;
        const char *page, *from;
    } pages[] = {{DAEMON_DESCRIBE_COMMANDS, "commands.md", "# "},
                 {DAEMON_DESCRIBE_CONFIG, "configuration.md", "# "},
                 {DAEMON_DESCRIBE_ERRORS, "errors.md", "# "},
                 {DAEMON_DESCRIBE_HTTP, "http.md", "# "},
                 {DAEMON_DESCRIBE_METRICS, "metrics.md", "| metric"}};
    size_t i = 0, count = sizeof(pages) / sizeof(pages[0]);
    while (i < count && pages[i].wish != wish->wish)
        i++;
    if (wish->wish == DAEMON_VERSION)
        (void)printf("twinbloomd %s\n", TWINBLOOMD_VERSION);
    else if (wish->wish == DAEMON_HELP)
        daemon_options_help(stdout);
    else if (wish->wish == DAEMON_MAN)
        (void)fputs(embedded_twinbloomd, stdout);
    else if (wish->wish == DAEMON_DESCRIBE_CONFIG && wish->form != NULL && strcmp(wish->form, "man") == 0)
        (void)fputs(embedded_twinbloom, stdout);
    else if (i < count)
        describe_page(stdout, pages[i].page, pages[i].from);
    else
        return false;
    return true;
}

/* What was printed may be a file for later: it must be whole. */
static int printed(int status)
{
    bool whole = fflush(stdout) == 0 && ferror(stdout) == 0;
    if (!whole)
        (void)fputs("twinbloomd: standard output could not be written\n", stderr);
    return whole || status != EXIT_SUCCESS ? status : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    struct daemon_wish wish;
    standard_files_fill();
    if (daemon_options_read(argc, argv, &wish) != 0) {
        (void)fputs("twinbloomd --help lists the options\n", stderr);
        return EXIT_USAGE;
    }
    if (wish.form != NULL && strcmp(wish.form, "man") != 0 && strcmp(wish.form, "markdown") != 0) {
        (void)fprintf(stderr, "twinbloomd: --describe-config=%s: give markdown or man\n", wish.form);
        return EXIT_USAGE;
    }
    if (describe(&wish))
        return printed(EXIT_SUCCESS);
    const char *path = wish.config != NULL ? wish.config : DAEMON_CONFIG_FILE;
    struct config *config;
    struct error e = {.text = ""};
    int status = EXIT_SUCCESS;
    if (config_read(&config, path, &e) != ERR_OK) {
        (void)fprintf(stderr, "twinbloomd: %s\n", e.text);
        return EXIT_USAGE;
    }
    if (wish.wish == DAEMON_PRINT_CONFIG)
        config_print(config, stdout);
    else if (wish.wish == DAEMON_CHECK_CONFIG)
        status = check_config(config, path);
    else if (wish.wish == DAEMON_DOCTOR)
        status = doctor_alone(config, TWINBLOOMD_VERSION, stdout);
    else
        status = start(config, path);
    config_release(config);
    return printed(status);
}
