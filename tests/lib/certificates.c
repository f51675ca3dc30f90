/* SPDX-License-Identifier: MIT */
#include "tests/lib/certificates.h"

#include <stdlib.h>

#include "tests/lib/process.h"

enum { DEADLINE_MS = 60000 };

static const char script[] =
    "cd \"$0\" && q() { openssl \"$@\" 2>/dev/null; } && k='ec -pkeyopt ec_paramgen_curve:P-256 -nodes' && "
    "ca() { q req -x509 -newkey $k -days 2 -subj \"/CN=$1\" -keyout $1.key -out $1.crt; } && "
    "leaf() { q req -newkey $k -subj \"/CN=$1\" -keyout $1.key -out $1.csr && printf '%s' \"$2\" > $1.ext && "
    "q x509 -req -in $1.csr -CA $3.crt -CAkey $3.key -set_serial $4 -days $5 -extfile $1.ext -out $1.crt; } "
    "&& "
    "ca ours && ca theirs && "
    "leaf redis 'subjectAltName=DNS:localhost,IP:127.0.0.1' ours 1001 2 && "
    "leaf named 'subjectAltName=DNS:localhost' ours 1002 2 && "
    "leaf elsewhere 'subjectAltName=DNS:elsewhere' ours 1003 2 && "
    "leaf expired 'subjectAltName=DNS:localhost,IP:127.0.0.1' ours 1004 -1 && "
    "leaf client 'extendedKeyUsage=clientAuth' ours 1005 2 && "
    "leaf foreign 'extendedKeyUsage=clientAuth' theirs 1006 2";

enum err certificates_make(const char *directory, struct error *e)
{
    const char *const argv[] = {"sh", "-c", script, directory, NULL};
    char *output = NULL;
    int status = -1;
    enum err code = process_run(argv, DEADLINE_MS, &output, &status, e);
    if (code == ERR_OK && status != 0)
        code = error_set(e, ERR_IO, "openssl: %s", output);
    free(output);
    return code;
}
