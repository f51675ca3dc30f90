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
    {"node", S | ALWAYS, "address of the node", NULL},
    {"shards", I, "shards of the new generation that the node gets", NULL},
    {"before_bytes", I, "memory of the filter on the node now", NULL},
    {"during_bytes", I, "memory of the filter on the node with both generations", NULL},
    {"after_bytes", I, "memory of the filter on the node afterwards", NULL},
    {"used_bytes", I | NIL, "memory that the server uses; null: not known", NULL},
    {"used_during_bytes", I | NIL, "memory that the server will use; null: not known", NULL},
    {"limit_bytes", I | NIL, "memory that the server may use; null: not known", NULL},
    {"maxmemory_bytes", I | NIL, "maxmemory of the server; 0: no limit; null: not known", NULL},
};
static const SHAPE(plan_node, "node of a plan");

static const struct json_member plan_step_members[] = {
    {"step", S | ALWAYS, "name of the step", NULL},
    {"what", S | ALWAYS, "what the step does, for people", NULL},
    {"rows", I, "rows that the step reads", NULL},
    {"duration_seconds", N, "duration of the step, estimated", NULL},
    {"memory_before_bytes", I, "memory in Redis before the step", NULL},
    {"memory_peak_bytes", I, "most memory in Redis during the step", NULL},
    {"memory_after_bytes", I, "memory in Redis after the step", NULL},
};
static const SHAPE(plan_step, "step of a dry run");

static const struct json_member plan_members[] = {
    {"filter", S | ALWAYS, "name of the filter", NULL},
    {"fits", B | ALWAYS, "true: Redis has room for it", NULL},
    {"refused", S, "why a rebuild would be refused", NULL},
    {"warning", S, "what an operator should know before", NULL},
    {"reason", S, "what would start the rebuild", NULL},
    {"rows", I, "rows of the source", NULL},
    {"keys", I, "keys of the filter now", NULL},
    {"capacity", I, "number of keys that the new generation is made for", NULL},
    {"error_rate", N, "false-positive rate that the new generation allows", NULL},
    {"shards", I, "shards of the new generation", NULL},
    {"blocks", I, "blocks of a shard", NULL},
    {"block_bits", I, "length of a block", NULL},
    {"hashes", I, "bits that a key sets", NULL},
    {"size_bytes", I, "length of all shards", NULL},
    {"memory_now_bytes", I, "memory of the filter in Redis now", NULL},
    {"memory_new_bytes", I, "memory of the new generation", NULL},
    {"memory_peak_bytes", I, "most memory of the filter during the rebuild", NULL},
    {"memory_after_bytes", I, "memory of the filter afterwards", NULL},
    {"partitions", I, "partitions of the build", NULL},
    {"node_count", I, "number of nodes that the new generation lies on", NULL},
    {"nodes", S, "nodes that the new generation lies on", NULL},
    {"per_node", JSON_OBJECTS, "one object for each node; those that the filter leaves come last",
     &json_plan_node},
    {"dry_run", B, "true: nothing was started", NULL},
    {"rows_per_second", N, "rows that the scan reads each second, estimated", NULL},
    {"rows_per_second_by", S, "how that rate is known", NULL},
    {"duration_seconds", N, "duration of the rebuild, at least", NULL},
    {"steps", JSON_OBJECTS, "steps of the rebuild; with --dry-run", &json_plan_step},
};
const SHAPE(plan, "plan");

