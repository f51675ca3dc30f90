/* SPDX-License-Identifier: MIT */
#ifndef TESTS_LIB_RAW_H
#define TESTS_LIB_RAW_H
/* Sends and receives bytes on a socket, for what a client library hides: RESP3, inline commands, invalid
 * requests. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Connect to 127.0.0.1:@port. Every read and write has a deadline of 120 s. -1: failure. */
int raw_open(uint16_t port);
/* As raw_open(), from the local address @address, such as "127.0.0.2". */
int raw_open_from(const char *address, uint16_t port);
void raw_close(int fd);

bool raw_send(int fd, const void *bytes, size_t length);
bool raw_puts(int fd, const char *text);
/* Send one DEL of @count names that no filter has. */
bool raw_send_del(int fd, unsigned count);

/* Read exactly strlen(@expected) bytes and compare them. On a difference both are printed to standard
 * error. */
bool raw_expect(int fd, const char *expected);

/* Read until the bytes end in @end, and keep them in @out, NUL-terminated. False: they never did, or @size is
 * too small; the bytes are printed to standard error. */
bool raw_read_until(int fd, const char *end, char *out, size_t size);
/* Read until the peer closes, and keep the bytes in @out, NUL-terminated. False: it did not close within the
 * deadline, or @size is too small. */
bool raw_read_all(int fd, char *out, size_t size);

/* True if the peer closes within the deadline without sending anything more. */
bool raw_expect_close(int fd);
#endif
