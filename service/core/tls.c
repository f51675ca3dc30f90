/* SPDX-License-Identifier: MIT */
#include "service/core/tls.h"

#include <string.h>
#include <event2/bufferevent_ssl.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include "base/log.h"
#include "migrate/source/dsn.h"
#include "shard/redis/wire/node_tls.h"

enum { HANDSHAKE_MAX = SSL3_RT_MAX_PLAIN_LENGTH + 4096 }; /* bytes that a client sends */

/* --- certificates --- */

static enum err load_clients(SSL_CTX *x, const struct config *c, struct error *e)
{
    if (c->tls_client_auth == CLIENT_AUTH_NO)
        return ERR_OK;
    if (SSL_CTX_load_verify_locations(x, c->tls_ca, NULL) != 1)
        return tls_context_refuse("tls_ca", c->tls_ca, e);
    SSL_CTX_set_client_CA_list(x, SSL_load_client_CA_file(c->tls_ca));
    SSL_CTX_set_verify(x,
                       c->tls_client_auth == CLIENT_AUTH_REQUIRED
                           ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT
                           : SSL_VERIFY_PEER,
                       NULL);
    return ERR_OK;
}

/* OpenSSL takes as much memory as a ClientHello announces, up to 128 KiB, before its bytes have come, and
 * keeps it until the handshake has ended. So a handshake fails whose ClientHello does not end with its first
 * record, or that is large. All clients put it into one record, which is read whole before OpenSSL looks at
 * it. */
static void on_handshake(const SSL *ssl, int where, int result UNUSED)
{
    if (where == SSL_CB_ACCEPT_EXIT && SSL_in_init(ssl) &&
        (SSL_get_state(ssl) == TLS_ST_SR_CLNT_HELLO || BIO_number_read(SSL_get_rbio(ssl)) > HANDSHAKE_MAX))
        ERR_raise(ERR_LIB_SSL, SSL_R_EXCESSIVE_MESSAGE_SIZE); /* what libevent sees in place of "read more" */
}

static enum err load(SSL_CTX *x, const struct config *c, struct error *e)
{
    /* Sessions of clients with certificates need a context. */
    static const unsigned char context[] = "twinbloom";
    if (SSL_CTX_set_session_id_context(x, context, sizeof(context) - 1) != 1)
        return error_set(e, ERR_NOMEM, "out of memory");
    SSL_CTX_set_info_callback(x, on_handshake);
    SSL_CTX_set_max_cert_list(x, SSL3_RT_MAX_PLAIN_LENGTH);
    enum err code = tls_context_identify(x, "tls_cert", c->tls_cert, "tls_key", c->tls_key, e);
    return code == ERR_OK ? load_clients(x, c, e) : code;
}

static enum err load_own(SSL_CTX **out, const struct config *c, struct error *e)
{
    if (c->tls_cert[0] == '\0')
        return ERR_OK;
    SSL_CTX *x = tls_context_new(TLS_server_method());
    if (x == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    enum err code = load(x, c, e);
    if (code == ERR_OK)
        *out = x;
    else
        SSL_CTX_free(x);
    return code;
}

enum err tls_load(struct tls_contexts *out, const struct config *c, struct error *e)
{
    const struct node_tls_options redis = {.ca_file = c->redis_ca_file,
                                           .ca_dir = c->redis_ca_dir,
                                           .cert_file = c->redis_cert_file,
                                           .key_file = c->redis_key_file,
                                           .server_name = c->redis_server_name,
                                           .verify = c->redis_verify};
    struct nodes nodes, asked;
    *out = (struct tls_contexts){0};
    enum err code = load_own(&out->clients, c, e);
    if (code == ERR_OK && config_nodes(c, &nodes, &asked, NULL) == ERR_OK &&
        (nodes_use_tls(&nodes) || nodes_use_tls(&asked)))
        code = node_tls_load(&out->redis, &redis, e);
    if (code != ERR_OK)
        tls_unload(out);
    return code;
}

void tls_unload(struct tls_contexts *x)
{
    SSL_CTX_free(x->clients);
    SSL_CTX_free(x->redis);
    *x = (struct tls_contexts){0};
}

static void warn_of(const char *key, const char *dsn)
{
    if (dsn[0] != '\0' && !dsn_is_verified(dsn))
        log_warn(
            "postgres_tls_unverified",
            "key=%s note=\"the certificate of Postgres is not checked; whoever is in between can read and "
            "change "
            "everything, the password too: sslmode=verify-full, and sslrootcert where the CA is your own\"",
            key);
}

void tls_warn(const struct config *c)
{
    warn_of("dsn", c->dsn);
    warn_of("read_dsn", c->read_dsn);
    if (!c->redis_verify)
        log_warn("redis_tls_unverified",
                 "note=\"tls_verify = no: the certificates of Redis are not looked at; whoever is in "
                 "between can read and change everything, passwords too\"");
}

/* --- connections --- */

struct bufferevent *tls_bufferevent(struct tls *t, struct event_base *base, int fd)
{
    SSL *ssl = tls_session(t);
    if (ssl == NULL)
        return NULL;
    /* without memory it frees the session, too */
    return bufferevent_openssl_socket_new(base, fd, ssl, BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE);
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
    if (ssl == NULL)
        return;
    if (SSL_in_init(ssl)) {
        (void)SSL_clear(ssl); /* frees what the handshake holds now: libevent is late with the rest */
    } else {
        SSL_set_shutdown(ssl, SSL_RECEIVED_SHUTDOWN | SSL_get_shutdown(ssl));
        (void)SSL_shutdown(ssl); /* as far as the socket takes it */
    }
    ERR_clear_error();
}
