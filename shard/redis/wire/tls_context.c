/* SPDX-License-Identifier: MIT */
#include "shard/redis/wire/tls_context.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <openssl/err.h>
#include "base/log.h"

struct tls {
    pthread_mutex_t lock;
    SSL_CTX *context;
};

const char *tls_context_reason(void)
{
    unsigned long code = ERR_peek_error(); /* the first error; later ones only say where it led */
    const char *why = ERR_SYSTEM_ERROR(code) ? strerror(ERR_GET_REASON(code)) : ERR_reason_error_string(code);
    ERR_clear_error();
    return why;
}

static enum err refuse(const char *key, const char *file, const char *remedy, struct error *e)
{
    const char *why = tls_context_reason();
    return error_set(e, ERR_CONFIG, "%s = %s: %s; give %s", key, file, why != NULL ? why : "not usable",
                     remedy);
}

enum err tls_context_refuse(const char *key, const char *file, struct error *e)
{
    return refuse(key, file, "a PEM file that can be read", e);
}

/* Refuse encrypted keys: nobody is at a terminal to type a password. */
static int no_password(char *out, int size, int writing, void *arg)
{
    (void)out;
    (void)size;
    (void)writing;
    (void)arg;
    return -1;
}

SSL_CTX *tls_context_new(const SSL_METHOD *method)
{
    ERR_clear_error();
    SSL_CTX *x = SSL_CTX_new(method);
    if (x == NULL || SSL_CTX_set_min_proto_version(x, TLS1_2_VERSION) != 1) {
        SSL_CTX_free(x);
        return NULL;
    }
    SSL_CTX_set_default_passwd_cb(x, no_password);
    SSL_CTX_set_options(x, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_NO_COMPRESSION |
                               SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_mode(x, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                            SSL_MODE_RELEASE_BUFFERS);
    return x;
}

/* A certificate is used whatever its dates: this machine's clock may be wrong, and peers judge for
 * themselves. */
static void warn_of_dates(const SSL_CTX *x, const char *key, const char *file)
{
    const X509 *c = SSL_CTX_get0_certificate(x);
    bool over = X509_cmp_current_time(X509_get0_notAfter(c)) < 0;
    if (over || X509_cmp_current_time(X509_get0_notBefore(c)) > 0)
        log_warn("tls_certificate_not_valid", "key=%s file=%s note=\"%s; peers refuse it\"", key,
                 log_quote(file), over ? "it has expired" : "it is not valid yet");
}

enum err tls_context_identify(SSL_CTX *x, const char *cert_key, const char *cert, const char *private_key,
                              const char *file, struct error *e)
{
    if (SSL_CTX_use_certificate_chain_file(x, cert) != 1)
        return tls_context_refuse(cert_key, cert, e);
    if (SSL_CTX_use_PrivateKey_file(x, file, SSL_FILETYPE_PEM) != 1 || SSL_CTX_check_private_key(x) != 1)
        return refuse(private_key, file, "a PEM file with the key of the certificate, not encrypted", e);
    warn_of_dates(x, cert_key, cert);
    return ERR_OK;
}

/* --- a context that can be replaced --- */

struct tls *tls_new(void)
{
    struct tls *t = calloc(1, sizeof(*t));
    if (t != NULL)
        (void)pthread_mutex_init(&t->lock, NULL);
    return t;
}

void tls_free(struct tls *t)
{
    if (t == NULL)
        return;
    SSL_CTX_free(t->context);
    (void)pthread_mutex_destroy(&t->lock);
    free(t);
}

void tls_replace(struct tls *t, SSL_CTX *context)
{
    (void)pthread_mutex_lock(&t->lock);
    SSL_CTX *old = t->context;
    t->context = context;
    (void)pthread_mutex_unlock(&t->lock);
    SSL_CTX_free(old); /* open connections hold references of their own */
}

SSL *tls_session(struct tls *t)
{
    HOLD(&t->lock);
    return t->context != NULL ? SSL_new(t->context) : NULL;
}
