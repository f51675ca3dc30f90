/* SPDX-License-Identifier: MIT */
/* Options that say where the service is, and who asks. */
#include <string.h>

#include "base/number.h"
#include "service/cli/cli.h"

static bool set_text(char *out, size_t size, const char *value)
{
    size_t length = strlen(value);
    if (length == 0 || length >= size)
        return false;
    memcpy(out, value, length + 1);
    return true;
}

bool cli_set_host(struct cli *cli, const char *value)
{
    cli->address.path[0] = '\0';
    return set_text(cli->address.host, sizeof(cli->address.host), value);
}

bool cli_set_port(struct cli *cli, const char *value)
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

bool cli_set_socket(struct cli *cli, const char *value)
{
    return set_text(cli->address.path, sizeof(cli->address.path), value);
}

bool cli_set_user(struct cli *cli, const char *value)
{
    return set_text(cli->address.user, sizeof(cli->address.user), value);
}

bool cli_set_password(struct cli *cli, const char *value)
{
    return value[0] == '\0' || set_text(cli->address.password, sizeof(cli->address.password), value);
}

bool cli_set_ca(struct cli *cli, const char *value)
{
    cli->address.ca = value;
    return cli->address.tls = true;
}

bool cli_set_cert(struct cli *cli, const char *value)
{
    cli->address.cert = value;
    return cli->address.tls = true;
}

bool cli_set_key(struct cli *cli, const char *value)
{
    cli->address.key = value;
    return cli->address.tls = true;
}
