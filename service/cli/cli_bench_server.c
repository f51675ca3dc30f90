/* SPDX-License-Identifier: MIT */
/* What the server of bench says of itself, by INFO. One that has no INFO, or refuses it, is measured all the
 * same. */
#include <string.h>

#include "base/info.h"
#include "base/number.h"
#include "service/cli/cli_bench.h"

static bool seconds(const redisReply *info, const char *name, double *sum)
{
    size_t length = 0;
    double value = 0;
    const char *text = info_value(info->str, info->len, name, &length);
    if (text == NULL || !number_double(text, length, &value))
        return false;
    *sum += value;
    return true;
}

void bench_server_look(struct bench_server *out, const struct cli *cli)
{
    const char *argv[] = {"INFO"};
    struct client *client = NULL;
    redisReply *info = NULL;
    struct error e = {""};
    size_t length = 0;
    *out = (struct bench_server){.known = false};
    /* A connection of its own: the command's may have been closed as idle. */
    enum err code = client_open(&client, &cli->address, cli->timeout_ms, &e);
    if (code == ERR_OK)
        code = client_call(client, &info, 1, argv, NULL, &e);
    if (code == ERR_OK && info->type == REDIS_REPLY_STRING) {
        out->known =
            seconds(info, "used_cpu_sys", &out->cpu_s) && seconds(info, "used_cpu_user", &out->cpu_s);
        out->coordinator = info_value(info->str, info->len, "twinbloom_version", &length) != NULL;
    }
    freeReplyObject(info);
    client_close(client);
}
