/* SPDX-License-Identifier: MIT */
/* The table of options, and how each is set. */
#include <string.h>
#include "base/number.h"
#include "service/cli/cli_table.h"

static bool set_timeout(struct cli *cli, const char *value)
{
    double seconds;
    if (!number_double(value, strlen(value), &seconds) || !(seconds >= 0.001 && seconds <= 86400))
        return false;
    cli->timeout_ms = (unsigned)(seconds * 1000);
    return true;
}

static bool set_capacity(struct cli *cli, const char *value)
{
    return output_parse_count(value, &cli->capacity);
}

static bool set_count(struct cli *cli, const char *value)
{
    return output_parse_count(value, &cli->entries);
}

static bool set_error_rate(struct cli *cli, const char *value)
{
    double rate;
    cli->error_rate = value;
    return number_double(value, strlen(value), &rate) && rate > 0 && rate < 1;
}

static bool set_nodes(struct cli *cli, const char *value)
{
    cli->nodes = value;
    return value[0] != '\0';
}

static bool set_expansion(struct cli *cli, const char *value)
{
    return output_parse_count(value, &cli->expansion) && cli->expansion <= 32768;
}

static bool set_nonscaling(struct cli *cli, const char *value)
{
    (void)value;
    return cli->nonscaling = true;
}

static bool set_json(struct cli *cli, const char *value)
{
    (void)value;
    return cli->json = true;
}

static bool set_wait(struct cli *cli, const char *value)
{
    (void)value;
    return cli->wait = true;
}

static bool set_hold(struct cli *cli, const char *value)
{
    (void)value;
    return cli->hold = true;
}

static bool set_restart(struct cli *cli, const char *value)
{
    (void)value;
    return cli->restart = true;
}

static bool set_verify(struct cli *cli, const char *value)
{
    cli->full = strcmp(value, "full") == 0;
    return cli->full || strcmp(value, "sample") == 0;
}

static bool set_full(struct cli *cli, const char *value)
{
    (void)value;
    return cli->full = true;
}

static bool set_dry_run(struct cli *cli, const char *value)
{
    (void)value;
    return cli->dry_run = true;
}

static bool set_yes(struct cli *cli, const char *value)
{
    (void)value;
    return cli->yes = true;
}

static bool set_input(struct cli *cli, const char *value)
{
    cli->input = value;
    return value[0] != '\0';
}

static bool set_output(struct cli *cli, const char *value)
{
    cli->output = value;
    return value[0] != '\0';
}

static bool set_resume(struct cli *cli, const char *value)
{
    (void)value;
    return cli->resume = true;
}

static bool set_null(struct cli *cli, const char *value)
{
    (void)value;
    return cli->null = true;
}

static bool set_csv(struct cli *cli, const char *value)
{
    cli->csv = value;
    return value[0] != '\0' && strcmp(value, "0") != 0;
}

static bool set_skip(struct cli *cli, const char *value)
{
    return strcmp(value, "0") == 0 || output_parse_count(value, &cli->skip);
}

static bool set_no_create(struct cli *cli, const char *value)
{
    (void)value;
    return cli->no_create = true;
}

static bool set_man(struct cli *cli, const char *value)
{
    (void)value;
    return cli->man = true;
}

static bool set_markdown(struct cli *cli, const char *value)
{
    (void)value;
    return cli->markdown = true;
}

static bool set_help(struct cli *cli, const char *value)
{
    (void)value;
    return cli->help = true;
}

static bool set_version(struct cli *cli, const char *value)
{
    (void)value;
    return cli->version = true;
}

