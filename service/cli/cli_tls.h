/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CLI_TLS_H
#define SERVICE_CLI_TLS_H
/* TLS for the command line. Debian's hiredis has none, so a thread carries the bytes between a TLS connection
 * and a pair of local sockets, of which hiredis gets the other end. */
#include "service/cli/cli_client.h"

struct cli_tls;

/* Connect and shake hands within @timeout_ms; the server's certificate must be that of a->host, by an
 * authority of a->ca or of the system. *@fd: for hiredis, which closes it. ERR_UNREACHABLE, ERR_TIMEOUT,
 * ERR_CONFIG (a file of ours), ERR_REFUSED (a certificate). */
MUST_CHECK enum err cli_tls_open(struct cli_tls **out, int *fd, const struct client_address *a,
                                 unsigned timeout_ms, struct error *e);
/* Once hiredis has closed its end. Fine with NULL. */
void cli_tls_close(struct cli_tls *t);
/* Why the connection has ended; NULL: it has not, or in order. */
const char *cli_tls_fault(const struct cli_tls *t);
#endif
