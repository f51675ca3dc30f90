/* SPDX-License-Identifier: MIT */
/* The commands about filters as a whole: status, plan, rebuild, abort. */
#include <stdio.h>
#include <string.h>

#include "service/cli.h"

redisReply *cli_request(struct cli *cli, const char *verb)
{
    const char *argv[8] = {verb};
    size_t argc = 1;
    char capacity[32], entries[32];
    if (cli->count > 0)
        argv[argc++] = cli->arguments[0];
    if (cli->capacity != 0) {
        (void)snprintf(capacity, sizeof(capacity), "%llu", (unsigned long long)cli->capacity);
        argv[argc++] = "CAPACITY";
        argv[argc++] = capacity;
    }
    if (cli->error_rate != NULL) {
        argv[argc++] = "ERROR";
        argv[argc++] = cli->error_rate;
    }
    if (cli->entries != 0) {
        (void)snprintf(entries, sizeof(entries), "%llu", (unsigned long long)cli->entries);
        argv[argc++] = "COUNT";
        argv[argc++] = entries;
    }
    struct error e = {""};
    redisReply *reply = NULL;
    if (client_call(cli->client, &reply, argc, argv, NULL, &e) != ERR_OK)
        (void)cli_fail(CLI_UNAVAILABLE, "%s", e.text);
    return reply;
}

/* --- JSON --- */

/* Names stay text even if they look like numbers. */
static bool is_name(const char *field)
{
    static const char *const names[] = {
        "filter",     "table",     "nodes",   "schedule",  "mutex_owner", "job_owner",
        "job_reason", "job_error", "warning", "refused",   "reason",      "job_waiting_for",
        "phase",      "job_step",  "state",   "job_state", "redis",       "postgres",
        "window",     "wanted",    "outcome", "trigger",   "error",       "owner"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i], field) == 0)
            return true;
    return false;
}

static void write_value(struct json *j, const redisReply *r, bool name)
{
    switch (r->type) {
    case REDIS_REPLY_INTEGER:
        json_integer(j, r->integer);
        return;
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
    case REDIS_REPLY_ERROR:
        if (name)
            json_string(j, r->str, (size_t)r->len);
        else
            json_number_or_string(j, r->str, (size_t)r->len);
        return;
    case REDIS_REPLY_ARRAY:
        json_open(j, '[');
        for (size_t i = 0; i < r->elements; i++)
            write_value(j, r->element[i], name);
        json_close(j, ']');
        return;
    default:
        json_null(j);
        return;
    }
}

static bool is_list(const redisReply *r)
{
    return r->type == REDIS_REPLY_ARRAY && r->elements % 2 == 0 &&
           (r->elements == 0 || r->element[0]->type == REDIS_REPLY_STRING);
}

static void write_object(struct json *j, const redisReply *list)
{
    json_open(j, '{');
    for (size_t i = 0; i + 1 < list->elements; i += 2) {
        const redisReply *key = list->element[i];
        if (key->type != REDIS_REPLY_STRING && key->type != REDIS_REPLY_STATUS)
            continue;
        json_name(j, key->str);
        write_value(j, list->element[i + 1], is_name(key->str));
    }
    json_close(j, '}');
}

void cli_print_json(const redisReply *reply)
{
    struct buffer b = {0};
    struct json j = {.out = &b};
    if (is_list(reply) && reply->elements != 0) {
        write_object(&j, reply);
    } else {
        json_open(&j, '[');
        for (size_t i = 0; i < reply->elements; i++)
            write_object(&j, reply->element[i]);
        json_close(&j, ']');
    }
    (void)puts(buffer_text(&b));
    buffer_fini(&b);
}

/* {"filter": ..., @name: true} */
static void print_outcome(const struct cli *cli, const char *name)
{
    struct buffer b = {0};
    struct json j = {.out = &b};
    json_open(&j, '{');
    json_name(&j, "filter");
    json_string(&j, cli->arguments[0], strlen(cli->arguments[0]));
    json_name(&j, name);
    json_bool(&j, true);
    json_close(&j, '}');
    (void)puts(buffer_text(&b));
    buffer_fini(&b);
}

/* --- handlers --- */

