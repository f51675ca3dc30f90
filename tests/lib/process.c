/* SPDX-License-Identifier: MIT */
#include "tests/lib/process.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"

/* Runs in the child, between fork and exec. */
static void become(const char *const argv[], int log, pid_t parent)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)setpgid(0, 0); /* Ctrl-C goes to the test only, which then ends its children in order */
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    bool ready = getppid() == parent && null >= 0 && dup2(null, STDIN_FILENO) >= 0 &&
                 dup2(log, STDOUT_FILENO) >= 0 && dup2(log, STDERR_FILENO) >= 0;
    if (ready) {
        (void)execvp(argv[0], (char *const *)argv);
        (void)dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(errno));
    }
    _exit(127);
}

enum err process_start(struct process *p, const char *const argv[], const char *log, struct error *e)
{
    *p = (struct process){0};
    (void)snprintf(p->log, sizeof(p->log), "%s", log);
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0)
        return error_set(e, ERR_IO, "%s: %s", log, strerror(errno));
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0)
        become(argv, fd, parent);
    (void)close(fd);
    if (pid < 0)
        return error_set(e, ERR_IO, "fork: %s", strerror(errno));
    p->pid = pid;
    return ERR_OK;
}

bool process_running(struct process *p)
{
    if (p->pid == 0)
        return false;
    int status;
    pid_t got = waitpid(p->pid, &status, WNOHANG);
    if (got == 0)
        return true;
    p->status = got == p->pid ? status : 0;
    p->pid = 0;
    return false;
}

enum err process_wait(struct process *p, unsigned deadline_ms, struct error *e)
{
    uint64_t until = clock_mono_us() + (uint64_t)deadline_ms * 1000;
    while (process_running(p)) {
        if (clock_mono_us() >= until)
            return error_set(e, ERR_TIMEOUT, "process %d still runs after %u ms", (int)p->pid, deadline_ms);
        clock_sleep_us(5000);
    }
    return ERR_OK;
}

void process_signal(struct process *p, int signal)
{
    if (p->pid != 0)
        (void)kill(p->pid, signal);
}

bool process_stop(struct process *p, unsigned deadline_ms)
{
    if (!process_running(p))
        return false;
    /* Continue a process that a test has stopped, as it could not react to SIGTERM. This must come before
     * SIGTERM. A SIGCONT while LeakSanitizer runs at exit would cancel the SIGSTOP by which it stops the
     * process, and both would wait for ever. */
    process_signal(p, SIGCONT);
    process_signal(p, SIGTERM);
    if (process_wait(p, deadline_ms, NULL) != ERR_OK) {
        process_kill(p);
        return false;
    }
    return process_exit_status(p) == 0;
}

void process_kill(struct process *p)
{
    if (!process_running(p))
        return;
    process_signal(p, SIGKILL);
    if (process_wait(p, 10000, NULL) != ERR_OK)
        (void)fprintf(stderr, "process %d did not end after SIGKILL\n", (int)p->pid);
}

int process_exit_status(const struct process *p)
{
    return WIFSIGNALED(p->status) ? 128 + WTERMSIG(p->status) : WEXITSTATUS(p->status);
}

static char *read_whole(const char *path)
{
    FILE *f = fopen(path, "re");
    char *text = NULL;
    size_t length = 0;
    FILE *to = open_memstream(&text, &length);
    if (to == NULL)
        abort();
    char piece[4096];
    size_t n;
    while (f != NULL && (n = fread(piece, 1, sizeof(piece), f)) > 0)
        if (fwrite(piece, 1, n, to) != n)
            abort();
    if (fclose(to) != 0)
        abort();
    if (f != NULL)
        (void)fclose(f);
    return text;
}

char *process_log(const struct process *p)
{
    return read_whole(p->log);
}

void process_show_log(const struct process *p, const char *heading)
{
    enum { TAIL = 6000 };
    char *text = process_log(p);
    size_t length = strlen(text);
    const char *from = length > TAIL ? text + length - TAIL : text;
    (void)fprintf(stderr, "---- %s (%s)\n%s\n----\n", heading, p->log, from);
    free(text);
}

enum err process_run(const char *const argv[], unsigned deadline_ms, char **output, int *status,
                     struct error *e)
{
    char directory[PATH_MAX];
    enum err err = process_make_directory(directory, "run", e);
    if (err != ERR_OK)
        return err;
    char log[PATH_MAX + 8];
    (void)snprintf(log, sizeof(log), "%s/output", directory);
    struct process p;
    err = process_start(&p, argv, log, e);
    if (err == ERR_OK)
        err = process_wait(&p, deadline_ms, e);
    process_kill(&p);
    if (err == ERR_OK) {
        *output = process_log(&p);
        *status = process_exit_status(&p);
    } else {
        process_show_log(&p, argv[0]);
    }
    process_remove_directory(directory);
    return err;
}

static bool port_is_free(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    int on = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bool free = bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(fd, 1) == 0;
    (void)close(fd);
    return free;
}

uint16_t process_free_port(void)
{
    /* Outgoing connections use ports from 32768 on. A server that is restarted on its port must not find such
     * a connection there. */
    for (int i = 0; i < 200; i++) {
        uint16_t port = (uint16_t)(12000 + random_u64() % 20000);
        if (port_is_free(port))
            return port;
    }
    return 0;
}

enum err process_make_directory(char *path, const char *name, struct error *e)
{
    const char *root = getenv("TMPDIR");
    (void)snprintf(path, PATH_MAX, "%s/twinbloom-%s-XXXXXX", root != NULL && *root != '\0' ? root : "/tmp",
                   name);
    if (mkdtemp(path) != NULL)
        return ERR_OK;
    enum err err = error_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    path[0] = '\0';
    return err;
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *where)
{
    (void)s;
    (void)type;
    (void)where;
    (void)remove(path);
    return 0;
}

void process_remove_directory(const char *path)
{
    if (path[0] != '\0')
        (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
