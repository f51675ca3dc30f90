/* SPDX-License-Identifier: MIT */
#include "service/config/config_check.h"

#include <string.h>

#include "base/buffer.h"
#include "expansion/decide/schedule.h"
#include "expansion/follow/follower.h"
#include "expansion/decide/window.h"
#include "service/config/config_keys.h"
#include "shard/redis/nodes/cluster.h"
#include "shard/filter/names.h"
#include "shard/redis/nodes/nodes.h"
#include "shard/redis/nodes/sentinels.h"

/* The first of @keys, which NULL ends, that does not have its default; NULL: there is none. */
static const char *first_set(enum config_section section, const void *base, const char *const *keys)
{
    bool set = false;
    for (; *keys != NULL; keys++) {
        const struct config_key *k = config_key_find(section, *keys);
        SCOPED(buffer_fini) struct buffer value = {0};
        config_key_format(k, base, &value);
        set = strcmp(buffer_text(&value), k->standard) != 0 && !buffer_failed(&value);
        if (set)
            break;
    }
    return *keys;
}

/* Who sets up TLS does not want to speak without it. */
static enum err check_redis_tls(const struct config_check *c, bool used)
{
    const struct config *config = c->config;
    static const char *const keys[] = {
        "tls_ca_file", "tls_ca_dir", "tls_cert_file", "tls_key_file", "tls_server_name", "tls_verify", NULL};
    const char *key = used ? NULL : first_set(CONFIG_REDIS, config, keys);
    if (key != NULL)
        return config_refuse_key(c, CONFIG_REDIS, NULL, key,
                                 "'%s' is set, but no node uses TLS; write rediss:// in nodes, or remove it",
                                 key);
    if ((*config->redis_cert_file == '\0') == (*config->redis_key_file == '\0'))
        return ERR_OK;
    return config_refuse_key(c, CONFIG_REDIS, NULL,
                             *config->redis_cert_file == '\0' ? "tls_key_file" : "tls_cert_file",
                             "'tls_cert_file' and 'tls_key_file' belong together; give both or none");
}

/* The text of nodes_parse() may repeat a part of the value, so it is masked too. */
static enum err refuse_nodes(const struct config_check *c, const char *key, const char *why)
{
    SCOPED(buffer_fini) struct buffer what = {0};
    buffer_printf(&what, "'%s': ", key);
    config_mask(&what, why);
    buffer_puts(&what, "; write redis://host:port, rediss://host:port");
    buffer_puts(&what, strcmp(key, "nodes") == 0 ? " or unix:///path, comma separated" : ", comma separated");
    return config_refuse_key(c, CONFIG_REDIS, NULL, key, "%s", buffer_text(&what));
}

enum err config_nodes(const struct config *c, struct nodes *nodes, struct nodes *sentinels, struct error *e)
{
    sentinels->count = 0;
    if (*c->sentinel != '\0')
        return sentinels_parse(nodes, sentinels, c->sentinel, c->master, e);
    return *c->cluster != '\0' ? cluster_parse_seeds(nodes, c->cluster, e) : nodes_parse(nodes, c->nodes, e);
}

static enum err check_nodes(const struct config_check *c)
{
    struct nodes nodes, asked;
    struct error why = {{0}};
    const struct config *config = c->config;
    bool sentinel = *config->sentinel != '\0' || *config->master != '\0', cluster = *config->cluster != '\0';
    const char *key = sentinel ? "sentinel" : cluster ? "cluster" : "nodes";
    if (nodes_parse(&nodes, config->nodes, &why) != ERR_OK)
        return refuse_nodes(c, "nodes", why.text);
    bool twice = strcmp(config->nodes, CONFIG_NODES_DEFAULT) != 0;
    if ((sentinel || twice) && cluster)
        return config_refuse_key(c, CONFIG_REDIS, NULL, key,
                                 "'cluster' and '%s' exclude each other; remove one of them",
                                 sentinel ? "sentinel" : "nodes");
    if (cluster && *config->state_file != '\0')
        return config_refuse_key(c, CONFIG_SERVICE, NULL, "state_file",
                                 "'state_file' and 'cluster' exclude each other; remove state_file");
    if (sentinel && twice)
        return config_refuse_key(c, CONFIG_REDIS, NULL, key,
                                 "'nodes' and 'sentinel' exclude each other; remove one of them");
    if (sentinel && (*config->sentinel == '\0' || *config->master == '\0'))
        return config_refuse_key(c, CONFIG_REDIS, NULL, *config->sentinel == '\0' ? "master" : "sentinel",
                                 "'sentinel' and 'master' belong together; give both or none");
    if (config_nodes(config, &nodes, &asked, &why) != ERR_OK)
        return refuse_nodes(c, key, why.text);
    return check_redis_tls(c, nodes_use_tls(&nodes) || nodes_use_tls(&asked));
}

static enum err check_service(const struct config_check *c)
{
    enum err err = config_check_access(c);
    if (err == ERR_OK)
        err = check_nodes(c);
    struct names names;
    struct error why = {{0}};
    if (err == ERR_OK && names_init(&names, c->config->prefix, "f", 1, &why) != ERR_OK)
        err = config_refuse_key(c, CONFIG_REDIS, NULL, "prefix",
                                "'prefix': %.400s; choose letters, digits and '-'", why.text);
    return err;
}

