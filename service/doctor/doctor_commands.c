/* SPDX-License-Identifier: MIT */
/* Checks that each command that the service needs exists and is allowed. COMMAND INFO and ACL DRYRUN would
 * need rights of their own, and do not cover keys and channels. So each command is run once, on a scratch key
 * under the prefix that nothing else reads and that is deleted at the end. After a crash a key with a TTL of
 * a minute remains.
 *
 * To add one: a row, and its name in docs/howto/connect-to-redis.md (test_doctor compares them). */
#include "service/doctor/doctor_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/buffer.h"
#include "base/random.h"
#include "shard/filter/names.h"

enum { REASON_MAX = 160 };

static bool clustered(const struct doctor *d)
{
    return d->o->nodes->cluster != NULL;
}

static bool waits(const struct doctor *d)
{
    return doctor_add_acks(d) > 0;
}

/* In an order in which each command finds the data it needs, and the last ones delete everything. */
const struct doctor_command doctor_command_rows[] = {
    {"ping", NULL, {"PING"}},
    {"time", NULL, {"TIME"}},
    {"info", NULL, {"INFO", "server"}},
    {"eval", NULL, {"EVAL", "return 1", "0"}},
    {"publish", NULL, {"PUBLISH", "C", "doctor"}},
    {"scan", NULL, {"SCAN", "0", "COUNT", "1"}},
    {"set", NULL, {"SET", "S", "1", "PX", "60000"}},
    {"get", NULL, {"GET", "S"}},
    {"getrange", NULL, {"GETRANGE", "S", "0", "0"}},
    {"incr", NULL, {"INCR", "S"}},
    {"setrange", NULL, {"SETRANGE", "S", "0", "2"}},
    {"strlen", NULL, {"STRLEN", "S"}},
    {"memory|usage", NULL, {"MEMORY", "USAGE", "S"}},
    {"exists", NULL, {"EXISTS", "S"}},
    {"type", NULL, {"TYPE", "S"}},
    {"rename", NULL, {"RENAME", "S", "S"}},
    {"persist", NULL, {"PERSIST", "S"}},
    {"pexpire", NULL, {"PEXPIRE", "S", "60000"}},
    {"pttl", NULL, {"PTTL", "S"}},
    {"sadd", NULL, {"SADD", "Z", "a"}},
    {"smembers", NULL, {"SMEMBERS", "Z"}},
    {"sscan", NULL, {"SSCAN", "Z", "0"}},
    {"srem", NULL, {"SREM", "Z", "a"}},
    {"hset", NULL, {"HSET", "H", "f", "1"}},
    {"hsetnx", NULL, {"HSETNX", "H", "f", "1"}},
    {"hget", NULL, {"HGET", "H", "f"}},
    {"hmget", NULL, {"HMGET", "H", "f"}},
    {"hgetall", NULL, {"HGETALL", "H"}},
    {"hkeys", NULL, {"HKEYS", "H"}},
    {"hexists", NULL, {"HEXISTS", "H", "f"}},
    {"hincrby", NULL, {"HINCRBY", "H", "f", "1"}},
    {"hdel", NULL, {"HDEL", "H", "f"}},
    {"lpush", NULL, {"LPUSH", "L", "a"}},
    {"lrange", NULL, {"LRANGE", "L", "0", "-1"}},
    {"ltrim", NULL, {"LTRIM", "L", "0", "0"}},
    {"xadd", NULL, {"XADD", "X", "*", "f", "1"}},
    {"xlen", NULL, {"XLEN", "X"}},
    {"xrange", NULL, {"XRANGE", "X", "-", "+"}},
    {"xrevrange", NULL, {"XREVRANGE", "X", "+", "-"}},
    {"xtrim", NULL, {"XTRIM", "X", "MAXLEN", "1"}},
    {"del", NULL, {"DEL", "H", "L", "X"}},
    {"unlink", NULL, {"UNLINK", "S", "Z"}},
    {"wait", waits, {"WAIT", "0", "1"}},
    {"waitaof", doctor_add_fsync, {"WAITAOF", "0", "0", "1"}},
    {"cluster|slots", clustered, {"CLUSTER", "SLOTS"}},
    {"cluster|shards", clustered, {"CLUSTER", "SHARDS"}},
    {"asking", clustered, {"ASKING"}},
    /* After this the connection is useless. */
    {"subscribe", NULL, {"SUBSCRIBE", "C"}},
};
const size_t doctor_command_count = sizeof(doctor_command_rows) / sizeof(doctor_command_rows[0]);

/* --- one node --- */

/* Commands that the user may not run and commands that the server lacks, as text and as an ACL rule. */
struct refused {
    struct buffer denied, rule, missing;
    char reason[REASON_MAX]; /* the first error, in Redis' words */
};

/* Keys in one slot of that master. */
struct scratch {
    struct key_name key[5]; /* S, H, L, Z, X */
    char channel[PREFIX_MAX + sizeof(":events")];
};

static const char kinds[] = "SHLZX";

static void name_scratch(const struct doctor *d, const struct doctor_node *n, struct scratch *s)
{
    const char *prefix = d->o->config->prefix;
    uint64_t random = random_u64();
    for (size_t i = 0; i < sizeof(s->key) / sizeof(s->key[0]); i++) {
        char what[48];
        (void)snprintf(what, sizeof(what), "doctor:%016" PRIx64 ":%c", random, kinds[i]);
        names_on_master(prefix, n->slot, what, &s->key[i]);
    }
    (void)snprintf(s->channel, sizeof(s->channel), "%s:events", prefix);
}

