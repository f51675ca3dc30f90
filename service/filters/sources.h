/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_FILTERS_SOURCES_H
#define SERVICE_FILTERS_SOURCES_H
/* A thread that examines the tables of filters one after another: whether they are valid sources, how many
 * rows they have, and how far the database is. The controller requests a look and goes on. A database that
 * hangs delays only later looks, each by at most [postgres] timeout. */
#include "base/mailbox.h"
#include "service/config/config.h"
#include "migrate/source/source.h"

struct sources;
struct source_look;

/* The result of a look. */
struct source_facts {
    enum err code; /* the first failure; ERR_OK: everything was found */
    struct source_rows rows;
    uint64_t given; /* transactions have got ids below this one */
    struct source_history history;
    uint64_t at_ms; /* wall clock */
    struct error error;
};

/* The source of filter @f; strings are borrowed from @c. */
struct source_config sources_config(const struct config *c, const struct config_filter *f);

MUST_CHECK enum err sources_start(struct sources **out, struct mailbox *controller, struct error *e);
/* Also ends the look under way. Looks keep their owner. NULL is fine. */
void sources_stop(struct sources *t);

/* Examine the table of @filter, one of @config, which is held meanwhile. @known: the last look was ERR_OK;
 * the controller is woken if this one's result differs. The caller frees the look after its end. NULL: no
 * memory. */
struct source_look *sources_look(struct sources *t, const struct config *config,
                                 const struct config_filter *filter, bool known);
/* True once the look has ended; *@out: its result. */
bool source_look_ended(const struct source_look *l, struct source_facts *out);
/* The look, or its thread, must have ended. NULL is fine. */
void source_look_free(struct source_look *l);
#endif