static const struct json_member estimate_members[] = {
    {"keys", I | ALWAYS, "keys, as given", NULL},
    {"error_rate", N | ALWAYS, "false-positive rate, as given", NULL},
    {"shards", I | ALWAYS, "shards of the filter", NULL},
    {"blocks", I | ALWAYS, "blocks of a shard", NULL},
    {"block_bits", I | ALWAYS, "length of a block", NULL},
    {"hashes", I | ALWAYS, "bits that a key sets", NULL},
    {"shard_bytes", I | ALWAYS, "length of a shard", NULL},
    {"shard_memory_bytes", I | ALWAYS, "memory that Redis allocates for a shard", NULL},
    {"size_bytes", I | ALWAYS, "length of all shards", NULL},
    {"bits_per_key", N | ALWAYS, "bits of the filter for each key", NULL},
    {"memory_bytes", I | ALWAYS, "memory that Redis allocates for all shards", NULL},
    {"next_capacity", I | ALWAYS, "capacity of the next generation", NULL},
    {"next_shards", I | ALWAYS, "shards of the next generation", NULL},
    {"next_memory_bytes", I | ALWAYS, "memory that Redis allocates for the next generation", NULL},
    {"partitions", I, "partitions of the build; with --build-memory", NULL},
    {"spilled_bytes", I, "bytes that the build writes to spill_dir", NULL},
    {"spill_peak_bytes", I, "most bytes that lie in spill_dir at a time", NULL},
    {"rows_per_second", I | ALWAYS, "rows that the scan reads each second", NULL},
    {"rows_per_second_by", S | ALWAYS, "how that rate is known: given or assumed", NULL},
    {"create_seconds", N | ALWAYS, "duration of creating the shards", NULL},
    {"scan_seconds", N | ALWAYS, "duration of the scan", NULL},
    {"upload_seconds", N | ALWAYS, "duration of uploading the bitmaps", NULL},
    {"sweep_seconds", N | ALWAYS, "duration of reading the rows that came meanwhile", NULL},
    {"rebuild_seconds", N | ALWAYS, "duration of the whole rebuild", NULL},
    {"node_memory_bytes", I, "memory of a node, as given", NULL},
    {"node_room_bytes", I, "memory of a node, less a tenth that is kept free", NULL},
    {"nodes_needed", I, "nodes that are needed; with --node-memory", NULL},
    {"node_count", I | ALWAYS, "number of nodes that the filter lies on", NULL},
    {"node_shards", I | ALWAYS, "shards on each node", NULL},
    {"node_before_bytes", I | ALWAYS, "memory on each node before a rebuild", NULL},
    {"node_during_bytes", I | ALWAYS, "memory on each node with both generations", NULL},
    {"node_after_bytes", I | ALWAYS, "memory on each node after a rebuild", NULL},
    {"fits", B, "true: there is room", NULL},
    {"refused", S, "why it does not fit", NULL},
};
const SHAPE(estimate, "estimate");

/* --- coordinators --- */

static const struct json_member coordinator_members[] = {
    {"coordinator", S | ALWAYS, "id of the coordinator", NULL},
    {"state", S | ALWAYS, "serving, shutting_down or gone", NULL},
    {"version", S | ALWAYS, "version of the program", NULL},
    {"format", I | ALWAYS, "highest format of views that the coordinator can read", NULL},
    {"host", S | ALWAYS, "name of the machine", NULL},
    {"pid", I | ALWAYS, "process id", NULL},
    {"listen", S | ALWAYS, "address for Redis clients", NULL},
    {"http", S | ALWAYS, "address for HTTP; empty: none", NULL},
    {"started_at", N | ALWAYS, "when the coordinator started", NULL},
    {"uptime_ms", I | ALWAYS, "time since the coordinator started", NULL},
    {"age_ms", I | ALWAYS, "time since the last heartbeat", NULL},
    {"clients", I | ALWAYS, "connections of clients", NULL},
    {"filters", I | ALWAYS, "filters that the coordinator holds", NULL},
    {"behind", I | ALWAYS, "filters of which the coordinator holds an older view than Redis", NULL},
    {"behind_filters", JSON_STRINGS, "names of some of these filters", NULL},
    {"jobs", JSON_STRINGS, "filters whose jobs the coordinator runs", NULL},
    {"nodes", S | ALWAYS, "Redis nodes of its configuration", NULL},
    {"redis", S | ALWAYS, "ok, or the error", NULL},
    {"postgres", S | ALWAYS, "ok, none, or the error", NULL},
    {"filter", S, "name of the filter; with FILTER", NULL},
    {"epoch", I | NIL, "epoch of the view that the coordinator holds; null: none", NULL},
    {"view_epoch", I, "epoch of the view in Redis", NULL},
    {"current", B, "true: both epochs are the same", NULL},
};
const SHAPE(coordinator, "coordinator");

