/* SPDX-License-Identifier: MIT */
/* twinbloom doctor: what TB.DOCTOR found, for people. */
#include <stdio.h>
#include <string.h>

#include "service/cli/cli.h"

enum { OK, WARNING, PROBLEM, STATES };

static int state_of(const redisReply *finding)
{
    char state[16] = "";
    (void)client_text(finding, "state", state, sizeof(state));
    return strcmp(state, "ok") == 0 ? OK : strcmp(state, "warning") == 0 ? WARNING : PROBLEM;
}

/* A field, as a terminal may have it; the caller frees @b. */
static const char *field(struct buffer *b, const redisReply *finding, const char *name)
{
    char text[2048] = "";
    (void)client_text(finding, name, text, sizeof(text));
    buffer_clear(b);
    output_escape(b, text, strlen(text));
    return buffer_text(b);
}

static void print_finding(const struct cli *cli, const redisReply *finding)
{
    static const enum output_color colors[STATES] = {COLOR_GOOD, COLOR_WARN, COLOR_BAD};
    struct buffer state = {0}, probe = {0}, subject = {0}, found = {0}, remedy = {0};
    const enum output_color color = colors[state_of(finding)];
    const char *where = field(&subject, finding, "subject");
    (void)printf("%s%-8s%s %-13s %s%s%s\n", output_color_on(color, cli->color),
                 field(&state, finding, "state"), output_color_off(color, cli->color),
                 field(&probe, finding, "probe"), where, where[0] == '\0' ? "" : ": ",
                 field(&found, finding, "found"));
    if (field(&remedy, finding, "remedy")[0] != '\0')
        (void)printf("%22s -> %s\n", "", buffer_text(&remedy));
    buffer_fini(&state);
    buffer_fini(&probe);
    buffer_fini(&subject);
    buffer_fini(&found);
    buffer_fini(&remedy);
}

int cli_doctor(struct cli *cli)
{
    unsigned counts[STATES] = {0};
    redisReply *reply = cli_request_array(cli, "TB.DOCTOR");
    if (reply == NULL)
        return cli->failure;
    for (size_t i = 0; i < reply->elements; i++)
        counts[state_of(reply->element[i])]++;
    if (cli->json) {
        cli_print_json(reply, "finding");
    } else {
        for (size_t i = 0; i < reply->elements; i++)
            print_finding(cli, reply->element[i]);
        (void)printf("%u ok, %u warning%s, %u problem%s\n", counts[OK], counts[WARNING],
                     counts[WARNING] == 1 ? "" : "s", counts[PROBLEM], counts[PROBLEM] == 1 ? "" : "s");
    }
    freeReplyObject(reply);
    return counts[PROBLEM] > 0 ? CLI_NO : CLI_OK;
}
