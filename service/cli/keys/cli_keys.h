/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CLI_KEYS_CLI_KEYS_H
#define SERVICE_CLI_KEYS_CLI_KEYS_H
/* The commands that take keys, and those that take whole filters out and bring them in. */
#include "service/cli/common/cli.h"

cli_handler cli_check, cli_add;
cli_handler cli_dump, cli_restore, cli_import;
#endif
