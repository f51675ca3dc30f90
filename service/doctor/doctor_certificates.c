/* SPDX-License-Identifier: MIT */
/* Certificates of this machine: those that clients and Redis are shown. */
#include "service/doctor/doctor_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

enum { SOON_DAYS = 14 };

static void judge(struct doctor *d, const char *subject, const X509 *certificate)
{
    int until = 0, since = 0, seconds = 0, rest = 0;
    bool known = ASN1_TIME_diff(&until, &seconds, NULL, X509_get0_notAfter(certificate)) == 1 &&
                 ASN1_TIME_diff(&since, &rest, X509_get0_notBefore(certificate), NULL) == 1;
    if (!known || since < 0 || rest < 0)
        doctor_tell(d, DOCTOR_PROBLEM, subject,
                    "see to the clock of this machine, or give another certificate", "it is not valid yet");
    else if (until < 0 || seconds < 0)
        doctor_tell(d, DOCTOR_PROBLEM, subject, "renew it, then send SIGHUP to twinbloomd",
                    "it expired %d day%s ago", abs(until), until == -1 ? "" : "s");
    else
        doctor_tell(d, until < SOON_DAYS ? DOCTOR_WARNING : DOCTOR_OK, subject,
                    until < SOON_DAYS ? "renew it, then send SIGHUP to twinbloomd" : "",
                    "it is valid for %d day%s", until, until == 1 ? "" : "s");
}

static void look_at(struct doctor *d, const char *key, const char *path)
{
    if (*path == '\0')
        return;
    FILE *f = fopen(path, "re");
    int why = errno;
    X509 *certificate = f != NULL ? PEM_read_X509(f, NULL, NULL, NULL) : NULL;
    if (certificate != NULL)
        judge(d, path, certificate);
    else
        doctor_tell(d, DOCTOR_PROBLEM, path, "give a PEM file that can be read", "%s: %s", key,
                    f != NULL ? "it holds no certificate" : strerror(why));
    X509_free(certificate);
    if (f != NULL)
        (void)fclose(f);
}

void doctor_certificates(struct doctor *d)
{
    look_at(d, "tls_cert", d->o->config->tls_cert);
    look_at(d, "tls_cert_file", d->o->config->redis_cert_file);
}
