/* SPDX-License-Identifier: MIT */
#ifndef TESTS_UNIT_SERVICE_INI_H
#define TESTS_UNIT_SERVICE_INI_H
/* Reads configurations from texts, as if from the file t.ini. */
#include "service/config/config.h"

#define HASH "$y$j75$wxZuc9zvOwHhA1nQX8/PP0$d4Gp/uaOMD/tjgUyHthHB1RcgHeLw8WAR4BqJ.u7e57"
#define HEX "0123456789abcdef0123456789abcdef"

/* Has keys of all sections except [user], a filter with a source, and a filter without. */
extern const char ini_full[];

enum err ini_read(struct config **out, const char *text, struct error *e);

/* @text must be accepted. The caller frees the result. */
struct config *ini_accept(const char *text);

/* @text must be refused with exactly the message "t.ini:" + @message. */
void ini_refuse(const char *text, const char *message);

/* The caller frees the text. */
char *ini_print(const struct config *c);
#endif
