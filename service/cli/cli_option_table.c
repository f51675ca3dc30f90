/* SPDX-License-Identifier: MIT */
/* The table of options, and their setters. */
#include <float.h>
#include <string.h>

#include "base/number.h"
#include "service/cli/common/cli.h"
#include "service/cli/bench/cli_bench.h"
#include "service/cli/cli_table.h"

/* --- address and user --- */

static bool set_text(char *out, size_t size, const char *value)
{
    size_t length = strlen(value);
    if (length == 0 || length >= size)
        return false;
    memcpy(out, value, length + 1);
    return true;
}

static bool set_host(struct cli *cli, const char *value)
{
    cli->address.path[0] = '\0';
    return set_text(cli->address.host, sizeof(cli->address.host), value);
}

static bool set_port(struct cli *cli, const char *value)
{
    uint64_t port;
    if (!number_u64(value, strlen(value), &port) || port == 0 || port > UINT16_MAX)
        return false;
    cli->address.port = (uint16_t)port;
    cli->address.path[0] = '\0';
    return true;
}

bool cli_set_url(struct cli *cli, const char *value)
{
    struct error e = {""};
    if (client_parse_url(&cli->address, value, &e) == ERR_OK)
        return true;
    (void)cli_fail(CLI_USAGE, "%s", e.text);
    return false;
}

bool cli_set_password(struct cli *cli, const char *value)
{
    return value[0] == '\0' || set_text(cli->address.password, sizeof(cli->address.password), value);
}

/* --- special values --- */

static bool set_timeout(struct cli *cli, const char *value)
{
    double seconds;
    if (!number_double(value, strlen(value), &seconds) || !(seconds >= 0.001 && seconds <= 86400))
        return false;
    cli->timeout_ms = (unsigned)(seconds * 1000);
    return true;
}

static bool set_error_rate(struct cli *cli, const char *value)
{
    double rate;
    cli->error_rate = value;
    return number_double(value, strlen(value), &rate) && rate > 0 && rate < 1;
}

