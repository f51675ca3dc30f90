/* SPDX-License-Identifier: MIT */
#include "service/cli/top/cli_top.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/info.h"
#include "base/number.h"

enum { PATIENCE_MS = 3000 /* without a reply for longer, the screen would look frozen */ };

/* --- the terminal --- */

static volatile sig_atomic_t ended, resized;

static void on_end(int signal)
{
    ended = signal;
}

static void on_resize(int signal UNUSED)
{
    resized = 1;
}

static void catch_signals(void)
{
    struct sigaction end = {.sa_handler = on_end}, resize = {.sa_handler = on_resize};
    (void)sigemptyset(&end.sa_mask);
    (void)sigemptyset(&resize.sa_mask);
    (void)sigaction(SIGINT, &end, NULL);
    (void)sigaction(SIGTERM, &end, NULL);
    (void)sigaction(SIGHUP, &end, NULL);
    (void)sigaction(SIGWINCH, &resize, NULL);
}

/* Read keys at once and without echo; disable Ctrl-Z, which would leave the alternate screen on the
 * terminal. */
static bool take_terminal(struct termios *before)
{
    if (tcgetattr(STDIN_FILENO, before) != 0)
        return false;
    struct termios raw = *before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    raw.c_cc[VSUSP] = _POSIX_VDISABLE;
    if (tcsetattr(STDIN_FILENO, TCSANOW, &raw) != 0)
        return false;
    (void)fputs("\033[?1049h\033[?25l\033[2J", stdout); /* alternate screen, no cursor */
    return true;
}

