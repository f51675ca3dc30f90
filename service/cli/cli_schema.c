/* SPDX-License-Identifier: MIT */
/* What each command prints with --json. */
#include "service/cli/cli_schema.h"

#include <stdio.h>
#include <string.h>

enum {
    S = JSON_STRING,
    I = JSON_INTEGER,
    N = JSON_NUMBER,
    B = JSON_BOOL,
    NIL = JSON_NULL,
    ALWAYS = JSON_ALWAYS
};

#define SHAPE(shape, text)                                                                                   \
    struct json_shape json_##shape = {text, shape##_members,                                                 \
                                      sizeof(shape##_members) / sizeof(shape##_members[0])}

/* --- plans --- */

static const struct json_member plan_node_members[] = {
    {"node", S | ALWAYS, "its address", NULL},
    {"shards", I, "of the new generation that it gets", NULL},
    {"before_bytes", I, "of the filter there now", NULL},
    {"during_bytes", I, "with both generations and uploads", NULL},
    {"after_bytes", I, "of the filter there afterwards", NULL},
    {"used_bytes", I | NIL, "that the server uses now", NULL},
    {"used_during_bytes", I | NIL, "that it will use", NULL},
    {"limit_bytes", I | NIL, "that it may come to", NULL},
    {"maxmemory_bytes", I | NIL, "0: none", NULL},
};
static const SHAPE(plan_node, "node of a plan");

static const struct json_member plan_step_members[] = {
    {"step", S | ALWAYS, "its name", NULL},
    {"what", S | ALWAYS, "what it does, for people", NULL},
    {"rows", I, "that it reads", NULL},
    {"duration_seconds", N, "that it takes, about", NULL},
    {"memory_before_bytes", I, "in Redis before", NULL},
    {"memory_peak_bytes", I, "in Redis at most", NULL},
    {"memory_after_bytes", I, "in Redis afterwards", NULL},
};
static const SHAPE(plan_step, "step of a dry run");

static const struct json_member plan_members[] = {
    {"filter", S | ALWAYS, "", NULL},
    {"fits", B | ALWAYS, "whether there is room", NULL},
    {"refused", S, "why a rebuild would be refused", NULL},
    {"warning", S, "", NULL},
    {"reason", S, "what would start it", NULL},
    {"rows", I, "of the source", NULL},
    {"keys", I, "now", NULL},
    {"capacity", I, "of the new generation, as are the following", NULL},
    {"error_rate", N, "", NULL},
    {"shards", I, "", NULL},
    {"blocks", I, "of a shard", NULL},
    {"block_bits", I, "", NULL},
    {"hashes", I, "bits that a key sets", NULL},
    {"size_bytes", I, "", NULL},
    {"memory_now_bytes", I, "of the filter in Redis", NULL},
    {"memory_new_bytes", I, "of the new generation", NULL},
    {"memory_peak_bytes", I, "at the peak", NULL},
    {"memory_after_bytes", I, "afterwards", NULL},
    {"partitions", I, "of the build", NULL},
    {"node_count", I, "", NULL},
    {"nodes", S, "which", NULL},
    {"per_node", JSON_OBJECTS, "each node, those that it leaves last", &json_plan_node},
    {"dry_run", B, "true", NULL},
    {"rows_per_second", N, "of the scan", NULL},
    {"rows_per_second_by", S, "how that is known", NULL},
    {"duration_seconds", N, "of the whole, at least", NULL},
    {"steps", JSON_OBJECTS, "with --dry-run", &json_plan_step},
};
const SHAPE(plan, "plan");

static const struct json_member estimate_members[] = {
    {"keys", I | ALWAYS, "as given", NULL},
    {"error_rate", N | ALWAYS, "as given", NULL},
    {"shards", I | ALWAYS, "", NULL},
    {"blocks", I | ALWAYS, "of a shard", NULL},
    {"block_bits", I | ALWAYS, "", NULL},
    {"hashes", I | ALWAYS, "bits that a key sets", NULL},
    {"shard_bytes", I | ALWAYS, "", NULL},
    {"shard_memory_bytes", I | ALWAYS, "what Redis allocates for one", NULL},
    {"size_bytes", I | ALWAYS, "of all shards", NULL},
    {"bits_per_key", N | ALWAYS, "", NULL},
    {"memory_bytes", I | ALWAYS, "what Redis allocates for all", NULL},
    {"next_capacity", I | ALWAYS, "capacity of the rebuild's generation", NULL},
    {"next_shards", I | ALWAYS, "", NULL},
    {"next_memory_bytes", I | ALWAYS, "", NULL},
    {"partitions", I, "with --build-memory", NULL},
    {"spilled_bytes", I, "written to spill_dir", NULL},
    {"spill_peak_bytes", I, "there at most", NULL},
    {"rows_per_second", I | ALWAYS, "of the scan", NULL},
    {"rows_per_second_by", S | ALWAYS, "given or assumed", NULL},
    {"create_seconds", N | ALWAYS, "of the rebuild's parts", NULL},
    {"scan_seconds", N | ALWAYS, "", NULL},
    {"upload_seconds", N | ALWAYS, "", NULL},
    {"sweep_seconds", N | ALWAYS, "", NULL},
    {"fence_seconds", N | ALWAYS, "", NULL},
    {"rebuild_seconds", N | ALWAYS, "all of them", NULL},
    {"node_memory_bytes", I, "as given", NULL},
    {"node_room_bytes", I, "that a tenth to spare leaves", NULL},
    {"nodes_needed", I, "with --node-memory", NULL},
    {"node_count", I | ALWAYS, "over how many it is spread", NULL},
    {"node_shards", I | ALWAYS, "of each node", NULL},
    {"node_before_bytes", I | ALWAYS, "on each node before a rebuild", NULL},
    {"node_during_bytes", I | ALWAYS, "with both generations", NULL},
    {"node_after_bytes", I | ALWAYS, "afterwards", NULL},
    {"fits", B, "whether there is room", NULL},
    {"refused", S, "why not", NULL},
};
const SHAPE(estimate, "estimate");

/* --- coordinators --- */

static const struct json_member coordinator_members[] = {
    {"coordinator", S | ALWAYS, "its id", NULL},
    {"state", S | ALWAYS, "serving, shutting_down or gone", NULL},
    {"version", S | ALWAYS, "", NULL},
    {"format", I | ALWAYS, "the latest form of views that it can read", NULL},
    {"host", S | ALWAYS, "", NULL},
    {"pid", I | ALWAYS, "", NULL},
    {"listen", S | ALWAYS, "where Redis clients connect", NULL},
    {"http", S | ALWAYS, "where HTTP is; empty: nowhere", NULL},
    {"started_at", N | ALWAYS, "Unix seconds", NULL},
    {"uptime_ms", I | ALWAYS, "", NULL},
    {"age_ms", I | ALWAYS, "since it said that it is there", NULL},
    {"clients", I | ALWAYS, "connections", NULL},
    {"filters", I | ALWAYS, "that it serves", NULL},
    {"behind", I | ALWAYS, "of which it has an older view than Redis", NULL},
    {"behind_filters", JSON_STRINGS, "some of them", NULL},
    {"jobs", JSON_STRINGS, "filters whose jobs it drives", NULL},
    {"nodes", S | ALWAYS, "the Redis nodes of its configuration", NULL},
    {"redis", S | ALWAYS, "ok, or the error", NULL},
    {"postgres", S | ALWAYS, "ok, none, or the error", NULL},
    {"filter", S, "with FILTER", NULL},
    {"epoch", I | NIL, "of FILTER there; null: not loaded", NULL},
    {"view_epoch", I, "of FILTER in Redis", NULL},
    {"current", B, "whether they are the same", NULL},
};
const SHAPE(coordinator, "coordinator");

static const struct json_member node_members[] = {
    {"node", S | ALWAYS, "its address", NULL},
    {"state", S | ALWAYS, "up, down, or unused (no connection was needed yet)", NULL},
    {"server", S | NIL | ALWAYS, "redis or valkey; null: it does not answer", NULL},
    {"version", S | NIL | ALWAYS, "of the server", NULL},
    {"connections", I | ALWAYS, "of this coordinator, that are open", NULL},
    {"reconnects", I | ALWAYS, "since this coordinator started", NULL},
    {"failures", I | ALWAYS, "attempts and connections that failed", NULL},
    {"slots", I, "of a cluster", NULL},
    {"used_bytes", I | NIL | ALWAYS, "memory that the server uses", NULL},
    {"maxmemory_bytes", I | NIL | ALWAYS, "0: no limit", NULL},
    {"error", S | ALWAYS, "of the last failure; empty: there was none", NULL},
    {"error_at", N | NIL | ALWAYS, "when that was", NULL},
};
const SHAPE(node, "node");

/* --- doctor --- */

static const struct json_member finding_members[] = {
    {"probe", S | ALWAYS, "what looked: redis, memory, commands, table, ...", NULL},
    {"subject", S | ALWAYS, "what was looked at: a node, a filter, ...; empty: the service as a whole", NULL},
    {"state", S | ALWAYS, "ok, warning or problem", NULL},
    {"found", S | ALWAYS, "", NULL},
    {"remedy", S | ALWAYS, "what to do; empty: nothing", NULL},
};
const SHAPE(finding, "finding");

/* --- errors --- */

static const struct json_member error_members[] = {
    {"code", S | ALWAYS, "see errors.md", NULL},
    {"message", S | ALWAYS, "for people; it may change", NULL},
};
const SHAPE(error, "error");

/* --- keys --- */

static const struct json_member check_key_members[] = {
    {"key", S | ALWAYS, "", NULL},
    {"key_hex", S, "where it is not UTF-8", NULL},
    {"present", B | ALWAYS, "it may be there; false: it is not", NULL},
};
static const SHAPE(check_key, "key that was asked for");
static const struct json_member check_members[] = {
    {"filter", S | ALWAYS, "", NULL},
    {"keys", JSON_OBJECTS | ALWAYS, "in their order", &json_check_key},
    {"present_count", I | ALWAYS, "how many", NULL},
    {"absent_count", I | ALWAYS, "how many", NULL},
    {"error", JSON_OBJECT, "why it ended early", &json_error},
};
const SHAPE(check, "check");

static const struct json_member add_key_members[] = {
    {"key", S | ALWAYS, "", NULL},
    {"key_hex", S, "where it is not UTF-8", NULL},
    {"added", B | ALWAYS, "false: it may have been there before", NULL},
};
static const SHAPE(add_key, "key that was added");
static const struct json_member add_members[] = {
    {"filter", S | ALWAYS, "", NULL},
    {"keys", JSON_OBJECTS | ALWAYS, "in their order", &json_add_key},
    {"added_count", I | ALWAYS, "how many", NULL},
    {"present_count", I | ALWAYS, "how many", NULL},
    {"error", JSON_OBJECT, "why it ended early", &json_error},
};
const SHAPE(add, "add");

static const struct json_member import_members[] = {
    {"filter", S | ALWAYS, "", NULL},
    {"key_count", I | ALWAYS, "keys that were read and settled", NULL},
    {"skipped_count", I | ALWAYS, "of them, by --skip", NULL},
    {"added_count", I | ALWAYS, "keys that are new", NULL},
    {"present_count", I | ALWAYS, "keys that may have been present before", NULL},
    {"refused_count", I | ALWAYS, "keys that the service refused", NULL},
    {"empty_count", I | ALWAYS, "empty keys, which are skipped", NULL},
    {"malformed_count", I | ALWAYS, "records of CSV without the column, or malformed", NULL},
    {"duration_ms", I | ALWAYS, "", NULL},
    {"error", JSON_OBJECT, "why it ended early", &json_error},
};
const SHAPE(import, "import");

static const struct json_member restore_members[] = {
    {"filter", S | ALWAYS, "", NULL},      {"size_bytes", I | ALWAYS, "of the dump", NULL},
    {"pieces", I | ALWAYS, "of it", NULL}, {"sent", I | ALWAYS, "pieces that the service did not have", NULL},
    {"duration_ms", I | ALWAYS, "", NULL},
};
const SHAPE(restore, "restore");

/* --- what is asked of a job, or done to a filter --- */

#define OUTCOME(id, member, type, meaning)                                                                   \
    static const struct json_member id##_members[] = {{"filter", JSON_STRING | JSON_ALWAYS, "", NULL},       \
                                                      {member, (type) | JSON_ALWAYS, meaning, NULL}};        \
    static const SHAPE(id, #id)

OUTCOME(started, "started", B, "true");
OUTCOME(aborted, "aborted", B, "true: it is asked to end");
OUTCOME(cutover, "cutover", B, "true: it is asked to switch");
OUTCOME(rolled_back, "rolled_back", B, "true: it is asked to");
OUTCOME(finished, "finished", B, "true: it is asked to");
OUTCOME(paused, "paused", B, "true: it is asked to");
OUTCOME(resumed, "resumed", B, "true: it is asked to");
OUTCOME(throttled, "rows_per_second_limit", I, "0: no limit");
OUTCOME(created, "created", B, "true");
OUTCOME(deleted, "deleted", B, "true");
OUTCOME(trusted, "trusted", B, "true");
OUTCOME(counted, "count", I, "keys, about");

/* --- others --- */

static const struct json_member config_key_members[] = {
    {"key", S | ALWAYS, "section.key or filter.NAME.key", NULL},
    {"value", S | ALWAYS, "as the file would have it; secrets are masked", NULL},
};
static const SHAPE(config_key, "key of the configuration");
static const struct json_member config_members[] = {
    {"keys", JSON_OBJECTS | ALWAYS, "after set: those that were set, as they are now", &json_config_key},
};
const SHAPE(config, "config");

static const struct json_member bench_command_members[] = {
    {"command", S | ALWAYS, "BF.EXISTS, BF.ADD, BF.MEXISTS or BF.MADD", NULL},
    {"requests", I | ALWAYS, "that were answered", NULL},
    {"keys", I | ALWAYS, "in them", NULL},
    {"errors", I | ALWAYS, "error replies", NULL},
    {"requests_per_second", N | ALWAYS, "", NULL},
    {"keys_per_second", N | ALWAYS, "", NULL},
    {"mean_us", I | ALWAYS, "latency in microseconds, as are the following", NULL},
    {"p50_us", I | ALWAYS, "", NULL},
    {"p90_us", I | ALWAYS, "", NULL},
    {"p99_us", I | ALWAYS, "", NULL},
    {"p999_us", I | ALWAYS, "of 99.9 percent", NULL},
    {"max_us", I | ALWAYS, "", NULL},
};
static const SHAPE(bench_command, "command of bench");
static const struct json_member bench_members[] = {
    {"filter", S | ALWAYS, "that was made, and is deleted", NULL},
    {"keys", I | ALWAYS, "that were in it before", NULL},
    {"key_bytes", I | ALWAYS, "", NULL},
    {"connections", I | ALWAYS, "", NULL},
    {"pipeline", I | ALWAYS, "", NULL},
    {"batch", I | ALWAYS, "", NULL},
    {"requests_per_second_limit", I | ALWAYS, "0: no limit", NULL},
    {"adds_ratio", N | ALWAYS, "their share of the requests", NULL},
    {"load_seconds", N | ALWAYS, "until the keys were in", NULL},
    {"duration_seconds", N | ALWAYS, "of the measurement", NULL},
    {"commands", JSON_OBJECTS | ALWAYS, "", &json_bench_command},
    {"checked_present", I | ALWAYS, "keys that are in, and were asked for", NULL},
    {"false_negatives", I | ALWAYS, "of them, reported absent", NULL},
    {"checked_absent", I | ALWAYS, "keys that are not in, and were asked for", NULL},
    {"false_positives", I | ALWAYS, "of them, reported present", NULL},
    {"added_again", I | ALWAYS, "keys of adds that adds had taken before", NULL},
    {"server_cpu_seconds", N | NIL | ALWAYS,
     "processor time of the server that was asked, by its INFO; a coordinator's Redis is not in it", NULL},
    {"disconnects", I | ALWAYS, "connections that broke or could not be made", NULL},
    {"error", S | ALWAYS, "the first; empty: none", NULL},
};
const SHAPE(bench, "bench");

static const struct json_member password_members[] = {{"password", S | ALWAYS, "its hash", NULL}};
const SHAPE(password, "password");
static const struct json_member token_members[] = {
    {"bearer", S | ALWAYS, "the token, for the client", NULL},
    {"token", S | ALWAYS, "its hash, for the configuration", NULL},
};
const SHAPE(token, "token");

static const struct json_output outputs_of_status[] = {{"without FILTER", &json_filter, true},
                                                       {"with FILTER", &json_filter, false}};
static const struct json_output outputs_of_plan[] = {{"with FILTER", &json_plan, false},
                                                     {"with --keys", &json_estimate, false}};
static const struct json_output outputs_of_rebuild[] = {
    {"", &json_started, false},
    {"with --wait: the status at its end", &json_filter, false},
    {"with --dry-run", &json_plan, false}};
static const struct json_output outputs_of_verify[] = {
    {"", &json_started, false}, {"with --wait: the status at its end", &json_filter, false}};
static const struct json_output outputs_of_passwd[] = {{"", &json_password, false},
                                                       {"with --token", &json_token, false}};

static const struct json_output outputs_of_doctor[] = {{"", &json_finding, true}};

/* Those with one form each. */
static const struct {
    const char *command;
    struct json_output output;
} singles[] = {
    {"history", {"", &json_run, true}},
    {"nodes", {"", &json_node, true}},
    {"create", {"", &json_created, false}},
    {"coordinators", {"", &json_coordinator, true}},
    {"cutover", {"", &json_cutover, false}},
    {"rollback", {"", &json_rolled_back, false}},
    {"finish", {"", &json_finished, false}},
    {"abort", {"", &json_aborted, false}},
    {"pause", {"", &json_paused, false}},
    {"resume", {"", &json_resumed, false}},
    {"throttle", {"", &json_throttled, false}},
    {"check", {"", &json_check, false}},
    {"add", {"", &json_add, false}},
    {"import", {"", &json_import, false}},
    {"restore", {"", &json_restore, false}},
    {"count", {"", &json_counted, false}},
    {"delete", {"", &json_deleted, false}},
    {"trust", {"", &json_trusted, false}},
    {"config", {"", &json_config, false}},
    {"bench", {"", &json_bench, false}},
};

static const struct {
    const char *command;
    const struct json_output *output;
    size_t count;
} several[] = {
    {"status", outputs_of_status, 2},        {"plan", outputs_of_plan, 2},
    {"rebuild", outputs_of_rebuild, 3},      {"verify", outputs_of_verify, 2},
    {"hash-password", outputs_of_passwd, 2}, {"doctor", outputs_of_doctor, 1},
};

const struct json_output *json_outputs(const char *command, size_t *count)
{
    for (size_t i = 0; i < sizeof(several) / sizeof(several[0]); i++)
        if (strcmp(several[i].command, command) == 0) {
            *count = several[i].count;
            return several[i].output;
        }
    for (size_t i = 0; i < sizeof(singles) / sizeof(singles[0]); i++)
        if (strcmp(singles[i].command, command) == 0) {
            *count = 1;
            return &singles[i].output;
        }
    *count = 0;
    return NULL;
}

const struct json_member *json_member_find(const struct json_shape *shape, const char *name)
{
    for (size_t i = 0; shape != NULL && i < shape->count; i++)
        if (strcmp(shape->member[i].name, name) == 0)
            return &shape->member[i];
    return NULL;
}

const char *json_type_text(unsigned type, char *out, size_t size)
{
    static const struct {
        unsigned type;
        const char *text;
    } names[] = {{JSON_STRING, "string"},
                 {JSON_INTEGER, "integer"},
                 {JSON_NUMBER, "number"},
                 {JSON_BOOL, "boolean"},
                 {JSON_STRINGS, "array of strings"},
                 {JSON_OBJECTS, "array of objects"},
                 {JSON_OBJECT, "object"},
                 {JSON_NULL, "null"}};
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && at < size; i++)
        if ((type & names[i].type) != 0)
            at += (size_t)snprintf(out + at, size - at, "%s%s", at == 0 ? "" : " or ", names[i].text);
    return out;
}
