/* SPDX-License-Identifier: MIT */
#include "tests/lib/certificates.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/process.h"

enum { DEADLINE_MS = 60000 };

/* ca NAME; leaf NAME CN EXTENSIONS CA SERIAL [VALIDITY]. Python from 3.13 on wants authorities with a key
 * usage; OpenSSL from 3.4 on refuses days below 0, and takes dates instead. */
static const char functions[] =
    "cd \"$0\" && q() { openssl \"$@\" 2>/dev/null; } && k='ec -pkeyopt ec_paramgen_curve:P-256 -nodes' && "
    "ca() { q req -x509 -newkey $k -days 2 -subj \"/CN=$1\" -addext keyUsage=critical,keyCertSign "
    "-keyout $1.key -out $1.crt; } && "
    "leaf() { q req -newkey $k -subj \"/CN=$2\" -keyout $1.key -out $1.csr && printf '%s' \"$3\" > $1.ext && "
    "q x509 -req -in $1.csr -CA $4.crt -CAkey $4.key -set_serial $5 ${6:--days 2} -extfile $1.ext -out "
    "$1.crt; } && "
    "at() { date -u -d \"$1\" +%Y%m%d%H%M%SZ; } && gone=\"-not_before $(at '-2 days') -not_after $(at '-1 "
    "day')\" && "
    "if ! openssl x509 -help 2>&1 | grep -q not_after; then gone='-days -1'; fi && ";

static const char usual[] =
    "ca ours && ca theirs && "
    "leaf redis redis 'subjectAltName=DNS:localhost,IP:127.0.0.1' ours 1001 && "
    "leaf named named 'subjectAltName=DNS:localhost' ours 1002 && "
    "leaf elsewhere elsewhere 'subjectAltName=DNS:elsewhere' ours 1003 && "
    "leaf expired expired 'subjectAltName=DNS:localhost,IP:127.0.0.1' ours 1004 \"$gone\" && "
    "leaf client client 'extendedKeyUsage=clientAuth' ours 1005 && "
    "leaf foreign foreign 'extendedKeyUsage=clientAuth' theirs 1006";

enum err certificates_make(const char *directory, struct error *e)
{
    return certificates_make_by(usual, directory, e);
}

enum err certificates_make_by(const char *lines, const char *directory, struct error *e)
{
    char script[4096];
    (void)snprintf(script, sizeof(script), "%s%s", functions, lines);
    const char *const argv[] = {"sh", "-c", script, directory, NULL};
    char *output = NULL;
    int status = -1;
    enum err code = process_run(argv, DEADLINE_MS, &output, &status, e);
    if (code == ERR_OK && status != 0)
        code = error_set(e, ERR_IO, "openssl: %s", output);
    free(output);
    return code;
}
