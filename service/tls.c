/* SPDX-License-Identifier: MIT */
#include "service/tls.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <event2/bufferevent_ssl.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

struct tls {
    pthread_mutex_t lock;
    SSL_CTX *context; /* NULL: no certificate */
};

/* --- certificates --- */

static enum err refuse(const char *key, const char *file, struct error *e)
{
    unsigned long code = ERR_peek_error(); /* the first one; what follows says where it led */
    const char *why = ERR_reason_error_string(code);
    if (ERR_SYSTEM_ERROR(code))
        why = strerror(ERR_GET_REASON(code));
    enum err err = error_set(e, ERR_CONFIG, "%s = %s: %s; give a PEM file that can be read", key, file,
                             why != NULL ? why : "not usable");
    ERR_clear_error();
    return err;
}

/* Nobody is asked for a password: there is nobody at the terminal. */
static int no_password(char *out, int size, int writing, void *arg)
{
    (void)out;
    (void)size;
    (void)writing;
    (void)arg;
    return -1;
}

static enum err load_clients(SSL_CTX *x, const struct config *c, struct error *e)
{
    if (c->tls_client_auth == CLIENT_AUTH_NO)
        return ERR_OK;
    if (SSL_CTX_load_verify_locations(x, c->tls_ca, NULL) != 1)
        return refuse("tls_ca", c->tls_ca, e);
    SSL_CTX_set_client_CA_list(x, SSL_load_client_CA_file(c->tls_ca));
    SSL_CTX_set_verify(x,
                       c->tls_client_auth == CLIENT_AUTH_REQUIRED
                           ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT
                           : SSL_VERIFY_PEER,
                       NULL);
    return ERR_OK;
}

static enum err load(SSL_CTX *x, const struct config *c, struct error *e)
{
    static const unsigned char context[] = "twinbloom"; /* sessions of clients with certificates need one */
    SSL_CTX_set_default_passwd_cb(x, no_password);
    SSL_CTX_set_options(x, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_NO_COMPRESSION |
                               SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_mode(x, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                            SSL_MODE_RELEASE_BUFFERS);
    if (SSL_CTX_set_min_proto_version(x, TLS1_2_VERSION) != 1 ||
        SSL_CTX_set_session_id_context(x, context, sizeof(context) - 1) != 1)
        return error_set(e, ERR_NOMEM, "out of memory");
    if (SSL_CTX_use_certificate_chain_file(x, c->tls_cert) != 1)
        return refuse("tls_cert", c->tls_cert, e);
    if (SSL_CTX_use_PrivateKey_file(x, c->tls_key, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(x) != 1)
        return refuse("tls_key", c->tls_key, e);
    return load_clients(x, c, e);
}

enum err tls_load(SSL_CTX **out, const struct config *c, struct error *e)
{
    *out = NULL;
    if (c->tls_cert[0] == '\0')
        return ERR_OK;
    ERR_clear_error();
    SSL_CTX *x = SSL_CTX_new(TLS_server_method());
    if (x == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    enum err code = load(x, c, e);
    if (code != ERR_OK) {
        SSL_CTX_free(x);
        return code;
    }
    *out = x;
    return ERR_OK;
}

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
    SSL_CTX_free(old); /* connections count for themselves */
}

/* --- connections --- */

SSL *tls_session(struct tls *t)
{
    (void)pthread_mutex_lock(&t->lock);
    SSL *ssl = t->context != NULL ? SSL_new(t->context) : NULL;
    (void)pthread_mutex_unlock(&t->lock);
    return ssl;
}

struct bufferevent *tls_bufferevent(struct tls *t, struct event_base *base, int fd)
{
    SSL *ssl = tls_session(t);
    if (ssl == NULL)
        return NULL;
    struct bufferevent *io =
        bufferevent_openssl_socket_new(base, fd, ssl, BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE);
    if (io == NULL)
        SSL_free(ssl);
    return io;
}

bool tls_client_name(struct bufferevent *io, char *out, size_t size)
{
    SSL *ssl = bufferevent_openssl_get_ssl(io);
    X509 *certificate =
        ssl != NULL && SSL_get_verify_result(ssl) == X509_V_OK ? SSL_get1_peer_certificate(ssl) : NULL;
    if (certificate == NULL)
        return false;
    X509_NAME *subject = X509_get_subject_name(certificate);
    int length = X509_NAME_get_text_by_NID(subject, NID_commonName, NULL, 0);
    bool fits = length > 0 && (size_t)length < size &&
                X509_NAME_get_text_by_NID(subject, NID_commonName, out, (int)size) == length &&
                strlen(out) == (size_t)length;
    X509_free(certificate);
    return fits;
}

void tls_farewell(struct bufferevent *io)
{
    SSL *ssl = bufferevent_openssl_get_ssl(io);
    if (ssl == NULL || SSL_in_init(ssl))
        return;
    SSL_set_shutdown(ssl, SSL_RECEIVED_SHUTDOWN | SSL_get_shutdown(ssl));
    (void)SSL_shutdown(ssl); /* as far as the socket takes it */
    ERR_clear_error();
}
