/* SPDX-License-Identifier: MIT */
#include "shard/redis/wire/node_tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

static bool is_address(const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;
}

static bool expect(X509_VERIFY_PARAM *param, const char *host)
{
    return is_address(host) ? X509_VERIFY_PARAM_set1_ip_asc(param, host) == 1
                            : X509_VERIFY_PARAM_set1_host(param, host, 0) == 1;
}

static enum err load_authorities(SSL_CTX *x, const struct node_tls_options *o, struct error *e)
{
    if (o->ca_file[0] != '\0' && SSL_CTX_load_verify_file(x, o->ca_file) != 1)
        return tls_context_refuse("tls_ca_file", o->ca_file, e);
    if (o->ca_dir[0] != '\0' && access(o->ca_dir, R_OK | X_OK) != 0) /* OpenSSL looks at the directory only
                                                                      * when it needs a certificate */
        return error_set(e, ERR_CONFIG, "tls_ca_dir = %s: %s; give a directory that can be read", o->ca_dir,
                         strerror(errno));
    if (o->ca_dir[0] != '\0' && SSL_CTX_load_verify_dir(x, o->ca_dir) != 1)
        return tls_context_refuse("tls_ca_dir", o->ca_dir, e);
    if (o->ca_file[0] == '\0' && o->ca_dir[0] == '\0' && SSL_CTX_set_default_verify_paths(x) != 1)
        return error_set(e, ERR_CONFIG,
                         "the system's certificate authorities cannot be read; give tls_ca_file");
    return ERR_OK;
}

static enum err load(SSL_CTX *x, const struct node_tls_options *o, struct error *e)
{
    enum err code = load_authorities(x, o, e);
    if (code == ERR_OK && o->cert_file[0] != '\0')
        code = tls_context_identify(x, "tls_cert_file", o->cert_file, "tls_key_file", o->key_file, e);
    if (code != ERR_OK)
        return code;
    SSL_CTX_set_verify(x, o->verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
    if (o->server_name[0] != '\0' && !expect(SSL_CTX_get0_param(x), o->server_name))
        return error_set(e, ERR_CONFIG, "tls_server_name = %s: not usable; give a host name or an IP address",
                         o->server_name);
    return ERR_OK;
}

enum err node_tls_load(SSL_CTX **out, const struct node_tls_options *o, struct error *e)
{
    *out = NULL;
    SSL_CTX *x = tls_context_new(TLS_client_method());
    if (x == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    enum err code = load(x, o, e);
    ERR_clear_error();
    if (code == ERR_OK)
        *out = x;
    else
        SSL_CTX_free(x);
    return code;
}

/* Set the server's name: the one of the configuration, which the context has, or else the host. */
static bool name_server(SSL *ssl, const struct node *n)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
    const char *name = X509_VERIFY_PARAM_get0_host(param, 0);
    char *address = X509_VERIFY_PARAM_get1_ip_asc(param);
    bool named = name != NULL || address != NULL;
    OPENSSL_free(address);
    if (!named && !expect(param, n->host))
        return false;
    if (!named && !is_address(n->host))
        name = n->host;
    return name == NULL || SSL_set_tlsext_host_name(ssl, name) == 1;
}

SSL *node_tls_session(struct tls *t, const struct node *n, int fd)
{
    SSL *ssl = t != NULL ? tls_session(t) : NULL;
    if (ssl == NULL)
        return NULL;
    if (SSL_set_fd(ssl, fd) != 1 || !name_server(ssl, n)) {
        SSL_free(ssl);
        ERR_clear_error();
        return NULL;
    }
    SSL_set_connect_state(ssl);
    return ssl;
}

enum node_tls_want node_tls_judge(SSL *ssl, int result, struct error *e)
{
    int saved = errno;
    long verdict = SSL_get_verify_result(ssl);
    bool rejected = verdict != X509_V_OK && (SSL_get_verify_mode(ssl) & SSL_VERIFY_PEER) != 0;
    switch (SSL_get_error(ssl, result)) {
    case SSL_ERROR_WANT_READ:
        return NODE_TLS_READ;
    case SSL_ERROR_WANT_WRITE:
        return NODE_TLS_WRITE;
    case SSL_ERROR_ZERO_RETURN:
        return NODE_TLS_END;
    default:
        break;
    }
    const char *why = tls_context_reason();
    if (rejected)
        (void)error_set(e, ERR_UNREACHABLE, "TLS: its certificate is not accepted: %s",
                        X509_verify_cert_error_string(verdict));
    else if (why == NULL && saved == 0)
        return NODE_TLS_END;
    else
        (void)error_set(e, ERR_UNREACHABLE, "TLS: %s", why != NULL ? why : strerror(saved));
    return NODE_TLS_FAULT;
}