const struct option_row cli_option_table[] = {
    {"-h", "--host", "HOST", 0, false, "host of twinbloomd (127.0.0.1)", cli_set_host},
    {"-p", "--port", "PORT", 0, false, "port of twinbloomd (6479)", cli_set_port},
    {"-u", "--url", "URL", 0, true,
     "both: redis://[user:password@]host:port, rediss:// with TLS, unix:///path (or TWINBLOOM_URL)",
     cli_set_url},
    {"-s", "--socket", "PATH", 0, false, "connect to this Unix socket instead", cli_set_socket},
    {"", "--user", "NAME", 0, false, "log in as this user, with the password below", cli_set_user},
    {"-a", "--password", "PASSWORD", 0, false, "others may see it in ps; TWINBLOOM_PASSWORD is safer",
     cli_set_password},
    {"", "--tls", NULL, 0, false, "connect with TLS", cli_set_tls},
    {"", "--cacert", "FILE", 0, false, "authorities to trust, PEM (those of the system)", cli_set_ca},
    {"", "--cert", "FILE", 0, false, "client certificate, PEM", cli_set_cert},
    {"", "--key", "FILE", 0, false, "private key of the client certificate, PEM", cli_set_key},
    {"", "--timeout", "SECONDS", 0, false, "how long to wait for an answer (10)", set_timeout},
    {"", "--json", NULL, 0, false, "print JSON; an error is JSON, too, on standard error", set_json},
    {"", "--capacity", "N", WITH_CAPACITY, false, "number of keys to make room for: 1000000, 1e6, 1M",
     set_capacity},
    {"", "--error-rate", "P", WITH_ERROR_RATE, false, "highest allowed false-positive rate: 0.001, 1e-3",
     set_error_rate},
    {"", "--expansion", "N", WITH_GROWING, false, "each further layer is N times as large (2)",
     set_expansion},
    {"", "--nonscaling", NULL, WITH_GROWING, false, "refuse adds when the filter is full", set_nonscaling},
    {"", "--nodes", "LIST", WITH_NODES, false,
     "Redis nodes to build on: host:port,host:port; with --keys, their number (as few as hold it)",
     set_nodes},
    {"-n", "--count", "N", WITH_COUNT, false, "how many to show (100)", set_count},
    {"", "--keys", "N", WITH_ESTIMATE | WITH_BENCH, false, "number of keys: 30e9, 30G; bench: 100000",
     cli_set_keys},
    {"", "--node-memory", "BYTES", WITH_ESTIMATE, false, "maxmemory of each node: 64GiB, 1.5TiB",
     cli_set_node_memory},
    {"", "--scan-rate", "ROWS/S", WITH_ESTIMATE, false, "rows a second that one reader reads (1M)",
     cli_set_scan_rate},
    {"", "--readers", "N", WITH_ESTIMATE, false, "connections that read at the same time (1)",
     cli_set_readers},
    {"", "--growth", "FACTOR", WITH_ESTIMATE, false, "how much larger a rebuild makes the filter: 1.5 (1)",
     cli_set_growth},
    {"", "--build-memory", "BYTES", WITH_ESTIMATE, false,
     "memory of the coordinator for the bitmaps of a build: 512MiB", cli_set_build_memory},
    {"", "--filter", "NAME", WITH_BENCH, false, "name of the filter to create (a new name)",
     cli_set_bench_filter},
    {"", "--adds", "SHARE", WITH_BENCH, false, "share of the requests that add: 0 to 1 (0.1)", cli_set_adds},
    {"", "--batch", "N", WITH_BENCH, false, "keys per request; from 2 on BF.MADD and BF.MEXISTS (1)",
     cli_set_batch},
    {"", "--pipeline", "N", WITH_BENCH, false, "requests in flight per connection (1)", cli_set_pipeline},
    {"", "--connections", "N", WITH_BENCH, false, "number of connections, each with its own thread (8)",
     cli_set_connections},
    {"", "--seconds", "S", WITH_BENCH, false, "duration (10, or until --requests are done)", cli_set_seconds},
    {"", "--requests", "N", WITH_BENCH, false, "number of requests", cli_set_requests},
    {"", "--rate", "N", WITH_BENCH, false, "requests a second, of all connections together (no limit)",
     cli_set_rate},
    {"", "--key-size", "BYTES", WITH_BENCH, false, "8 to 512 (16)", cli_set_key_size},
    {"", "--interval", "SECONDS", WITH_INTERVAL, false, "time between refreshes (2)", cli_set_interval},
    {"", "--wait", NULL, WITH_WAIT, false, "wait until the job ends, or until a new generation serves",
     set_wait},
    {"", "--hold", NULL, WITH_HOLD, false, "build, then wait for \"twinbloom cutover\"", set_hold},
    {"", "--restart", NULL, WITH_RESTART, false, "discard what an unfinished job has built", set_restart},
    {"", "--verify", "sample|full", WITH_VERIFY, false,
     "sample: look up some keys of the source; full: all of them", set_verify},
    {"", "--full", NULL, WITH_FULL, false, "look up every key of the source, not a sample", set_full},
    {"", "--dry-run", NULL, WITH_DRY_RUN, false, "show what would be done, and do nothing", set_dry_run},
    {"-y", "--yes", NULL, WITH_YES, false, "do not ask for confirmation", set_yes},
    {"-i", "--input", "FILE", WITH_INPUT, false, "read this file instead of standard input", set_input},
    {"-o", "--output", "FILE", WITH_OUTPUT, false, "write this file instead of standard output", set_output},
    {"", "--resume", NULL, WITH_OUTPUT, false, "continue FILE, a dump that was interrupted", set_resume},
    {"-0", "--null", NULL, WITH_KEYS, false, "keys end in NUL", set_null},
    {"", "--csv", "COLUMN", WITH_KEYS, false,
     "keys are a column of CSV: its number from 1, or its name in the first record", set_csv},
    {"", "--skip", "N", WITH_KEYS, false, "skip the first N keys", set_skip},
    {"", "--no-create", NULL, WITH_KEYS, false, "fail if the filter does not exist", set_no_create},
    {"", "--token", NULL, WITH_TOKEN, false, "make a bearer token for HTTP instead", cli_set_token},
    {"", "--man", NULL, WITH_FORM, false, "the whole reference as a manual page, twinbloom.1", set_man},
    {"", "--markdown", NULL, WITH_FORM, false, "the whole reference as Markdown, with what --json prints",
     set_markdown},
    {"", "--help", NULL, 0, false, "show help", set_help},
    {"", "--version", NULL, 0, false, "show the version", set_version},
};
const size_t cli_option_count = sizeof(cli_option_table) / sizeof(cli_option_table[0]);