static const struct json_member node_members[] = {
    {"node", S | ALWAYS, "address of the node", NULL},
    {"state", S | ALWAYS, "up, down, or unused (no connection was needed yet)", NULL},
    {"server", S | NIL | ALWAYS, "redis or valkey; null: the node does not answer", NULL},
    {"version", S | NIL | ALWAYS, "version of the server; null: the node does not answer", NULL},
    {"connections", I | ALWAYS, "open connections of this coordinator", NULL},
    {"reconnects", I | ALWAYS, "connections that replaced lost ones, since this coordinator started", NULL},
    {"failures", I | ALWAYS, "failed connections and attempts to connect", NULL},
    {"slots", I, "slots that the master of a Redis Cluster holds", NULL},
    {"used_bytes", I | NIL | ALWAYS, "memory that the server uses; null: not known", NULL},
    {"maxmemory_bytes", I | NIL | ALWAYS, "maxmemory of the server; 0: no limit; null: not known", NULL},
    {"error", S | ALWAYS, "text of the last failure; empty: there was none", NULL},
    {"error_at", N | NIL | ALWAYS, "when the last failure was; null: never", NULL},
};
const SHAPE(node, "node");

/* --- doctor --- */

static const struct json_member finding_members[] = {
    {"probe", S | ALWAYS, "name of the probe: redis, memory, commands, table, ...", NULL},
    {"subject", S | ALWAYS, "node or filter that was looked at; empty: the whole service", NULL},
    {"state", S | ALWAYS, "ok, warning or problem", NULL},
    {"found", S | ALWAYS, "what the probe found", NULL},
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
    {"key", S | ALWAYS, "the key", NULL},
    {"key_hex", S, "the key in hexadecimal digits; only if it is not UTF-8", NULL},
    {"present", B | ALWAYS, "true: maybe present; false: certainly absent", NULL},
};
static const SHAPE(check_key, "key that was asked for");
static const struct json_member check_members[] = {
    {"filter", S | ALWAYS, "name of the filter", NULL},
    {"keys", JSON_OBJECTS | ALWAYS, "one object for each key, in their order", &json_check_key},
    {"present_count", I | ALWAYS, "keys that may be present", NULL},
    {"absent_count", I | ALWAYS, "keys that are absent", NULL},
    {"error", JSON_OBJECT, "why the command ended early", &json_error},
};
const SHAPE(check, "check");

static const struct json_member add_key_members[] = {
    {"key", S | ALWAYS, "the key", NULL},
    {"key_hex", S, "the key in hexadecimal digits; only if it is not UTF-8", NULL},
    {"added", B | ALWAYS, "true: the key is new; false: it may have been present before", NULL},
};
static const SHAPE(add_key, "key that was added");
static const struct json_member add_members[] = {
    {"filter", S | ALWAYS, "name of the filter", NULL},
    {"keys", JSON_OBJECTS | ALWAYS, "one object for each key, in their order", &json_add_key},
    {"added_count", I | ALWAYS, "keys that are new", NULL},
    {"present_count", I | ALWAYS, "keys that may have been present before", NULL},
    {"error", JSON_OBJECT, "why the command ended early", &json_error},
};
const SHAPE(add, "add");

static const struct json_member import_members[] = {
    {"filter", S | ALWAYS, "name of the filter", NULL},
    {"key_count", I | ALWAYS, "keys that were read and settled", NULL},
    {"skipped_count", I | ALWAYS, "keys that --skip left out", NULL},
    {"added_count", I | ALWAYS, "keys that are new", NULL},
    {"present_count", I | ALWAYS, "keys that may have been present before", NULL},
    {"refused_count", I | ALWAYS, "keys that the coordinator refused", NULL},
    {"empty_count", I | ALWAYS, "empty keys, which are skipped", NULL},
    {"malformed_count", I | ALWAYS, "records of CSV without the column, or malformed", NULL},
    {"duration_ms", I | ALWAYS, "duration of the import", NULL},
    {"error", JSON_OBJECT, "why the command ended early", &json_error},
};
const SHAPE(import, "import");

static const struct json_member restore_members[] = {
    {"filter", S | ALWAYS, "name of the filter", NULL},
    {"size_bytes", I | ALWAYS, "length of the dump", NULL},
    {"pieces", I | ALWAYS, "pieces of the dump", NULL},
    {"sent", I | ALWAYS, "pieces that were sent, because the coordinator did not have them", NULL},
    {"duration_ms", I | ALWAYS, "duration of the restore", NULL},
};
const SHAPE(restore, "restore");

/* --- what is asked of a job, or done to a filter --- */

