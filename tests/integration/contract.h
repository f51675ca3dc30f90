/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_CONTRACT_H
#define TESTS_INTEGRATION_CONTRACT_H
/* Compares requests and replies byte by byte, with a coordinator without a password and one with a
 * password. */
#include "tests/integration/fixture.h"
#include "tests/lib/raw.h"

struct contract {
    struct fixture fixture;
    struct daemon guarded; /* password s3cret */
};

extern struct contract contract;

/* For CMocka. */
int contract_setup(void **state);
int contract_teardown(void **state);

/* A request as an inline command, and the reply without its last CRLF. */
struct exchange {
    const char *request;
    const char *reply;
};

/* Connect to the open coordinator, or to the guarded one. */
int contract_open(void);
int contract_open_guarded(void);

/* Send HELLO 3 and read the reply. */
void contract_hello3(int fd);

void contract_run(int fd, const struct exchange *rows, size_t count);

/* Send all of @request at once; the reply must be @reply. */
void contract_says(const char *request, const char *reply);
/* As above, and the coordinator must close the connection then. */
void contract_says_and_closes(const char *request, const char *reply);

/* Run rows on a connection of their own: RUN in RESP2, RUN3 in RESP3. */
#define RUN(rows)                                                                                            \
    do {                                                                                                     \
        int fd_ = contract_open();                                                                           \
        contract_run(fd_, rows, sizeof(rows) / sizeof((rows)[0]));                                           \
        raw_close(fd_);                                                                                      \
    } while (0)
#define RUN3(rows)                                                                                           \
    do {                                                                                                     \
        int fd_ = contract_open();                                                                           \
        contract_hello3(fd_);                                                                                \
        contract_run(fd_, rows, sizeof(rows) / sizeof((rows)[0]));                                           \
        raw_close(fd_);                                                                                      \
    } while (0)

#define ARITY(command) "-ERR wrong number of arguments for '" command "' command"
#endif
