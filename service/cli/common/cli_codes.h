/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CLI_COMMON_CLI_CODES_H
#define SERVICE_CLI_COMMON_CLI_CODES_H
/* Error codes of the command line only, in addition to base/error.h: exit status, name, meaning, remedy.
 * docs/reference/errors.md is generated from this table, too. */
#define CLI_CODES(X)                                                                                         \
    X(1, "no", "the answer is no: nothing was changed, or what was asked about is not possible",             \
      "Look at the message.")                                                                                \
    X(2, "usage", "the command line is wrong, or names a file that cannot be opened",                        \
      "Correct it; `twinbloom help COMMAND` explains the command.")                                          \
    X(5, "failed", "a job failed or was stopped, or the work could not be done here",                        \
      "Look at the message; `twinbloom status FILTER` says more of a job.")                                  \
    X(130, "interrupted", "a signal ended the command; a job that it started continues",                     \
      "Start the command again, or `twinbloom abort FILTER`.")
#endif