static enum err run(struct sync_client *l, const struct doctor_node *n, const struct scratch *s,
                    const struct doctor_command *row, redisReply **out, struct error *e)
{
    const char *argv[DOCTOR_WORDS_MAX];
    size_t lengths[DOCTOR_WORDS_MAX], argc = 0;
    for (; argc < DOCTOR_WORDS_MAX && row->word[argc] != NULL; argc++) {
        const char *word = row->word[argc];
        const char *kind = word[0] != '\0' && word[1] == '\0' ? strchr(kinds, word[0]) : NULL;
        argv[argc] = kind != NULL ? s->key[kind - kinds].text : strcmp(word, "C") == 0 ? s->channel : word;
        lengths[argc] = strlen(argv[argc]);
    }
    enum err code = sync_client_append(l, n->where, argc, argv, lengths, e);
    return code == ERR_OK ? sync_client_reply(l, n->where, out, e) : code;
}

static bool begins(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0;
}

static void judge(struct refused *f, const struct doctor_command *row, const redisReply *r)
{
    if (r->type != REDIS_REPLY_ERROR)
        return;
    if (begins(r->str, "NOPERM")) {
        buffer_printf(&f->denied, "%s%s", f->denied.length > 0 ? " " : "", row->name);
        buffer_printf(&f->rule, " +%s", row->name);
        if (f->reason[0] == '\0')
            (void)snprintf(f->reason, sizeof(f->reason), "%.150s", r->str);
    } else if (begins(r->str, "ERR unknown command") || begins(r->str, "ERR unknown subcommand") ||
               begins(r->str, "ERR Unknown subcommand")) {
        buffer_printf(&f->missing, "%s%s", f->missing.length > 0 ? " " : "", row->name);
    } /* other errors mean that it was allowed; memory, disk and role have probes of their own */
}

static void tell(struct doctor *d, const struct doctor_node *n, struct refused *f, unsigned count)
{
    char remedy[1024];
    const struct nodes *nodes = d->o->nodes;
    const char *user = nodes->cluster == NULL ? nodes->node[n->where].user : "";
    const char *prefix = d->o->config->prefix;
    if (f->denied.length > 0) {
        (void)snprintf(remedy, sizeof(remedy), "ACL SETUSER %s ~%s:* &%s:events%.700s",
                       user[0] != '\0'          ? user
                       : nodes->cluster != NULL ? "USER"
                                                : "default",
                       prefix, prefix, buffer_text(&f->rule));
        doctor_tell(d, DOCTOR_PROBLEM, n->name, remedy, "not allowed: %.600s (%s)", buffer_text(&f->denied),
                    f->reason);
    }
    if (f->missing.length > 0)
        doctor_tell(d, DOCTOR_PROBLEM, n->name,
                    "upgrade it to Redis 7.0 or later, and undo rename-command for these",
                    "the server does not have: %.600s", buffer_text(&f->missing));
    if (f->denied.length == 0 && f->missing.length == 0)
        doctor_tell(d, DOCTOR_OK, n->name, "", "%u commands are there and allowed", count);
}

static void try_all(struct doctor *d, struct sync_client *l, const struct doctor_node *n)
{
    struct refused f = {.reason = ""};
    struct scratch s;
    struct error e;
    unsigned count = 0;
    enum err code = ERR_OK;
    name_scratch(d, n, &s);
    for (size_t i = 0; i < doctor_command_count && code == ERR_OK; i++) {
        SCOPED(scope_reply) redisReply *r = NULL;
        if (doctor_command_rows[i].needed != NULL && !doctor_command_rows[i].needed(d))
            continue;
        code = run(l, n, &s, &doctor_command_rows[i], &r, &e);
        if (code == ERR_OK) {
            judge(&f, &doctor_command_rows[i], r);
            count++;
        }
    }
    if (code != ERR_OK)
        doctor_tell(d, DOCTOR_PROBLEM, n->name, "look at its log, and run this again", "%s", e.text);
    else
        tell(d, n, &f, count);
    buffer_fini(&f.denied);
    buffer_fini(&f.rule);
    buffer_fini(&f.missing);
}

/* Find @n in another client, whose list of masters may have another order. False: it is not there. */
static bool find_node(struct sync_client *l, const struct doctor_node *n, struct doctor_node *out)
{
    struct error ignored;
    unsigned count = 0;
    *out = *n;
    if (sync_client_masters(l, &count, &ignored) != ERR_OK)
        return false;
    for (unsigned i = 0; i < count; i++) {
        out->where = sync_client_master(l, i);
        out->slot = sync_client_master_slot(l, i);
        if (strcmp(sync_client_name(l, out->where), n->name) == 0)
            return true;
    }
    return false;
}

/* Uses connections of its own, as they end in subscriber mode. */
void doctor_commands(struct doctor *d, const struct doctor_node *node)
{
    struct doctor_node n;
    struct sync_client *l =
        sync_client_new(d->o->nodes, (unsigned)d->o->config->redis_timeout_ms, "twinbloom-doctor");
    if (l != NULL && find_node(l, node, &n))
        try_all(d, l, &n);
    else
        doctor_tell(d, DOCTOR_PROBLEM, node->name, "run this again", "the cluster changed meanwhile");
    sync_client_free(l);
}