static enum err check_name(const struct config_check *c, const struct config_filter *f)
{
    struct names names;
    struct error why;
    if (names_init(&names, c->config->prefix, f->name, strlen(f->name), &why) == ERR_OK)
        return ERR_OK;
    return config_refuse_key(c, CONFIG_FILTER, f->name, "", "%.400s; choose a shorter one", why.text);
}

static enum err check_source(const struct config_check *c, const struct config_filter *f)
{
    static const char *const need_table[] = {
        "key",       "where",       "schedule", "window", "expand_at_dead",
        "follow_by", "publication", "slot",     "outbox", NULL};
    const char *key = *f->table == '\0' ? first_set(CONFIG_FILTER, f, need_table) : NULL;
    if (key != NULL)
        return config_refuse_key(c, CONFIG_FILTER, f->name, key,
                                 "'%s' has no effect without a table; add table = NAME or remove it", key);
    if (*f->table == '\0')
        return ERR_OK;
    if (*f->key == '\0')
        return config_refuse_key(c, CONFIG_FILTER, f->name, "table",
                                 "a table needs a key; add key = the column that holds it");
    if (*c->config->dsn == '\0')
        return config_refuse_key(c, CONFIG_FILTER, f->name, "table",
                                 "a table needs a database; add dsn = postgresql://... below [postgres]");
    if (f->follow_by == FOLLOW_BY_LOGICAL && *f->publication == '\0')
        return config_refuse_key(c, CONFIG_FILTER, f->name, "follow_by",
                                 "follow_by = logical needs a publication; make it by sql/publication.sql "
                                 "and add publication = NAME");
    if (f->follow_by == FOLLOW_BY_OUTBOX && *f->outbox == '\0')
        return config_refuse_key(
            c, CONFIG_FILTER, f->name, "follow_by",
            "follow_by = outbox needs an outbox; make it by sql/outbox.sql and add outbox = NAME");
    if (strspn(f->slot, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(f->slot) || strlen(f->slot) >= 64)
        return config_refuse_key(c, CONFIG_FILTER, f->name, "slot",
                                 "'slot' must be up to 63 of a-z, 0-9 and _; choose another name");
    return ERR_OK;
}

static enum err check_times(const struct config_check *c, const struct config_filter *f)
{
    struct schedule schedule;
    struct window window;
    struct error why = {{0}};
    if (*f->schedule != '\0' && schedule_parse(&schedule, f->schedule, &why) != ERR_OK)
        return config_refuse_key(c, CONFIG_FILTER, f->name, "schedule",
                                 "'schedule': %.400s; write five fields, such as 30 3 * * *", why.text);
    if (window_parse(&window, f->window, &why) != ERR_OK)
        return config_refuse_key(c, CONFIG_FILTER, f->name, "window",
                                 "'window': %.400s; write hours such as 01:00-05:00, several with commas",
                                 why.text);
    return ERR_OK;
}

static enum err check_placement(const struct config_check *c, const struct config_filter *f)
{
    struct nodes nodes, asked;
    struct placement on;
    struct error why = {{0}};
    if (c->config->cluster[0] != '\0' && f->nodes[0] != '\0')
        return config_refuse_key(c, CONFIG_FILTER, f->name, "nodes",
                                 "'nodes' has no effect in a Redis Cluster, where slots decide; remove it");
    if (c->config->cluster[0] != '\0' || config_nodes(c->config, &nodes, &asked, &why) != ERR_OK ||
        placement_choose(&on, &nodes, f->nodes, &why) == ERR_OK)
        return ERR_OK; /* the second is said elsewhere */
    return config_refuse_key(c, CONFIG_FILTER, f->name, "nodes", "'nodes': %.400s", why.text);
}

/* What a tail confirms is gone for every other. */
static enum err check_shared(const struct config_check *c, size_t i)
{
    const struct config_filter *f = &c->config->filter[i];
    char slot[FOLLOWER_SLOT_MAX], other[FOLLOWER_SLOT_MAX];
    follower_slot_of(slot, f->slot, f->name);
    for (size_t j = 0; j < i; j++) {
        const struct config_filter *g = &c->config->filter[j];
        if (f->follow_by == FOLLOW_BY_IDS || f->follow_by != g->follow_by)
            continue;
        follower_slot_of(other, g->slot, g->name);
        bool outbox = f->follow_by == FOLLOW_BY_OUTBOX;
        if (strcmp(outbox ? f->outbox : slot, outbox ? g->outbox : other) != 0)
            continue;
        const char *key = outbox ? "outbox" : "slot";
        return config_refuse_key(c, CONFIG_FILTER, f->name, key,
                                 "'%s' is used by filter '%.60s' already; each filter needs its own", key,
                                 g->name);
    }
    return ERR_OK;
}

enum err config_check_whole(const struct config_check *c)
{
    enum err err = check_service(c);
    for (size_t i = 0; i < c->config->filter_count && err == ERR_OK; i++) {
        const struct config_filter *f = &c->config->filter[i];
        err = check_name(c, f);
        if (err == ERR_OK)
            err = check_source(c, f);
        if (err == ERR_OK)
            err = check_placement(c, f);
        if (err == ERR_OK)
            err = check_times(c, f);
    }
    for (size_t i = 0; i < c->config->filter_count && err == ERR_OK; i++)
        err = check_shared(c, i);
    return err;
}
