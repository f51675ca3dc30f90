/* SPDX-License-Identifier: MIT */
#ifndef TESTS_LIB_PROCESS_H
#define TESTS_LIB_PROCESS_H
/* Child processes of a test: started with their output in a file, killed when the test dies, ended by pid. */
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/error.h"

struct process {
    pid_t pid;  /* 0: not running */
    int status; /* as of waitpid(), once it has ended */
    char log[PATH_MAX];
};

/* Start @argv (NULL-terminated; argv[0] is looked for in PATH) with standard output and error appended to
 * @log and standard input from /dev/null. The child gets SIGKILL when the calling thread ends: call from the
 * main thread. */
MUST_CHECK enum err process_start(struct process *p, const char *const argv[], const char *log,
                                  struct error *e);

/* True while the child has not ended; reaps it if it has. */
bool process_running(struct process *p);

/* Wait for its end. ERR_TIMEOUT: it still runs. */
MUST_CHECK enum err process_wait(struct process *p, unsigned deadline_ms, struct error *e);

/* Signal it, if it runs. */
void process_signal(struct process *p, int signal);

/* SIGTERM, and SIGKILL after the deadline. True: it ended by itself in time with exit status 0. */
bool process_stop(struct process *p, unsigned deadline_ms);

/* SIGKILL and reap. */
void process_kill(struct process *p);

/* The exit status, or 128 + the number of the signal that ended it. */
int process_exit_status(const struct process *p);

/* All that it wrote so far; the caller frees it. Never NULL: "" where there is nothing. */
char *process_log(const struct process *p);

/* Print the last lines of the log to standard error, under a heading: for a test that failed. */
void process_show_log(const struct process *p, const char *heading);

/* Run @argv to its end and give back what it wrote (the caller frees *@output) and its exit status. */
MUST_CHECK enum err process_run(const char *const argv[], unsigned deadline_ms, char **output, int *status,
                                struct error *e);

/* A loopback port that nobody listens on, from below the range of outgoing connections; 0 where none was
 * found. */
uint16_t process_free_port(void);

/* A new directory of our own under TMPDIR or /tmp; @path has room for PATH_MAX bytes. */
MUST_CHECK enum err process_make_directory(char *path, const char *name, struct error *e);

/* Remove it with all that is in it. "" is nothing to do. */
void process_remove_directory(const char *path);
#endif
