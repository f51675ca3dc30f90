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
#include "base/random.h"
#include "base/standard_files.h"
#include "service/daemon/daemon_check.h"
#include "service/daemon/daemon_options.h"
#include "service/daemon/describe.h"
#include "service/doctor/doctor.h"
#include "service/daemon/service_run.h"

enum { EXIT_USAGE = 2 };

/* Tests build another version. */
#ifndef TWINBLOOMD_VERSION
#define TWINBLOOMD_VERSION TWINBLOOM_VERSION
#endif

static int start(const struct config *config, const char *path)
{
    struct error e = {.text = ""};
    struct service *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return EXIT_FAILURE;
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
    if (s->config == NULL) {
        free(s);
        return EXIT_FAILURE;
    }
    (void)pthread_mutex_init(&s->reloading, NULL);
    s->config_path = path;
    (void)snprintf(s->prefix, sizeof(s->prefix), "%s", config->prefix);
    s->redis_timeout_ms = (unsigned)config->redis_timeout_ms;
    s->started_us = clock_mono_us();
    s->started_wall_us = clock_wall_us();
    log_set_level(config->log_level);
    log_set_format(config->log_format);
    service_block_signals();
    enum err code = daemon_check_sources(config, path, &e);
    if (code == ERR_OK)
        code = service_run(s, config, &e);
    if (code != ERR_OK)
        log_error("start_failed", "code=%s error=%s", error_name(code), log_quote(e.text));
    else
        log_info("stopped", "uptime_seconds=%" PRIu64, (clock_mono_us() - s->started_us) / 1000000);
    live_config_free(s->config);
    (void)pthread_mutex_destroy(&s->reloading);
    free(s);
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
        describe_daemon_man(stdout);
    else if (wish->wish == DAEMON_DESCRIBE_CONFIG && wish->form != NULL && strcmp(wish->form, "man") == 0)
        describe_config_man(stdout);
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
        daemon_options_help(stderr);
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
        status = daemon_check_config(config, path);
    else if (wish.wish == DAEMON_DOCTOR)
        status = doctor_alone(config, TWINBLOOMD_VERSION, stdout);
    else
        status = start(config, path);
    config_release(config);
    return printed(status);
}