static void draw(struct top *t)
{
    struct winsize size = {.ws_col = 80, .ws_row = 24};
    (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    if (size.ws_col == 0 || size.ws_row == 0)
        size = (struct winsize){.ws_col = 80, .ws_row = 24};
    SCOPED(buffer_fini) struct buffer screen = {0};
    t->wall_s = clock_wall_us() / 1000000;
    top_render(&screen, t, size.ws_col, size.ws_row);
    (void)fputs("\033[H", stdout);
    const char *text = buffer_text(&screen);
    while (*text != '\0') {
        size_t n = strcspn(text, "\n");
        bool last = text[n] == '\0' || text[n + 1] == '\0'; /* a newline at the end would scroll */
        (void)printf("%.*s\033[K%s", (int)n, text, last ? "" : "\r\n");
        text += n + (text[n] == '\n');
    }
    (void)fputs("\033[J", stdout);
    (void)fflush(stdout);
}

/* --- requests --- */

/* The number in that line of INFO; 0: there is no such line. */
static double info_decimal(const redisReply *info, const char *name)
{
    size_t length = 0;
    double number = 0;
    const char *value = info_value(info->str, info->len, name, &length);
    return value != NULL && number_double(value, length, &number) ? number : 0;
}

static void take_info(struct top_look *look, const redisReply *info)
{
    size_t length = 0;
    if (info->type != REDIS_REPLY_STRING)
        return;
    const char *version = info_value(info->str, info->len, "twinbloom_version", &length);
    look->has_info = true;
    look->commands = (uint64_t)info_decimal(info, "total_commands_processed");
    look->connections = (uint64_t)info_decimal(info, "total_connections_received");
    look->clients = (uint64_t)info_decimal(info, "connected_clients");
    look->memory = (uint64_t)info_decimal(info, "used_memory_rss");
    look->uptime_s = (uint64_t)info_decimal(info, "uptime_in_seconds");
    look->cpu_s = info_decimal(info, "used_cpu_sys") + info_decimal(info, "used_cpu_user");
    if (version != NULL)
        (void)snprintf(look->version, sizeof(look->version), "%.*s", (int)length, version);
}

static void forget(struct top_look *look)
{
    freeReplyObject(look->filters);
    freeReplyObject(look->coordinators);
    *look = (struct top_look){.at_us = 0};
}

/* Send one command; an error reply (this user may not send it) leaves *@out NULL. */
static enum err ask(struct client *c, const char *command, redisReply **out, struct error *e)
{
    const char *argv[] = {command};
    enum err code = client_call(c, out, 1, argv, NULL, e);
    return client_refused(c) ? ERR_OK : code;
}

static enum err look(struct cli *cli, struct top *t, struct top_look *out, struct error *e)
{
    SCOPED(scope_reply) redisReply *pong = NULL, *info = NULL;
    enum err code = ERR_OK;
    if (cli->client == NULL)
        code = client_open(&cli->client, &cli->address, cli->timeout_ms, e);
    uint64_t begin = clock_mono_us();
    if (code == ERR_OK)
        code = ask(cli->client, "PING", &pong, e);
    if (code == ERR_OK)
        t->trip_us[t->trips++ % TOP_TRIPS] = clock_mono_us() - begin;
    out->at_us = clock_mono_us();
    if (code == ERR_OK)
        code = ask(cli->client, "INFO", &info, e);
    if (code == ERR_OK && info != NULL)
        take_info(out, info);
    if (code == ERR_OK)
        code = ask(cli->client, "TB.STATUS", &out->filters, e);
    if (code == ERR_OK)
        code = ask(cli->client, "TB.COORDINATORS", &out->coordinators, e);
    bool odd = (out->filters != NULL && !cli_are_lists(out->filters)) ||
               (out->coordinators != NULL && !cli_are_lists(out->coordinators));
    return code == ERR_OK && odd
               ? error_set(e, ERR_PARSE, "a reply has an unexpected form: is it twinbloomd?")
               : code;
}

/* If a look fails, the earlier figures stay on the screen. */
static void look_again(struct cli *cli, struct top *t)
{
    struct top_look found = {.at_us = 0};
    struct error e = {""};
    enum err code = look(cli, t, &found, &e);
    if (code == ERR_OK) {
        forget(&t->before);
        t->before = t->now;
        t->now = found;
        t->error[0] = '\0';
        return;
    }
    forget(&found);
    (void)snprintf(t->error, sizeof(t->error), "%s", e.text);
    if (code != ERR_PARSE) {
        client_close(cli->client);
        cli->client = NULL;
    }
}

/* --- the command --- */

/* Wait until the next look; true if the user wants to leave. */
static bool rest(struct top *t, uint64_t until_us)
{
    for (uint64_t now = clock_mono_us(); now < until_us && !ended; now = clock_mono_us()) {
        struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
        int ready = poll(&in, 1, (int)((until_us - now) / 1000 + 1));
        char key;
        if (ready > 0) {
            if (read(STDIN_FILENO, &key, 1) <= 0) {
                ended = SIGHUP; /* no signal may come: SIGHUP is sent to the session's leader */
                return true;
            }
            if (key == 'q' || key == 'Q')
                return true;
            if (key == ' ')
                return false;
        }
        if (resized) {
            resized = 0;
            draw(t);
        }
    }
    return ended != 0;
}

int cli_top(struct cli *cli)
{
    struct termios before;
    struct top t = {.cli = cli};
    if (cli->json || !cli->terminal || isatty(STDIN_FILENO) != 1)
        return cli_fail(CLI_USAGE,
                        "top needs a terminal; programs can use \"twinbloom status --json\" and /metrics");
    if (cli->timeout_ms > PATIENCE_MS)
        cli->timeout_ms = PATIENCE_MS;
    catch_signals();
    if (!take_terminal(&before))
        return cli_fail(CLI_FAILED, "the terminal cannot be prepared");
    bool leave = false;
    while (!leave && !ended) {
        uint64_t next = clock_mono_us() + (uint64_t)(cli->interval * 1e6);
        look_again(cli, &t);
        draw(&t);
        leave = rest(&t, next);
    }
    /* The terminal is gone, so there is nothing to restore. exit() under LeakSanitizer may hang here: the
     * SIGCONT that accompanies a hang-up cancels the SIGSTOP that it waits for. */
    if (ended == SIGHUP)
        _exit(CLI_INTERRUPTED);
    (void)fputs("\033[?25h\033[?1049l", stdout);
    (void)fflush(stdout);
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
    forget(&t.now);
    forget(&t.before);
    return leave || ended == SIGINT ? CLI_OK : CLI_INTERRUPTED;
}
