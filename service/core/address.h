/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CORE_ADDRESS_H
#define SERVICE_CORE_ADDRESS_H
/* Addresses of clients as text. */
#include <sys/socket.h>

enum { ADDRESS_TEXT_MAX = 64 };

/* Write "host:port" in numbers, "[host]:port" for IPv6, as Redis does. "": it is no such address. */
void address_text(const struct sockaddr *address, socklen_t length, char out[ADDRESS_TEXT_MAX]);

/* Write the host of such a text, without brackets. */
void address_host(const char *text, char out[ADDRESS_TEXT_MAX]);
#endif