#define OUTCOME(id, member, type, meaning)                                                                   \
    static const struct json_member id##_members[] = {                                                       \
        {"filter", JSON_STRING | JSON_ALWAYS, "name of the filter", NULL},                                   \
        {member, (type) | JSON_ALWAYS, meaning, NULL}};                                                      \
    static const SHAPE(id, #id)

OUTCOME(started, "started", B, "true: the job runs");
OUTCOME(aborted, "aborted", B, "true: the job is asked to end");
OUTCOME(cutover, "cutover", B, "true: the job is asked to switch to the new generation");
OUTCOME(rolled_back, "rolled_back", B, "true: the job is asked to switch back");
OUTCOME(finished, "finished", B, "true: the job is asked to end the grace time");
OUTCOME(paused, "paused", B, "true: the job is asked to pause");
OUTCOME(resumed, "resumed", B, "true: the job is asked to continue");
OUTCOME(throttled, "rows_per_second_limit", I,
        "highest number of rows that the job reads each second; 0: no limit");
OUTCOME(created, "created", B, "true: the filter was created");
OUTCOME(deleted, "deleted", B, "true: the filter was deleted");
OUTCOME(trusted, "trusted", B, "true: the loss is accepted");
OUTCOME(counted, "count", I, "keys, estimated from the bits");

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
    {"requests", I | ALWAYS, "requests that were answered", NULL},
    {"keys", I | ALWAYS, "keys in these requests", NULL},
    {"errors", I | ALWAYS, "error replies", NULL},
    {"requests_per_second", N | ALWAYS, "requests that were answered each second", NULL},
    {"keys_per_second", N | ALWAYS, "keys each second", NULL},
    {"mean_us", I | ALWAYS, "mean latency", NULL},
    {"p50_us", I | ALWAYS, "median latency", NULL},
    {"p90_us", I | ALWAYS, "latency of 90 percent, at most", NULL},
    {"p99_us", I | ALWAYS, "latency of 99 percent, at most", NULL},
    {"p999_us", I | ALWAYS, "latency of 99.9 percent, at most", NULL},
    {"max_us", I | ALWAYS, "highest latency", NULL},
};
static const SHAPE(bench_command, "command of bench");
static const struct json_member bench_members[] = {
    {"filter", S | ALWAYS, "name of the filter, which is deleted at the end", NULL},
    {"keys", I | ALWAYS, "keys that were in it before", NULL},
    {"key_bytes", I | ALWAYS, "length of a key", NULL},
    {"connections", I | ALWAYS, "connections to the coordinator", NULL},
    {"pipeline", I | ALWAYS, "requests under way on a connection", NULL},
    {"batch", I | ALWAYS, "keys in a request", NULL},
    {"requests_per_second_limit", I | ALWAYS, "highest number of requests each second; 0: no limit", NULL},
    {"adds_ratio", N | ALWAYS, "share of adds among the requests", NULL},
    {"load_seconds", N | ALWAYS, "duration of adding the keys before", NULL},
    {"duration_seconds", N | ALWAYS, "duration of the measurement", NULL},
    {"commands", JSON_OBJECTS | ALWAYS, "one object for each command", &json_bench_command},
    {"checked_present", I | ALWAYS, "checked keys that are present", NULL},
    {"false_negatives", I | ALWAYS, "of these keys, those that were reported absent", NULL},
    {"checked_absent", I | ALWAYS, "checked keys that are absent", NULL},
    {"false_positives", I | ALWAYS, "of these keys, those that were reported present", NULL},
    {"added_again", I | ALWAYS, "added keys that had been added before", NULL},
    {"server_cpu_seconds", N | NIL | ALWAYS,
     "processor time of the server that was asked, by its INFO; a coordinator's Redis is not in it", NULL},
    {"disconnects", I | ALWAYS, "connections that broke or could not be made", NULL},
    {"error", S | ALWAYS, "text of the first error; empty: there was none", NULL},
};
const SHAPE(bench, "bench");

static const struct json_member password_members[] = {
    {"password", S | ALWAYS, "hash of the password, for the configuration", NULL}};
const SHAPE(password, "password");
static const struct json_member token_members[] = {
    {"bearer", S | ALWAYS, "the token, for the client", NULL},
    {"token", S | ALWAYS, "hash of the token, for the configuration", NULL},
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