static bool set_verify(struct cli *cli, const char *value)
{
    cli->full = strcmp(value, "full") == 0;
    return cli->full || strcmp(value, "sample") == 0;
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

/* --- the table --- */

/* clang-format off */
#define BY(setter) {OPTION_OWN, 0, 0, 0, setter}
#define TO(kind, member, least, most) {OPTION_##kind, offsetof(struct cli, member), least, most, NULL}
/* clang-format on */
#define COPY(member) TO(COPY, member, 1, sizeof(((struct cli *)0)->member) - 1)
#define FLAG(member) TO(FLAG, member, 0, 0)
#define TEXT(member, most) TO(TEXT, member, 1, most)
#define BYTES(member) TO(BYTES, member, 0, 0)
#define COUNT(member, least, most) TO(COUNT, member, least, most)
#define DECIMAL(member, least, most) TO(DECIMAL, member, least, most)

const struct option_row cli_option_table[] = {
    {"-h", "--host", "HOST", 0, false, "host of twinbloomd (127.0.0.1)", BY(set_host)},
    {"-p", "--port", "PORT", 0, false, "port of twinbloomd (6479)", BY(set_port)},
    {"-u", "--url", "URL", 0, true,
     "both: redis://[user:password@]host:port, rediss:// with TLS, unix:///path (or TWINBLOOM_URL)",
     BY(cli_set_url)},
    {"-s", "--socket", "PATH", 0, false, "connect to this Unix socket instead", COPY(address.path)},
    {"", "--user", "NAME", 0, false, "log in as this user, with the password below", COPY(address.user)},
    {"-a", "--password", "PASSWORD", 0, false, "others may see it in ps; TWINBLOOM_PASSWORD is safer",
     BY(cli_set_password)},
    {"", "--tls", NULL, 0, false, "connect with TLS", FLAG(address.tls)},
    {"", "--cacert", "FILE", 0, false, "authorities to trust, PEM (those of the system)",
     TO(TEXT, address.ca, 0, DBL_MAX)},
    {"", "--cert", "FILE", 0, false, "client certificate, PEM", TO(TEXT, address.cert, 0, DBL_MAX)},
    {"", "--key", "FILE", 0, false, "private key of the client certificate, PEM",
     TO(TEXT, address.key, 0, DBL_MAX)},
    {"", "--timeout", "SECONDS", 0, false, "how long to wait for an answer, 0.001 to 86400 (10)",
     BY(set_timeout)},
    {"", "--json", NULL, 0, false, "print JSON; an error is JSON, too, on standard error", FLAG(json)},
    {"", "--capacity", "N", WITH_CAPACITY, false, "number of keys to make room for: 1000000, 1e6, 1M",
     COUNT(capacity, 1, DBL_MAX)},
    {"", "--error-rate", "P", WITH_ERROR_RATE, false, "highest allowed false-positive rate: 0.001, 1e-3",
     BY(set_error_rate)},
    {"", "--expansion", "N", WITH_GROWING, false, "each further layer is N times as large (2)",
     COUNT(expansion, 1, 32768)},
    {"", "--nonscaling", NULL, WITH_GROWING, false, "refuse adds when the filter is full", FLAG(nonscaling)},
    {"", "--nodes", "LIST", WITH_NODES, false,
     "Redis nodes to build on: host:port,host:port; with --keys, their number (as few as hold it)",
     TEXT(nodes, DBL_MAX)},
    {"-n", "--count", "N", WITH_COUNT, false, "how many to show (100)", COUNT(entries, 1, DBL_MAX)},
    {"", "--keys", "N", WITH_ESTIMATE | WITH_BENCH, false, "number of keys: 30e9, 30G; bench: 100000",
     COUNT(estimate.keys, 1, DBL_MAX)},
    {"", "--node-memory", "BYTES", WITH_ESTIMATE, false, "maxmemory of each node: 64GiB, 1.5TiB",
     BYTES(estimate.node_memory)},
    {"", "--scan-rate", "ROWS/S", WITH_ESTIMATE, false, "rows a second that one reader reads (1M)",
     COUNT(estimate.scan_rate, 1, DBL_MAX)},
    {"", "--readers", "N", WITH_ESTIMATE, false, "connections that read at the same time (1)",
     COUNT(estimate.readers, 1, 64)},
    {"", "--growth", "FACTOR", WITH_ESTIMATE, false, "how much larger a rebuild makes the filter: 1.5 (1)",
     DECIMAL(estimate.growth, 1, 1000)},
    {"", "--build-memory", "BYTES", WITH_ESTIMATE, false,
     "memory of the coordinator for the bitmaps of a build: 512MiB", BYTES(estimate.build_memory)},
    {"", "--filter", "NAME", WITH_BENCH, false, "name of the filter to create (a new name)",
     TEXT(bench.filter, 127)},
    {"", "--adds", "SHARE", WITH_BENCH, false, "share of the requests that add: 0 to 1 (0.1)",
     DECIMAL(bench.adds, 0, 1)},
    {"", "--batch", "N", WITH_BENCH, false, "keys per request; from 2 on BF.MADD and BF.MEXISTS (1)",
     COUNT(bench.batch, 1, BENCH_BATCH_MAX)},
    {"", "--pipeline", "N", WITH_BENCH, false, "requests in flight per connection (1)",
     COUNT(bench.pipeline, 1, BENCH_PIPELINE_MAX)},
    {"", "--connections", "N", WITH_BENCH, false, "number of connections (8)",
     COUNT(bench.connections, 1, BENCH_CONNECTIONS_MAX)},
    {"", "--seconds", "S", WITH_BENCH, false, "duration (10, or until --requests are done)",
     DECIMAL(bench.seconds, DBL_TRUE_MIN, 86400)},
    {"", "--requests", "N", WITH_BENCH, false, "number of requests", COUNT(bench.requests, 1, DBL_MAX)},
    {"", "--rate", "N", WITH_BENCH, false, "requests a second, of all connections together (no limit)",
     COUNT(bench.rate, 1, DBL_MAX)},
    {"", "--key-size", "BYTES", WITH_BENCH, false, "8 to 512 (16)",
     COUNT(bench.key_size, BENCH_KEY_MIN, BENCH_KEY_MAX)},
    {"", "--interval", "SECONDS", WITH_INTERVAL, false, "time between refreshes (2)",
     DECIMAL(interval, 0.1, 3600)},
    {"", "--wait", NULL, WITH_WAIT, false, "wait until the job ends, or until a new generation serves",
     FLAG(wait)},
    {"", "--hold", NULL, WITH_HOLD, false, "build, then wait for \"twinbloom cutover\"", FLAG(hold)},
    {"", "--restart", NULL, WITH_RESTART, false, "discard what an unfinished job has built", FLAG(restart)},
    {"", "--verify", "sample|full", WITH_VERIFY, false,
     "sample: look up some keys of the source; full: all of them", BY(set_verify)},
    {"", "--full", NULL, WITH_FULL, false, "look up every key of the source, not a sample", FLAG(full)},
    {"", "--dry-run", NULL, WITH_DRY_RUN, false, "show what would be done, and do nothing", FLAG(dry_run)},
    {"-y", "--yes", NULL, WITH_YES, false, "do not ask for confirmation", FLAG(yes)},
    {"-i", "--input", "FILE", WITH_INPUT, false, "read this file instead of standard input",
     TEXT(input, DBL_MAX)},
    {"-o", "--output", "FILE", WITH_OUTPUT, false, "write this file instead of standard output",
     TEXT(output, DBL_MAX)},
    {"", "--resume", NULL, WITH_OUTPUT, false, "continue FILE, a dump that was interrupted", FLAG(resume)},
    {"-0", "--null", NULL, WITH_KEYS, false, "keys end in NUL", FLAG(null)},
    {"", "--csv", "COLUMN", WITH_KEYS, false,
     "keys are a column of CSV: its number from 1, or its name in the first record", BY(set_csv)},
    {"", "--skip", "N", WITH_KEYS, false, "skip the first N keys", BY(set_skip)},
    {"", "--no-create", NULL, WITH_KEYS, false, "fail if the filter does not exist", FLAG(no_create)},
    {"", "--token", NULL, WITH_TOKEN, false, "make a bearer token for HTTP instead", FLAG(token)},
    {"", "--man", NULL, WITH_FORM, false, "the whole reference as a manual page, twinbloom.1", FLAG(man)},
    {"", "--markdown", NULL, WITH_FORM, false, "the whole reference as Markdown, with what --json prints",
     FLAG(markdown)},
    {"", "--help", NULL, 0, false, "show help", FLAG(help)},
    {"", "--version", NULL, 0, false, "show the version", FLAG(version)},
};
const size_t cli_option_count = sizeof(cli_option_table) / sizeof(cli_option_table[0]);

bool cli_option_set(struct cli *cli, const struct option_row *o, const char *value)
{
    const struct option_to *to = &o->to;
    void *at = (char *)cli + to->offset;
    bool valid = true;
    double number = 0;
    if ((o->command & WITH_ESTIMATE) != 0)
        cli->estimate.given = o->name;
    switch (to->kind) {
    case OPTION_OWN:
        return to->set(cli, value);
    case OPTION_FLAG:
        return *(bool *)at = true;
    case OPTION_COPY:
        return set_text(at, (size_t)to->most + 1, value);
    case OPTION_TEXT:
        *(const char **)at = value;
        number = (double)strlen(value);
        break;
    case OPTION_COUNT:
        valid = output_parse_count(value, at);
        number = (double)*(uint64_t *)at;
        break;
    case OPTION_BYTES:
        return output_parse_bytes(value, at);
    case OPTION_DECIMAL:
        valid = number_double(value, strlen(value), at);
        number = *(double *)at;
        break;
    }
    return valid && number >= to->least && number <= to->most;
}
