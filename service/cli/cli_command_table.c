/* SPDX-License-Identifier: MIT */
/* The table of commands. */
#include "service/cli/cli_table.h"

#include "service/cli/bench/cli_bench.h"
#include "service/cli/keys/cli_keys.h"
#include "service/cli/operate/cli_operate.h"
#include "service/cli/top/cli_top.h"

const struct command cli_command_table[] = {
    {"status", "[FILTER]", 0, 1, 0, "show all filters, or everything about one",
     "KEYS are those of generation GEN, which is in use. FP RATE is the expected rate of false positives "
     "now, and the highest one that is allowed. HEALTH says whether \"absent\" can be relied on: healthy; "
     "building (nothing is reported absent yet); not built (the same, and no job builds it: the last one was "
     "aborted or failed, or none began); keys missed (the last verification found missing keys, and added "
     "them); degraded (acknowledged keys may be missing); lost (shards are missing in Redis); unreachable. "
     "NEXT REBUILD is when the fill reaches its threshold at the present growth, when the schedule says so, "
     "or when a filter that is not built is tried again. JOB is what runs, or how the last job ended; "
     "\"ready to switch\" waits for \"twinbloom cutover\". With FILTER: all that is known of it, and its "
     "last jobs.",
     "twinbloom status\n  twinbloom status short-link\n  twinbloom status --json", cli_status},
    {"history", "FILTER", 1, 1, WITH_COUNT, "show the last jobs of a filter, the newest first",
     "TOOK is the time from start to end, with the grace time. GENERATION is the one in use before, and the "
     "new one if it came into use. The last 100 jobs are kept; --json says more of each.",
     "twinbloom history short-link -n 5", cli_history},
    {"top", "", 0, 0, WITH_INTERVAL, "watch rates, fill and jobs live, in the terminal",
     "Requests, connections, memory and CPU are those of the coordinator that answers, from its INFO. PING "
     "is the round trip from here to there, measured once per refresh. KEYS/S counts keys that are new to "
     "the filter. Press q to leave, and the space bar to refresh at once.",
     "twinbloom top --interval 1", cli_top},
    {"coordinators", "[FILTER]", 0, 1, 0, "show all coordinators, and which epoch of a filter each uses",
     "SEEN is the age of the last heartbeat. A coordinator that is gone is listed for an hour. BEHIND counts "
     "the filters of which an event loop has an older view than Redis. EPOCH is - where no view is loaded; "
     "the next request loads it. With FILTER, the exit code is 1 while a coordinator is behind.",
     "twinbloom coordinators short-link", cli_coordinators},
    {"nodes", "", 0, 0, 0, "show the Redis nodes: state, version and memory",
     "State and errors are those of the coordinator that answers. It asks each node that is up for its "
     "version and memory. The exit code is 1 if a node is down.",
     "twinbloom nodes", cli_nodes},
    {"doctor", "", 0, 0, 0, "look at everything that the service needs, and say what to do",
     "From the coordinator that is asked, it looks at each Redis node (version, memory policy, persistence, "
     "replicas, whether each command is allowed), at Postgres (rights, tables, open transactions, "
     "replication slots), at clocks, and at the other coordinators. Each line says ok, warning or problem, "
     "and what was found; what to do stands below it. The exit code is 1 if there is a problem; warnings do "
     "not count. If no coordinator starts, use twinbloomd -c FILE --doctor.",
     "twinbloom doctor\n  twinbloom doctor --json", cli_doctor},
    {"plan", "FILTER | --keys N", 0, 1, NEXT | WITH_ESTIMATE,
     "show what a rebuild would make, without making it",
     "For a FILTER: what it has and would have on each node, as the nodes report now. With --keys, "
     "and without a service: shards, bytes, how long a rebuild takes, and how many nodes of "
     "--node-memory hold both generations of a rebuild with a tenth to spare. The exit code is 1 if the plan "
     "does not fit into memory, or if the rebuild would be refused. --error-rate is 0.001 where --keys is "
     "given without it.",
     "twinbloom plan short-link --capacity 5M\n"
     "  twinbloom plan --keys 30e9 --error-rate 0.001 --node-memory 64GiB\n"
     "  twinbloom plan --keys 30G --error-rate 1e-3 --node-memory 64GiB --nodes 8 --scan-rate 2M --readers 4 "
     "--growth 1.5",
     cli_plan},
    {"rebuild", "FILTER", 1, 1,
     NEXT | WITH_HOLD | WITH_VERIFY | WITH_WAIT | WITH_DRY_RUN | WITH_RESTART | WITH_YES,
     "build a new generation from the source, and switch to it",
     "The filter serves throughout. With --wait, the command ends when the new generation serves and is "
     "confirmed, which is before the end of the grace time; the exit code is 5 if the job failed, was "
     "aborted or was rolled back. Ctrl-C leaves the job running. With --hold, the job builds and verifies, "
     "then waits for \"twinbloom cutover\"; --wait then ends with 0 when the job waits. --dry-run starts "
     "nothing: it shows each step and its cost; the exit code is 1 if the rebuild would be refused. --nodes "
     "moves the filter to these nodes.",
     "twinbloom rebuild short-link --hold --wait", cli_rebuild},
    {"cutover", "FILTER", 1, 1, 0, "switch a rebuild that holds to its new generation",
     "Rows that came since are read first, and the generation is verified again. If the rebuild has not come "
     "to its hold yet, it will not hold.",
     "twinbloom cutover short-link", cli_control},
    {"rollback", "FILTER", 1, 1, 0, "switch back to the former generation, within the grace time",
     "Both generations get every key since the build began, so no key is lost. The rebuild holds afterwards: "
     "\"twinbloom cutover\" switches again, \"twinbloom abort\" ends the job.",
     "twinbloom rollback short-link", cli_control},
    {"finish", "FILTER", 1, 1, WITH_YES, "end the grace time now, and remove the former generation",
     "After that a rollback is impossible.", "twinbloom finish short-link --yes", cli_control},
    {"abort", "FILTER", 1, 1, WITH_YES, "stop the running job; the filter keeps its generation",
     "After the cutover it is too late: see \"twinbloom help rollback\".", "twinbloom abort short-link --yes",
     cli_control},
    {"pause", "FILTER", 1, 1, 0, "pause the running job: it reads no rows and switches nothing",
     "Adds still go to both generations. The grace time does not end before \"twinbloom resume\".",
     "twinbloom pause short-link", cli_control},
    {"resume", "FILTER", 1, 1, 0, "continue a paused job", "", "twinbloom resume short-link", cli_control},
    {"throttle", "FILTER ROWS", 2, 2, 0, "limit how many rows a second the running job reads",
     "ROWS is a number such as 5000 or 5k. 0 or none removes the limit. The next job starts without one.",
     "twinbloom throttle short-link 5k", cli_throttle},
    {"verify", "FILTER", 1, 1, WITH_FULL | WITH_WAIT,
     "look up keys of the source in the filter, and measure the false-positive rate",
     "Keys that are missing are added. With --wait, the command follows the job to its end; the exit code is "
     "5 if it failed or was aborted. \"twinbloom status\" shows what the last verification found.",
     "twinbloom verify short-link --full --wait", cli_verify},
    {"create", "FILTER", 1, 1, GROWTH | WITH_GROWING, "create an empty filter that has no source",
     "--capacity and --error-rate are required. When the filter is full, it grows by a layer --expansion "
     "times as large; with --nonscaling, adds fail then. A filter with a source is made by a section [filter "
     "NAME] of the configuration instead.",
     "twinbloom create seen --capacity 1M --error-rate 0.001", cli_create},
    {"check", "FILTER [KEY...]", 1, SIZE_MAX, 0, "check whether keys may be present",
     "Without KEY, keys are read from standard input, one a line; empty lines are skipped. \"present\" can "
     "be wrong at the filter's false-positive rate, \"absent\" is certain. The exit code is 1 if any key is "
     "absent.",
     "twinbloom check short-link a1b2c3", cli_check},
    {"add", "FILTER [KEY...]", 1, SIZE_MAX, 0, "add keys",
     "Without KEY, keys are read from standard input, one a line; empty lines are skipped. \"present\" says "
     "that the key may have been present before.",
     "twinbloom add short-link < keys.txt", cli_add},
    {"import", "FILTER", 1, 1, WITH_KEYS | WITH_INPUT | GROWTH, "add many keys from a file or standard input",
     "Keys are lines, or end in NUL (--null), or are a column of CSV (--csv). Empty keys are skipped. "
     "A key that is refused ends the import. The command says how to continue then, and after Ctrl-C. "
     "--capacity and --error-rate are for a filter that does not exist yet.",
     "twinbloom import short-link --csv code < links.csv", cli_import},
    {"dump", "FILTER", 1, 1, WITH_OUTPUT, "write a filter to a file or standard output",
     "A dump holds every key that was added before it began. Whoever has the dump can check keys against it, "
     "so protect it as you protect the keys.",
     "twinbloom dump short-link -o short-link.dump", cli_dump},
    {"restore", "FILTER", 1, 1, WITH_INPUT, "make a filter from a dump, under a name that is not in use",
     "The filter can be used when all of it has arrived. If a restore is interrupted, run the same command "
     "again within a day: it continues where it stopped.",
     "twinbloom restore copy -i short-link.dump", cli_restore},
    {"count", "FILTER", 1, 1, 0, "estimate from its bits how many keys a filter holds",
     "A key that was added to several layers counts once in each. Of a large filter a sample is read.",
     "twinbloom count short-link", cli_count},
    {"trust", "FILTER", 1, 1, WITH_YES, "accept what Redis has lost of a filter",
     "No key of a degraded filter is reported absent. With a source, the filter is rebuilt by itself. "
     "Without one, it stays degraded until you know that nothing is missing, or accept what is, and run this "
     "command: shards that are missing are made empty.",
     "twinbloom trust seen --yes", cli_control},
    {"delete", "FILTER", 1, 1, WITH_YES, "delete a filter and all its keys",
     "A configured filter is not deleted: remove its section [filter NAME] first.",
     "twinbloom delete old-links --yes", cli_control},
    {"config", "[show|get|set] [KEY [VALUE]]...", 0, SIZE_MAX, 0,
     "show or change the configuration of the running service",
     "show [KEY...] prints all keys, or these; get needs a KEY. Patterns such as filter.* are allowed; "
     "secrets are masked. set KEY VALUE changes all keys that are given or, on an error, none. A change "
     "lasts until the service reads its file again or restarts: write it to the file too.",
     "twinbloom config get 'filter.short-link.*'\n  twinbloom config set filter.short-link.expand_at 0.7",
     cli_config},
    {"bench", "", 0, 0, GROWTH | WITH_BENCH, "put load on a BF.* server, and show its latencies",
     "It works with Twinbloom, RedisBloom, valkey-bloom and others. It creates a filter of its own, adds "
     "--keys keys, then checks and adds from all connections, and deletes the filter. It touches no other "
     "filter, and refuses a name that is in use. Half of the checked keys are in the filter, the others are "
     "not, so that wrong answers are counted too. Adds use up to --keys new keys, then the same ones again. "
     "With --rate, a latency counts from the moment at which the request was due. Processor time comes from "
     "the server's INFO; for a coordinator it does not include its Redis nodes. The exit code is 1 if a key "
     "that is in the filter was reported absent, 5 if there were errors.",
     "twinbloom bench --connections 16 --adds 0.2\n"
     "  twinbloom bench -p 6379 --batch 100 --pipeline 4 --seconds 30 --json\n"
     "  twinbloom bench --rate 5000 --keys 10M --key-size 24",
     cli_bench},
    {"completion", "bash|zsh|fish", 1, 1, OFFLINE,
     "print the shell completion of commands, options and filter names",
     "bash: source it, or write it to /usr/share/bash-completion/completions/twinbloom. zsh: source it after "
     "compinit, or write it as _twinbloom to a directory of fpath. fish: write it to "
     "~/.config/fish/completions/twinbloom.fish.",
     "source <(twinbloom completion bash)", cli_completion},
    {"hash-password", "", 0, 0, WITH_TOKEN | OFFLINE, "print the hash of a password, for the configuration",
     "The password is asked for, or read from standard input. Put the hash into [user NAME] as password = "
     "HASH, or into [service] for the default user. With --token, a new bearer token is made: its hash goes "
     "into [user NAME] as token = HASH. The token itself is shown only once.",
     "twinbloom hash-password", cli_hash_password},
    {"help", "[COMMAND]", 0, 1, WITH_FORM, "explain a command",
     "The whole reference is printed by --man, --markdown or --json; documents are made of it.",
     "twinbloom help rebuild\n  twinbloom help --man | man -l -", NULL},
};
const size_t cli_command_count = sizeof(cli_command_table) / sizeof(cli_command_table[0]);
