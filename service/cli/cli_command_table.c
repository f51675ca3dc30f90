/* SPDX-License-Identifier: MIT */
/* The table of commands. */
#include "service/cli/cli_table.h"

const struct command cli_command_table[] = {
    {"status", "[FILTER]", 0, 1, 0, "show all filters, or everything about one",
     "KEYS are those of generation GEN, which serves. FP RATE is the expected rate of false positives now, "
     "and "
     "the promised one. HEALTH says whether \"absent\" can be relied on: healthy; building (nothing is "
     "reported absent yet); not built (the same, and no job builds it: the last one was aborted or failed, "
     "or "
     "none began); keys missed (the last verification missed keys, and added them); degraded (a master may "
     "lack keys); lost (shards are lost); unreachable. NEXT REBUILD is when the fill reaches its threshold "
     "at "
     "the present growth, when the schedule says so, or when a filter that is not built is tried again. JOB "
     "is what runs, or how the last run ended; \"ready "
     "to switch\" waits for \"twinbloom cutover\". With FILTER: all that is known of it, and its last runs.",
     "twinbloom status\n  twinbloom status short-link\n  twinbloom status --json", cli_status},
    {"history", "FILTER", 1, 1, WITH_COUNT, "show the last rebuilds of a filter, the newest first",
     "TOOK is from start to end, with the grace time; GENERATION the one that served before, and the new one "
     "if "
     "it came\ninto use. The last 100 are kept; --json says more of each.",
     "twinbloom history short-link -n 5", cli_history},
    {"top", "", 0, 0, WITH_INTERVAL, "watch rates, fill and jobs live, in the terminal",
     "Requests, connections, memory and CPU are those of the coordinator that is asked, by its INFO; PING is "
     "how long it "
     "takes\n"
     "from here to there and back, by one request a look. KEYS/S are keys that are new to the filter. q "
     "leaves, blank "
     "looks at once.",
     "twinbloom top --interval 1", cli_top},
    {"coordinators", "[FILTER]", 0, 1, 0, "show all coordinators, and which epoch of a filter each serves",
     "SEEN is how long ago one said that it is there; one that is gone is listed for an hour. BEHIND counts "
     "filters of\n"
     "which an event loop holds an older view than Redis has; - as EPOCH says that it holds none, and will "
     "load it with the\n"
     "next request. With FILTER the exit code is 1 while one that is there is behind.",
     "twinbloom coordinators short-link", cli_coordinators},
    {"doctor", "", 0, 0, 0, "look at all that the service needs, and say what to do",
     "Looks, from the coordinator that is asked, at each Redis node (version, memory policy, persistence, "
     "replicas, whether each\n"
     "command is allowed), at Postgres (rights, tables, open transactions, replication slots), at clocks, "
     "and "
     "at whether\n"
     "the coordinators agree. Each line is ok, warning or problem; below it stands what to do. The exit code "
     "is 1 if there is a\n"
     "problem; warnings do not count. Where the service does not start: twinbloomd -c FILE --doctor.",
     "twinbloom doctor\n  twinbloom doctor --json", cli_doctor},
    {"plan", "FILTER | --keys N", 0, 1, NEXT | WITH_ESTIMATE,
     "show what a rebuild would make, without making it",
     "Of a FILTER: what it has and would have on each node, by what the nodes say. With --keys and "
     "--error-rate, and without a\n"
     "service: shards, bytes and how many nodes of --node-memory hold both generations of a rebuild with a "
     "tenth to spare,\n"
     "and how long the rebuild takes. The exit code is 1 if the plan does not fit into memory or would be "
     "refused.",
     "twinbloom plan short-link --capacity 5M\n"
     "  twinbloom plan --keys 30e9 --error-rate 0.001 --node-memory 64GiB\n"
     "  twinbloom plan --keys 30G --error-rate 1e-3 --node-memory 64GiB --nodes 8 --scan-rate 2M --readers 4 "
     "--growth 1.5",
     cli_plan},
    {"rebuild", "FILTER", 1, 1,
     NEXT | WITH_HOLD | WITH_VERIFY | WITH_WAIT | WITH_DRY_RUN | WITH_RESTART | WITH_YES,
     "build the other generation from the source and switch to it",
     "With --wait, follow the job to its end; the exit code is 1 if it failed, was aborted or rolled back. "
     "Ctrl-C leaves\n"
     "it running. With --hold it builds and verifies, and switches when \"twinbloom cutover\" says so; "
     "--wait "
     "then ends,\n"
     "with 0, when it has come so far. --dry-run starts nothing: it shows each step and what it costs; the "
     "exit code is 1\n"
     "if the rebuild would be refused. --nodes moves the filter: its shards lie on these nodes afterwards.",
     "twinbloom rebuild short-link --hold --wait", cli_rebuild},
    {"cutover", "FILTER", 1, 1, 0, "let a rebuild that holds switch to what it has built",
     "Rows that came meanwhile are read first, and the generation is verified again. A rebuild that has not "
     "come so far\n"
     "will not hold.",
     "twinbloom cutover short-link", cli_control},
    {"rollback", "FILTER", 1, 1, 0, "go back to the generation before, within the grace time",
     "Both generations have taken every key since the build began, so nothing is lost. The rebuild holds "
     "afterwards:\n"
     "\"twinbloom cutover\" switches again, \"twinbloom abort\" ends it.",
     "twinbloom rollback short-link", cli_control},
    {"finish", "FILTER", 1, 1, WITH_YES, "end the grace time now: the old generation leaves",
     "After that a rollback is no longer possible.", "twinbloom finish short-link --yes", cli_control},
    {"abort", "FILTER", 1, 1, WITH_YES, "stop the running job; the filter serves on as before",
     "After the cutover it is too late: see \"twinbloom help rollback\".", "twinbloom abort short-link --yes",
     cli_control},
    {"pause", "FILTER", 1, 1, 0, "let the running job rest: no rows are read, nothing is switched",
     "Keys are added to both generations all the while. The grace time does not end before \"twinbloom "
     "resume\".",
     "twinbloom pause short-link", cli_control},
    {"resume", "FILTER", 1, 1, 0, "let a job that was paused go on", "", "twinbloom resume short-link",
     cli_control},
    {"throttle", "FILTER ROWS", 2, 2, 0, "limit the rows a second that the running job reads",
     "ROWS is a number such as 5000 or 5k; 0 or none lifts the limit. The next job begins without one.",
     "twinbloom throttle short-link 5k", cli_control},
    {"verify", "FILTER", 1, 1, WITH_FULL | WITH_WAIT,
     "look whether the keys of the source are in the filter, and how many others seem to be",
     "Keys that are missing are added. With --wait, follow it to its end; the exit code is 1 if it failed or "
     "was aborted.\n"
     "\"twinbloom status\" says what the last verification found.",
     "twinbloom verify short-link --full --wait", cli_verify},
    {"check", "FILTER [KEY...]", 1, SIZE_MAX, 0, "ask whether keys may be present",
     "Without keys they are read from standard input, one a line; blank lines are skipped. \"present\" may "
     "be wrong at\n"
     "the filter's error rate, \"absent\" is certain. The exit code is 1 if any key is absent.",
     "twinbloom check short-link a1b2c3", cli_check},
    {"add", "FILTER [KEY...]", 1, SIZE_MAX, 0, "add keys",
     "Without keys they are read from standard input, one a line; blank lines are skipped. \"present\" says "
     "that the key\n"
     "may have been there before.",
     "twinbloom add short-link < keys.txt", cli_add},
    {"import", "FILTER", 1, 1, WITH_KEYS | WITH_INPUT | GROWTH, "add many keys from a file or standard input",
     "Keys are read one a line, up to NULs, or from a column of CSV; empty ones are skipped. Keys that are "
     "refused are\n"
     "counted and the first few shown; the exit code is then 3. Ctrl-C says how to go on. --capacity and "
     "--error-rate are\n"
     "for a filter that is not there yet.",
     "twinbloom import short-link --csv code < links.csv", cli_import},
    {"dump", "FILTER", 1, 1, WITH_OUTPUT, "write a filter to a file or standard output",
     "It holds every key that was added before it began. Who has it can ask it for keys: keep it like the "
     "keys themselves.",
     "twinbloom dump short-link --output short-link.dump", cli_dump},
    {"restore", "FILTER", 1, 1, WITH_INPUT, "make a filter from a dump, under a name that is free",
     "It can be used when it is whole. A restore that was cut goes on where it stopped, within a day.",
     "twinbloom restore copy < short-link.dump", cli_restore},
    {"count", "FILTER", 1, 1, 0, "estimate from its bits how many keys a filter holds",
     "Keys that were added to more than one layer count in each; of a large filter a sample is looked at.",
     "twinbloom count short-link", cli_count},
    {"delete", "FILTER", 1, 1, WITH_YES, "delete a filter and all its keys",
     "One that is configured is refused: remove its section first. The exit code is 1 if there was none.",
     "twinbloom delete old-links --yes", cli_delete},
    {"trust", "FILTER", 1, 1, WITH_YES, "trust what masters hold after a failover or restart",
     "A master that was promoted or started anew may lack keys, so nothing is reported absent there. With a "
     "source, keys "
     "are\n"
     "added from it and this ends by itself; without one, it lasts until you know that nothing is missing "
     "and say so.",
     "twinbloom trust seen --yes", cli_trust},
    {"config", "[show|get|set] [KEY [VALUE]]...", 0, SIZE_MAX, 0,
     "show or change the configuration of the running service",
     "show [KEY...] prints all keys, or these; get needs one; patterns such as filter.* will do; secrets are "
     "masked. "
     "set KEY VALUE\n"
     "changes all that are given or, on an error, none. It lasts until the service reads its file again, or "
     "starts anew: "
     "write it\n"
     "there too.",
     "twinbloom config get 'filter.short-link.*'\n  twinbloom config set filter.short-link.expand_at 0.7",
     cli_config},
    {"bench", "", 0, 0, GROWTH | WITH_BENCH, "put load on a BF.* server, and show how long its answers take",
     "It works with Twinbloom, RedisBloom, valkey-bloom, ... It makes a filter of its own, adds --keys keys, "
     "then asks and "
     "adds from all\n"
     "connections, and deletes the filter; no other is touched, and a name that is taken is refused. Half of "
     "the keys that "
     "are asked\n"
     "for are in, the others are not, so that wrong answers are counted, too; adds take up to --keys further "
     "ones, and then "
     "these again.\n"
     "With --rate a latency counts from the moment at which the request was due. Processor time is what the "
     "server's INFO says:\n"
     "that of a coordinator is without its Redis's. The exit code is 1 if a key that is in was reported "
     "absent, "
     "3 if there were\n"
     "errors.",
     "twinbloom bench --connections 16 --adds 0.2\n"
     "  twinbloom bench -p 6379 --batch 100 --pipeline 4 --seconds 30 --json\n"
     "  twinbloom bench --rate 5000 --keys 10M --key-size 24",
     cli_bench},
    {"completion", "bash|zsh", 1, 1, OFFLINE,
     "print the completion of commands, options and filters for a shell",
     "For bash: source it, or put it into /usr/share/bash-completion/completions/twinbloom. For zsh: source "
     "it after "
     "compinit, or put\n"
     "it as _twinbloom into a folder of fpath.",
     "source <(twinbloom completion bash)", cli_completion},
    {"hash-password", "", 0, 0, WITH_TOKEN | OFFLINE, "make the hash of a password, for the configuration",
     "The password is asked for, or read from standard input. Put the hash into [user NAME] as password = "
     "..., or into\n"
     "[service] for the default user. With --token a new bearer token is made: its hash goes into [user "
     "NAME] as\n"
     "token = ...; the token itself is shown this once.",
     "twinbloom hash-password", cli_hash_password},
    {"help", "[COMMAND]", 0, 1, WITH_FORM, "explain a command",
     "The reference as a whole is printed by --man, --markdown or --json; documents are made of it.",
     "twinbloom help rebuild\n  twinbloom help --man | man -l -", NULL},
};
const size_t cli_command_count = sizeof(cli_command_table) / sizeof(cli_command_table[0]);
