/* SPDX-License-Identifier: MIT */
#include "service/core/reload.h"

#include <string.h>
#include "base/log.h"
#include "service/core/login.h"
#include "service/core/tls.h"

/* Tell the threads that do not look for a new configuration by themselves. */
static void announce(struct service *s)
{
    s->on_config(s->on_arg);
    login_forget(s->login);
    service_wake_controller(s);
}

/* Replace the configuration in force by @next. *@changed gets the names of the keys that differ. */
static enum err put_in_force(struct service *s, const struct config *next, struct buffer *changed,
                             struct error *e)
{
    enum err code = ERR_OK;
    bool done = false;
    while (code == ERR_OK && !done) { /* repeats only if another thread has changed something meanwhile */
        const struct config *old = live_config_acquire(s->config);
        struct buffer fixed = {0};
        buffer_clear(changed);
        config_differences(old, next, false, &fixed);
        config_differences(old, next, true, changed);
        if (fixed.length > 0)
            code = error_set(e, ERR_CONFLICT, "%s: %s cannot change in a running daemon; restart it",
                             s->config_path, buffer_text(&fixed));
        else
            done = live_config_replace(s->config, old, next);
        buffer_fini(&fixed);
        config_release(old);
    }
    return code;
}

/* Use these certificates for new connections. */
static void use_certificates(struct service *s, const struct config *c, const struct tls_contexts *x)
{
    tls_replace(s->tls, x->clients);
    tls_replace(s->nodes.tls, x->redis);
    tls_warn(c);
}

void reload_file(struct service *s)
{
    struct error e = {.text = ""};
    struct buffer changed = {0};
    struct config *next = NULL;
    struct tls_contexts certificates = {0};
    (void)pthread_mutex_lock(&s->reloading);
    enum err code = config_read(&next, s->config_path, &e);
    if (code == ERR_OK)
        /* Also if the paths are unchanged: the files may have changed. */
        code = tls_load(&certificates, next, &e);
    if (code == ERR_OK)
        code = put_in_force(s, next, &changed, &e);
    if (code == ERR_OK)
        use_certificates(s, next, &certificates);
    else
        tls_unload(&certificates);
    (void)pthread_mutex_unlock(&s->reloading);
    if (code != ERR_OK) {
        log_error("config_reload_failed", "code=%s error=%s note=\"nothing changed\"", error_name(code),
                  log_quote(e.text));
    } else {
        announce(s);
        log_info("config_reloaded", "file=%s filters=%zu changed=%s", log_quote(s->config_path),
                 next->filter_count, log_quote(buffer_text(&changed)));
    }
    config_release(next);
    buffer_fini(&changed);
}

enum err reload_set(struct service *s, const struct config_assignment *list, size_t count, const char *by,
                    size_t *blamed, struct error *e)
{
    enum err code = ERR_OK;
    bool done = false;
    (void)pthread_mutex_lock(&s->reloading);
    while (code == ERR_OK && !done) {
        const struct config *old = live_config_acquire(s->config);
        struct config *next = NULL;
        struct tls_contexts certificates = {0};
        struct buffer changed = {0};
        code = config_assign(&next, old, list, count, blamed, e);
        if (code == ERR_OK)
            config_differences(old, next, true, &changed);
        bool of_tls = strstr(buffer_text(&changed), "tls_") != NULL;
        if (code == ERR_OK && of_tls)
            code = tls_load(&certificates, next, e);
        done = code == ERR_OK && live_config_replace(s->config, old, next);
        if (done && of_tls)
            use_certificates(s, next, &certificates);
        else
            tls_unload(&certificates);
        if (done)
            log_info("config_set", "by=%s changed=%s", by, log_quote(buffer_text(&changed)));
        buffer_fini(&changed);
        config_release(next);
        config_release(old);
    }
    (void)pthread_mutex_unlock(&s->reloading);
    if (code == ERR_OK)
        announce(s);
    return code;
}
