/* SPDX-License-Identifier: MIT */
#ifndef TESTS_UNIT_SERVICE_INI_H
#define TESTS_UNIT_SERVICE_INI_H
/* Configurations as texts, read as the file t.ini. */
#include "service/config/config.h"

#define HASH "$y$j75$wxZuc9zvOwHhA1nQX8/PP0$d4Gp/uaOMD/tjgUyHthHB1RcgHeLw8WAR4BqJ.u7e57"
#define HEX "0123456789abcdef0123456789abcdef"

/* Keys of all sections but users', a filter with a source and one without. */
extern const char ini_full[];

enum err ini_read(struct config **out, const char *text, struct error *e);

/* It must be taken; the caller frees it. */
struct config *ini_accept(const char *text);

/* @text is refused with exactly the message "t.ini:" + @message. */
void ini_refuse(const char *text, const char *message);

/* The caller frees it. */
char *ini_print(const struct config *c);
#endif
