/* SPDX-License-Identifier: MIT */
#include "service/daemon/daemon_check.h"

#include <inttypes.h>
#include <stdlib.h>
#include "base/number.h"
#include "expansion/follow/follower.h"
#include "service/filters/sources.h"
#include "service/core/tls.h"

enum { EXIT_USAGE = 2 };

typedef enum err source_fn(const struct config *config, const struct config_filter *f, struct source *source,
                           struct error *e);

/* Call @fn (which may be NULL) with the source of each filter that has one, once it is found usable. Where
 * the database cannot be reached: @strict ends with that error, else the filter is passed over. */
static enum err each_source(const struct config *config, const char *path, bool strict, source_fn *fn,
                            struct error *e)
{
    for (size_t i = 0; i < config->filter_count; i++) {
        const struct config_filter *f = &config->filter[i];
        if (f->table[0] == '\0')
            continue;
        struct source *source = NULL;
        const struct source_config sc = sources_config(config, f);
        enum err code = source_open(&source, &sc, (unsigned)config->postgres_timeout_ms, e);
        if (code == ERR_OK)
            code = source_check(source, e);
        if (code == ERR_OK && fn != NULL)
            code = fn(config, f, source, e);
        source_close(source);
        if (code == ERR_CONFIG || (strict && code != ERR_OK))
            return error_prefix(e, code, "%s:%u: [filter %s]", path, f->line, f->name);
    }
    return ERR_OK;
}

enum err daemon_check_sources(const struct config *config, const char *path, struct error *e)
{
    return each_source(config, path, false, NULL, e);
}

static void explain_rows(const struct config_filter *f, const struct source_rows *rows)
{
    static const char *const by[] = {[SOURCE_ROWS_COUNTED] = "counted",
                                     [SOURCE_ROWS_PLANNED] = "estimated by Postgres",
                                     [SOURCE_ROWS_GUESSED] = "guessed: run ANALYZE"};
    char text[NUMBER_GROUPED_SIZE];
    uint64_t least = config_capacity(f), needed = (uint64_t)((double)rows->rows * f->headroom);
    (void)printf("  table      %s: %s rows, %s\n", f->table, number_grouped(rows->rows, text), by[rows->by]);
    (void)printf("  capacity   %s at the first build: %s\n",
                 number_grouped(needed > least ? needed : least, text),
                 needed > least     ? "rows x headroom"
                 : f->capacity != 0 ? "as configured"
                                    : "the least with a table");
}

static void explain_follower(const struct config *config, const struct config_filter *f,
                             const struct source *s)
{
    (void)fputs("  follow     ", stdout);
    if (!f->follow)
        (void)puts("no: rows that plain SQL writes wait for the next rebuild");
    else if (f->follow_by != FOLLOW_BY_IDS)
        (void)printf("yes, by %s\n", f->follow_by == FOLLOW_BY_OUTBOX ? "outbox" : "logical replication");
    else if (source_id_is_integer(s))
        (void)printf("yes, by ids, every %" PRIu64 " ms\n", config->follower_interval_ms);
    else
        (void)printf("not possible: %s\n", FOLLOWER_NO_INTEGER);
}

static enum err explain(const struct config *config, const struct config_filter *f, struct source *source,
                        struct error *e)
{
    struct source_rows rows;
    enum err code = source_rows_look(source, &rows, e);
    if (code != ERR_OK)
        return code;
    (void)printf("[filter %s]\n", f->name);
    explain_rows(f, &rows);
    (void)printf("  id_column  %s%s\n", source_id_text(source),
                 f->id_column[0] == '\0' ? ": the primary key" : "");
    explain_follower(config, f, source);
    return ERR_OK;
}

int daemon_check_config(const struct config *config, const char *path)
{
    struct error e;
    struct tls_contexts certificates;
    enum err code = tls_load(&certificates, config, &e);
    tls_unload(&certificates);
    if (code != ERR_OK || each_source(config, path, true, explain, &e) != ERR_OK) {
        (void)fflush(stdout);
        (void)fprintf(stderr, "twinbloomd: %s\n", e.text);
        return EXIT_USAGE;
    }
    (void)printf("%s: valid, %zu filter%s\n", path, config->filter_count,
                 config->filter_count == 1 ? "" : "s");
    return EXIT_SUCCESS;
}
