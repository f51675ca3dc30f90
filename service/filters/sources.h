/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CONTROL_SOURCES_H
#define SERVICE_CONTROL_SOURCES_H
/* A thread that looks at the tables of filters, one after another: whether they are fit to build from, and
 * how many rows they have. The controller asks for a look and goes on; a database that hangs holds up only
 * the looks that come after, each for [postgres] timeout at most. */
#include "base/mailbox.h"
#include "service/config/config.h"
#include "migrate/source/source.h"

struct sources;
struct source_look;

/* What a look has found. */
struct source_facts {
    enum err code; /* the first failure; ERR_OK: all of it was had */
    struct source_rows rows;
    uint64_t at_ms; /* when, wall clock */
    struct error error;
};

/* Where the rows of @f are: borrowed from @c. */
struct source_config sources_config(const struct config *c, const struct config_filter *f);

MUST_CHECK enum err sources_start(struct sources **out, struct mailbox *controller, struct error *e);
/* Ends the look that is under way, too. Looks stay whose they are. NULL is fine. */
void sources_stop(struct sources *t);

/* Have the table of @filter, which is one of @config, looked at; @config is held meanwhile. @known: the last
 * look was ERR_OK; the controller is woken where this one ends otherwise. The caller frees the look after its
 * end. NULL: no memory. */
struct source_look *sources_look(struct sources *t, const struct config *config,
                                 const struct config_filter *filter, bool known);
/* True once it has ended: *@out is what was found. */
bool source_look_ended(const struct source_look *l, struct source_facts *out);
/* One that has ended, or whose thread has. NULL is fine. */
void source_look_free(struct source_look *l);
#endif
