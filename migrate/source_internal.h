/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_SOURCE_INTERNAL_H
#define MIGRATE_SOURCE_INTERNAL_H
/* What scan and settle know of a source. Private to this folder. */
#include "migrate/connection.h"
#include "migrate/source.h"

enum { SOURCE_TABLE, SOURCE_ID, SOURCE_KEY, SOURCE_WHERE, SOURCE_BINDINGS };

/* What the catalog says of a column. */
struct source_column {
    char name[144]; /* as the server quotes it */
    char type[64];  /* without domains; "" where there is no such column */
    bool not_null;
    bool may_select;
};

struct source {
    struct connection *connection;
    const struct source_config *config; /* &own */
    struct source_config own;
    char oid[16]; /* "": the table was not found */
    char table[288];
    char schema[144];
    char role[144];
    bool is_table;
    bool has_children;
    bool hides_rows;
    bool may_use_schema;
    bool is_standby;
    struct source_column id;
    struct source_column key;
    char *key_piece;
    char *where_piece;
    struct sql_binding bindings[SOURCE_BINDINGS];
    struct error problem; /* why the names could not be resolved */
    bool resolved;        /* else only source_check() makes sense: it says what is wrong */
    unsigned prepared;    /* bits of scan's statements that the session knows */
};

/* ERR_CONFIG where the names of the configuration could not be resolved. */
MUST_CHECK enum err source_ready(struct source *s, struct error *e);

/* Run sql/<name>.sql with the source's table, id, key and where, and further values. */
MUST_CHECK enum err source_run(struct source *s, const char *name, const struct connection_param *params,
                               size_t count, PGresult **out, struct error *e);

/* The statement of that name, bound to the source. */
struct statement source_statement(const struct source *s, const char *name);
#endif
