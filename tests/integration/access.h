/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_ACCESS_H
#define TESTS_INTEGRATION_ACCESS_H
/* One coordinator with the filters alpha and beta, and users. */
#include "tests/integration/fixture.h"

/* The passwords are the users' names. */
#define READER_HASH "$y$j75$u4DBRzkt/c9yLvd8lcV3m/$zwnOmrN9qr4LuShmqpE9dXFXwYkncYKW2j1NgyY5sl0"
#define WRITER_HASH "$y$j75$0BEseGLcp/cGX/8TXUEBD0$B/ouwYD0yqLpC5OHxOmFOjyOG9jnw7iyw30X1QSezr."
#define CHIEF_HASH "$y$j75$Ut2YzVcSvEB42z36Gz9X.1$6HMjJGfH6NrjGa6XqYopA5RoNdAGExQob2S1ZQwanW5"
#define SLOW_HASH "$y$jDT$yrwGt8EGp78HmJxUVRENw.$Ms2HyzPI6xHHhxZTr8oLuSibThdoTbaaR4deIbxNTo6"
#define TOKEN_HASH "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

/* The coordinator's configuration at the start: SERVICE, and FILTERS READER WRITER CHIEF SLOW. */
#define SERVICE "threads = 1\n"
#define FILTERS "[filter alpha]\ncapacity = 1000\n[filter beta]\ncapacity = 1000\n"
#define READER "[user reader]\npassword = " READER_HASH "\nroles = read\nfilters = a*\n"
#define WRITER "[user writer]\npassword = " WRITER_HASH "\nroles = write\nfilters = a*, made-?\n"
#define CHIEF "[user chief]\npassword = " CHIEF_HASH "\nroles = admin\ntoken = sha256:" TOKEN_HASH "\n"
#define SLOW "[user slow]\npassword = " SLOW_HASH "\nroles = read\n"

#define NOAUTH "NOAUTH Authentication required."
#define WRONGPASS "WRONGPASS invalid username-password pair or user is disabled."
#define NOCOMMAND(name) "NOPERM this user has no permissions to run the '" name "' command"
#define NOKEY "NOPERM this user has no permissions to access one of the keys used as arguments"

enum { ACCESS_REPLY_MS = 30000 };

/* The fixture's client 0 is logged in as the chief. */
extern struct fixture access_fixture;

/* For a CMocka group. */
int access_setup(void **state);
int access_teardown(void **state);
/* After each test: restore the first configuration. */
int access_restore(void **state);
#define ACCESS_TEST(name) cmocka_unit_test_teardown(name, access_restore)

/* Options with these lines of [service], and sections of filters and users. */
struct daemon_options access_options(const char *service, const char *filters);
void access_reload(const char *service, const char *sections);

void access_open(struct client *c);
/* Log in as @user, whose password is the name. */
void access_log_in(struct client *c, const char *user);

/* The reply to @command must be @wanted: the text of an error, a status or a string, or a number. */
void access_gives(struct client *c, const char *command, const char *wanted);

/* The status of the answer to an HTTP request; 0: there was no answer. */
int access_http_status(const char *method, const char *path, const char *authorization, char *answer,
                       size_t size);
#endif
