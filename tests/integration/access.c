/* SPDX-License-Identifier: MIT */
#include "tests/integration/access.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/raw.h"

struct fixture access_fixture;

struct daemon_options access_options(const char *service, const char *filters)
{
    return (struct daemon_options){.nodes = access_fixture.node_list, .service = service, .filters = filters};
}

void access_open(struct client *c)
{
    struct error e = {""};
    must(client_open(c, access_fixture.daemon[0].port, ACCESS_REPLY_MS, &e), e);
}

void access_gives(struct client *c, const char *command, const char *wanted)
{
    char got[512] = "no reply";
    redisReply *r = client_command(c, command);
    if (r != NULL && r->type == REDIS_REPLY_INTEGER)
        (void)snprintf(got, sizeof(got), "%lld", r->integer);
    else if (r != NULL && r->type == REDIS_REPLY_ARRAY)
        (void)snprintf(got, sizeof(got), "array of %zu", r->elements);
    else if (r != NULL)
        (void)snprintf(got, sizeof(got), "%s", r->str != NULL ? r->str : "nil");
    freeReplyObject(r);
    if (strcmp(got, wanted) != 0)
        fail_msg("%s: %s; expected: %s", command, got, wanted);
}

void access_log_in(struct client *c, const char *user)
{
    char command[128];
    access_open(c);
    (void)snprintf(command, sizeof(command), "AUTH %s %s", user, user);
    access_gives(c, command, "OK");
}

static void wait_for_filters(void)
{
    struct error e = {""};
    must(client_wait_status(&access_fixture.client[0], "alpha", "state", "serving", ACCESS_REPLY_MS, &e), e);
    must(client_wait_status(&access_fixture.client[0], "beta", "state", "serving", ACCESS_REPLY_MS, &e), e);
}

int access_setup(void **state)
{
    (void)state;
    struct error e = {""};
    (void)fixture_start(&access_fixture, &(struct fixture_options){.nodes = 1});
    const struct daemon_options o = access_options(SERVICE, FILTERS READER WRITER CHIEF SLOW);
    must(daemon_start(&access_fixture.daemon[0], &o, &e), e);
    access_log_in(&access_fixture.client[0], "chief");
    wait_for_filters();
    return 0;
}

int access_teardown(void **state)
{
    (void)state;
    return fixture_stop(&access_fixture);
}

void access_reload(const char *service, const char *sections)
{
    struct error e = {""};
    const struct daemon_options o = access_options(service, sections);
    must(daemon_rewrite(&access_fixture.daemon[0], &o, &e), e);
    must(daemon_reload(&access_fixture.daemon[0], &e), e);
}

int access_restore(void **state)
{
    (void)state;
    access_reload(SERVICE, FILTERS READER WRITER CHIEF SLOW);
    return 0;
}

int access_http_status(const char *method, const char *path, const char *authorization, char *answer,
                       size_t size)
{
    char request[1024], *body = "";
    int status = 0, fd = raw_open(access_fixture.daemon[0].http_port);
    if (strcmp(method, "POST") == 0)
        body = strstr(path, "/trust") != NULL ? "{}" : "{\"keys\":[\"k\"]}";
    (void)snprintf(request, sizeof(request),
                   "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
                   "Content-Length: %zu\r\n%s%s%s\r\n%s",
                   method, path, strlen(body), *authorization != '\0' ? "Authorization: " : "", authorization,
                   *authorization != '\0' ? "\r\n" : "", body);
    assert_true(raw_puts(fd, request));
    assert_true(raw_read_all(fd, answer, size));
    if (strncmp(answer, "HTTP/1.1 ", 9) == 0)
        status = (int)strtol(answer + 9, NULL, 10);
    raw_close(fd);
    return status;
}
