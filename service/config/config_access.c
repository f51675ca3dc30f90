/* SPDX-License-Identifier: MIT */
/* Who may connect, and who may log in: nothing is open by mistake. */
#include "service/config/config_check.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

#include "service/config/users.h"

/* Names are not looked up: what one means may change. */
static bool is_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (strcasecmp(host, "localhost") == 0)
        return true;
    if (inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

static enum err check_address(const struct config_check *c, const char *key, const char *address)
{
    char host[256];
    uint16_t port;
    struct error why;
    if (config_split_address(address, host, sizeof(host), &port, &why) != ERR_OK)
        return config_refuse_key(c, CONFIG_SERVICE, NULL, key, "'%s': %.400s", key, why.text);
    if (is_loopback(host) || c->config->insecure || users_login_required(c->config))
        return ERR_OK;
    return config_refuse_key(c, CONFIG_SERVICE, NULL, key,
                             "'%s' = %.100s is open to other machines without a login; set a 'password', add "
                             "a [user NAME], listen "
                             "on 127.0.0.1, or set insecure = yes",
                             key, address);
}

static enum err check_addresses(const struct config_check *c, const char *key, const char *list)
{
    const char *at = *list != '\0' ? list : NULL, *item;
    char address[300];
    size_t length;
    enum err err = ERR_OK;
    while (err == ERR_OK && config_next_item(&at, &item, &length)) {
        (void)snprintf(address, sizeof(address), "%.*s", (int)length, item);
        err = check_address(c, key, address);
    }
    return err;
}

static enum err check_listeners(const struct config_check *c)
{
    const struct config *config = c->config;
    struct sockaddr_un un;
    enum err err = check_addresses(c, "listen", config->listen);
    if (err == ERR_OK)
        err = check_addresses(c, "listen_tls", config->listen_tls);
    if (err == ERR_OK && *config->http != '\0')
        err = check_address(c, "http", config->http);
    if (err != ERR_OK)
        return err;
    if (*config->listen == '\0' && *config->listen_tls == '\0' && *config->unix_socket == '\0')
        return config_refuse_key(c, CONFIG_SERVICE, NULL, "listen",
                                 "there is no address to listen on; set listen, listen_tls or unix_socket");
    if (strlen(config->unix_socket) >= sizeof(un.sun_path))
        return config_refuse_key(
            c, CONFIG_SERVICE, NULL, "unix_socket",
            "'unix_socket': a socket's path has at most 107 bytes; choose a shorter one");
    return ERR_OK;
}

static enum err check_tls(const struct config_check *c)
{
    const struct config *config = c->config;
    const char *key = NULL, *what = NULL;
    if (*config->listen_tls != '\0' && *config->tls_cert == '\0') {
        key = "listen_tls";
        what = "'listen_tls' needs a certificate; add tls_cert = FILE and tls_key = FILE";
    } else if (config->http_tls && *config->tls_cert == '\0') {
        key = "http_tls";
        what = "'http_tls' needs a certificate; add tls_cert = FILE and tls_key = FILE";
    } else if ((*config->tls_cert == '\0') != (*config->tls_key == '\0')) {
        key = *config->tls_cert == '\0' ? "tls_key" : "tls_cert";
        what = "'tls_cert' and 'tls_key' belong together; give both or none";
    } else if (config->tls_client_auth != CLIENT_AUTH_NO && *config->tls_ca == '\0') {
        key = "tls_client_auth";
        what = "'tls_client_auth' needs authorities to trust; add tls_ca = FILE";
    } else if (config->tls_client_user && config->tls_client_auth == CLIENT_AUTH_NO) {
        key = "tls_client_user";
        what = "'tls_client_user' needs certificates of clients; add tls_client_auth = optional or required";
    }
    return key == NULL ? ERR_OK : config_refuse_key(c, CONFIG_SERVICE, NULL, key, "%s", what);
}

static enum err check_user(const struct config_check *c, const struct config_user *u)
{
    const char *fault = users_name_fault(u->name);
    if (fault != NULL)
        return config_refuse_key(c, CONFIG_USER, u->name, "", "%s", fault);
    if (*u->password != '\0' && !users_is_hash(u->password))
        return config_refuse_key(c, CONFIG_USER, u->name, "password",
                                 "'password' of a user must be a hash, not the password itself; make one "
                                 "with twinbloom hash-password");
    fault = *u->token != '\0' ? users_token_fault(u->token) : NULL;
    if (fault != NULL)
        return config_refuse_key(c, CONFIG_USER, u->name, "token", "%s", fault);
    if (*u->password == '\0' && *u->token == '\0' && !c->config->tls_client_user)
        return config_refuse_key(
            c, CONFIG_USER, u->name, "password",
            "this user cannot log in; set 'password' or 'token' as printed by twinbloom hash-password");
    return ERR_OK;
}

enum err config_check_access(const struct config_check *c)
{
    enum err err = check_listeners(c);
    if (err == ERR_OK)
        err = check_tls(c);
    if (err == ERR_OK && strlen(c->config->password) > USERS_PASSWORD_MAX)
        err = config_refuse_key(c, CONFIG_SERVICE, NULL, "password",
                                "'password' has more than %d bytes, so nobody could log in with it; choose "
                                "another one",
                                USERS_PASSWORD_MAX);
    for (size_t i = 0; i < c->config->user_count && err == ERR_OK; i++)
        err = check_user(c, &c->config->user[i]);
    return err;
}
