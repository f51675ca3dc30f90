/* SPDX-License-Identifier: MIT */
#ifndef TESTS_LIB_RAW_H
#define TESTS_LIB_RAW_H
/* Bytes to and from a socket, for what a client library hides: RESP3, inline commands, broken requests. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Connect to 127.0.0.1:@port with deadlines of 120 s on every read and write; -1 on failure. */
int raw_open(uint16_t port);
/* The same from @address, such as "127.0.0.2". */
int raw_open_from(const char *address, uint16_t port);
void raw_close(int fd);

bool raw_send(int fd, const void *bytes, size_t length);
bool raw_puts(int fd, const char *text);

/* Read exactly strlen(@expected) bytes and compare; on a difference both are printed to standard error. */
bool raw_expect(int fd, const char *expected);

/* Read until what came ends in @end (kept in @out, NUL-terminated); false: it never did, or @size is too
 * small; what came is printed to standard error then. */
bool raw_read_until(int fd, const char *end, char *out, size_t size);
/* Read until the peer closes; what came, NUL-terminated. False: it did not within the deadline, or @size is
 * too small. */
bool raw_read_all(int fd, char *out, size_t size);

/* True if the peer closes within the deadline without sending anything more. */
bool raw_expect_close(int fd);
#endif
