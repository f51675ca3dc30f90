/* SPDX-License-Identifier: MIT */
#ifndef TESTS_LIB_CERTIFICATES_H
#define TESTS_LIB_CERTIFICATES_H
/* Certificates for tests, valid and invalid ones. */
#include "base/error.h"

/* Make NAME.crt and NAME.key in @directory, for two days:
 *   ours, theirs   authorities, the one that is trusted and another one
 *   redis          a server by ours: localhost, 127.0.0.1
 *   named          localhost alone, without an address
 *   elsewhere      another host
 *   expired        as redis, of yesterday
 *   client         a client by ours
 *   foreign        a client by theirs */
MUST_CHECK enum err certificates_make(const char *directory, struct error *e);

/* The same, by lines of a shell that use the functions of certificates.c in place of those above. */
MUST_CHECK enum err certificates_make_by(const char *lines, const char *directory, struct error *e);
#endif
