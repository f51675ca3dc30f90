/* SPDX-License-Identifier: MIT */
#include "service/core/address.h"

#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void address_text(const struct sockaddr *address, socklen_t length, char out[ADDRESS_TEXT_MAX])
{
    char host[48] = "", port[8] = "";
    out[0] = '\0';
    if (getnameinfo(address, length, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) == 0 &&
        port[0] != '\0') /* that of a unix socket is empty */
        (void)snprintf(out, ADDRESS_TEXT_MAX, strchr(host, ':') != NULL ? "[%s]:%s" : "%s:%s", host, port);
}

void address_host(const char *text, char out[ADDRESS_TEXT_MAX])
{
    const char *colon = strrchr(text, ':');
    size_t length = colon != NULL ? (size_t)(colon - text) : strlen(text);
    bool bracketed = length >= 2 && text[0] == '[' && text[length - 1] == ']';
    (void)snprintf(out, ADDRESS_TEXT_MAX, "%.*s", (int)(bracketed ? length - 2 : length), text + bracketed);
}
