/* SPDX-License-Identifier: MIT */
/* Passwords from files, put where the configuration would have them. */
#include <errno.h>
#include <fcntl.h>
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "service/config/config_check.h"
#include "service/config/config_keys.h"

enum { SECRET_MAX = 1024 };

/* --- a file --- */

/* Bytes of the file, at most @size; -1: errno says why. */
static ssize_t read_bytes(const char *path, char *out, size_t size)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) == 0 && (st.st_mode & 077) != 0)
        log_warn("password_file_exposed",
                 "file=%s mode=%03o note=\"others than its owner may read or write it; chmod 600\"",
                 log_quote(path), (unsigned)st.st_mode & 0777);
    ssize_t n = read(fd, out, size);
    int saved = errno;
    (void)close(fd);
    errno = saved;
    return n;
}

/* What is wrong with the text of a file; NULL: nothing. Cuts the end of the line. */
static const char *take_line(char *text, ssize_t length)
{
    if (length > SECRET_MAX)
        return "holds more than 1024 bytes; write the password alone into it";
    text[length] = '\0';
    size_t n = strcspn(text, "\r\n");
    if (text[n + strspn(text + n, "\r\n")] != '\0' || strlen(text) != (size_t)length)
        return "holds more than one line; write the password alone into it";
    text[n] = '\0';
    return n == 0 ? "is empty; write the password into it" : NULL;
}

/* The password of @section's file into @out; ERR_CONFIG with the line of the key. */
static enum err read_secret(const struct config_check *c, enum config_section section, const char *path,
                            char out[SECRET_MAX + 2])
{
    ssize_t n = read_bytes(path, out, SECRET_MAX + 1);
    if (n < 0)
        return config_refuse_key(c, section, NULL, "password_file",
                                 "'password_file' %.300s cannot be read: %s; correct the path or the rights",
                                 path, strerror(errno));
    const char *fault = take_line(out, n);
    return fault == NULL ? ERR_OK
                         : config_refuse_key(c, section, NULL, "password_file", "'password_file' %.300s %s",
                                             path, fault);
}

/* --- URLs of Redis --- */

/* One node, from @at up to @end, with the password where it has none. */
static void put_node(struct buffer *out, const char *at, const char *end, const char *password)
{
    const char *scheme = memmem(at, (size_t)(end - at), "://", 3);
    const char *login = scheme != NULL ? scheme + 3 : at;
    const char *path = memchr(login, '/', (size_t)(end - login));
    const char *host = memrchr(login, '@', (size_t)((path != NULL ? path : end) - login));
    bool has = host != NULL && memchr(login, ':', (size_t)(host - login)) != NULL;
    if (has || memmem(at, (size_t)(end - at), "password=", 9) != NULL) {
        buffer_append(out, at, (size_t)(end - at));
        return;
    }
    if (scheme == NULL) /* the sentinels' name of a master */
        buffer_puts(out, "redis://");
    buffer_append(out, at, (size_t)((host != NULL ? host : login) - at));
    buffer_puts(out, ":");
    buffer_percent(out, password, strlen(password));
    buffer_puts(out, host != NULL ? "" : "@");
    const char *rest = host != NULL ? host : login;
    buffer_append(out, rest, (size_t)(end - rest));
}

static enum err set_text(char **to, struct buffer *text, struct error *e)
{
    char *copy = strdup(buffer_text(text));
    buffer_fini(text);
    if (copy == NULL)
        return error_set(e, ERR_NOMEM, "no memory for a password");
    free(*to);
    *to = copy;
    return ERR_OK;
}

static enum err into_nodes(char **list, const char *password, struct error *e)
{
    struct buffer out = {0};
    const char *at = *list, *item;
    for (size_t length; config_next_item(&at, &item, &length);) {
        if (length > 0)
            put_node(&out, item, item + length, password);
        buffer_puts(&out, at != NULL ? ", " : "");
    }
    return set_text(list, &out, e);
}

/* --- connection strings of Postgres --- */

static bool has_password(const char *dsn)
{
    PQconninfoOption *options = PQconninfoParse(dsn, NULL);
    bool has = options == NULL; /* connecting says what is wrong with it */
    for (const PQconninfoOption *o = options; o != NULL && o->keyword != NULL; o++)
        has |= strcmp(o->keyword, "password") == 0 && o->val != NULL;
    PQconninfoFree(options);
    return has;
}

static enum err into_dsn(char **dsn, const char *password, struct error *e)
{
    struct buffer out = {0};
    if (**dsn == '\0' || has_password(*dsn))
        return ERR_OK;
    buffer_puts(&out, *dsn);
    if (strncmp(*dsn, "postgresql://", 13) == 0 || strncmp(*dsn, "postgres://", 11) == 0) {
        buffer_printf(&out, "%cpassword=", strchr(*dsn, '?') != NULL ? '&' : '?');
        buffer_percent(&out, password, strlen(password));
    } else {
        buffer_puts(&out, " password='");
        for (const char *p = password; *p != '\0'; p++)
            buffer_printf(&out, "%s%c", *p == '\'' || *p == '\\' ? "\\" : "", *p);
        buffer_puts(&out, "'");
    }
    return set_text(dsn, &out, e);
}

/* --- all --- */

static enum err load_service(const struct config_check *c, struct config *config, char *secret)
{
    struct buffer text = {0};
    if (*config->password != '\0')
        return config_refuse_key(c, CONFIG_SERVICE, NULL, "password_file",
                                 "'password' and 'password_file' exclude each other; remove one of them");
    enum err err = read_secret(c, CONFIG_SERVICE, config->password_file, secret);
    if (err != ERR_OK)
        return err;
    buffer_puts(&text, secret);
    return set_text(&config->password, &text, c->error);
}

enum err config_load_secrets(const struct config_check *c, struct config *config)
{
    char secret[SECRET_MAX + 2] = "";
    enum err err = ERR_OK;
    if (*config->password_file != '\0')
        err = load_service(c, config, secret);
    if (err == ERR_OK && *config->redis_password_file != '\0') {
        bool others = *config->cluster != '\0' || *config->sentinel != '\0';
        char **const lists[] = {&config->nodes, &config->cluster, &config->master};
        err = read_secret(c, CONFIG_REDIS, config->redis_password_file, secret);
        for (size_t i = others; i < sizeof(lists) / sizeof(lists[0]) && err == ERR_OK; i++)
            err = into_nodes(lists[i], secret, c->error);
    }
    if (err == ERR_OK && *config->postgres_password_file != '\0') {
        err = read_secret(c, CONFIG_POSTGRES, config->postgres_password_file, secret);
        if (err == ERR_OK)
            err = into_dsn(&config->dsn, secret, c->error);
        if (err == ERR_OK)
            err = into_dsn(&config->read_dsn, secret, c->error);
    }
    explicit_bzero(secret, sizeof(secret));
    return err;
}
