/* SPDX-License-Identifier: MIT */
#ifndef TESTS_LIB_PROCESS_H
#define TESTS_LIB_PROCESS_H
/* Child processes of a test: their output goes to a file, they are killed when the test dies, and they are
 * stopped by pid. */
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/error.h"

struct process {
    pid_t pid;  /* 0: not running */
    int status; /* as waitpid() reports it, after the process has ended */
    char log[PATH_MAX];
};

/* Start @argv (NULL-terminated; argv[0] is looked up in PATH). Standard output and error are appended to
 * @log, and standard input is /dev/null. The child gets SIGKILL when the calling thread ends, so call from
 * the main thread. */
MUST_CHECK enum err process_start(struct process *p, const char *const argv[], const char *log,
                                  struct error *e);

/* True while the child runs. Reaps the child if it has ended. */
bool process_running(struct process *p);

/* Wait until the child has ended. ERR_TIMEOUT: it still runs. */
MUST_CHECK enum err process_wait(struct process *p, unsigned deadline_ms, struct error *e);

/* Send a signal, if the child runs. */
void process_signal(struct process *p, int signal);

/* Send SIGTERM, and SIGKILL after the deadline. True: it ended by itself in time with exit status 0. */
bool process_stop(struct process *p, unsigned deadline_ms);

/* Send SIGKILL and reap. */
void process_kill(struct process *p);

/* The exit status, or 128 + the number of the signal that ended the child. */
int process_exit_status(const struct process *p);

/* Everything that the child has written so far; the caller frees it. Never NULL; "": nothing. */
char *process_log(const struct process *p);

/* Print the last lines of the log to standard error, under a heading. For a test that failed. */
void process_show_log(const struct process *p, const char *heading);

/* Run @argv until it ends. Returns its output (the caller frees *@output) and its exit status. */
MUST_CHECK enum err process_run(const char *const argv[], unsigned deadline_ms, char **output, int *status,
                                struct error *e);

/* A free loopback port below the range of outgoing connections; 0: none was found. */
uint16_t process_free_port(void);

/* Make a new directory under TMPDIR or /tmp. @path has room for PATH_MAX bytes. */
MUST_CHECK enum err process_make_directory(char *path, const char *name, struct error *e);

/* Remove the directory and everything in it. "": do nothing. */
void process_remove_directory(const char *path);
#endif