/* One flat list, or NULL after saying what came instead. */
static redisReply *request_list(struct cli *cli, const char *verb)
{
    redisReply *reply = cli_request(cli, verb);
    if (reply == NULL || (is_list(reply) && reply->elements != 0))
        return reply;
    freeReplyObject(reply);
    (void)cli_fail(CLI_UNAVAILABLE, "the reply to %s has an unexpected form", verb);
    return NULL;
}

/* An array of flat lists, or NULL after saying what came instead. */
static redisReply *request_array(struct cli *cli, const char *verb)
{
    redisReply *reply = cli_request(cli, verb);
    bool good = reply != NULL && reply->type == REDIS_REPLY_ARRAY;
    for (size_t i = 0; good && i < reply->elements; i++)
        good = is_list(reply->element[i]);
    if (reply == NULL || good)
        return reply;
    freeReplyObject(reply);
    (void)cli_fail(CLI_UNAVAILABLE, "the reply to %s has an unexpected form", verb);
    return NULL;
}

static int status_of_all(struct cli *cli)
{
    redisReply *reply = request_array(cli, "TB.STATUS");
    if (reply == NULL)
        return CLI_UNAVAILABLE;
    if (cli->json)
        cli_print_json(reply);
    else
        cli_print_table(cli, reply);
    freeReplyObject(reply);
    return CLI_OK;
}

int cli_status(struct cli *cli)
{
    if (cli->count == 0)
        return status_of_all(cli);
    redisReply *reply = request_list(cli, "TB.STATUS");
    if (reply == NULL)
        return CLI_UNAVAILABLE;
    if (cli->json)
        cli_print_json(reply);
    else
        cli_print_sheet(cli, reply);
    freeReplyObject(reply);
    return CLI_OK;
}

int cli_history(struct cli *cli)
{
    redisReply *reply = request_array(cli, "TB.HISTORY");
    if (reply == NULL)
        return CLI_UNAVAILABLE;
    if (cli->json)
        cli_print_json(reply);
    else
        cli_print_history(cli, reply);
    freeReplyObject(reply);
    return CLI_OK;
}

int cli_plan(struct cli *cli)
{
    redisReply *reply = request_list(cli, "TB.PLAN");
    if (reply == NULL)
        return CLI_UNAVAILABLE;
    if (cli->json)
        cli_print_json(reply);
    else
        cli_print_plan(cli, reply);
    char fits[8] = "";
    char refused[8] = "";
    bool no = client_text(reply, "fits", fits, sizeof(fits)) && strcmp(fits, "yes") != 0;
    no = client_text(reply, "refused", refused, sizeof(refused)) || no;
    freeReplyObject(reply);
    return no ? CLI_NO : CLI_OK;
}

/* Status has no options: a copy without them. */
static redisReply *status_before(const struct cli *cli)
{
    struct cli plain = *cli;
    plain.capacity = 0;
    plain.error_rate = NULL;
    return request_list(&plain, "TB.STATUS");
}

int cli_rebuild(struct cli *cli)
{
    redisReply *before = NULL;
    if (cli->wait) {
        before = status_before(cli);
        if (before == NULL)
            return CLI_UNAVAILABLE;
    }
    redisReply *reply = cli_request(cli, "TB.REBUILD");
    int code = CLI_OK;
    if (reply == NULL) {
        code = CLI_UNAVAILABLE;
    } else if (cli->wait) {
        code = cli_follow(cli, before);
    } else if (cli->json) {
        print_outcome(cli, "started");
    } else {
        (void)printf("The rebuild of %s has started; \"twinbloom status %s\" shows how far it is.\n",
                     cli->arguments[0], cli->arguments[0]);
    }
    freeReplyObject(reply);
    freeReplyObject(before);
    return code;
}

int cli_abort(struct cli *cli)
{
    redisReply *reply = cli_request(cli, "TB.ABORT");
    if (reply == NULL)
        return CLI_UNAVAILABLE;
    freeReplyObject(reply);
    if (cli->json)
        print_outcome(cli, "aborted");
    else
        (void)printf("The rebuild of %s is being stopped; the filter serves on.\n", cli->arguments[0]);
    return CLI_OK;
}
