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
    mailbox_wake(s->controller);
}

/* Use @next instead of @old, which is in force: nobody but the holder of s->reloading replaces it. The files
 * of a file's certificates are read even if their paths are unchanged: they may have changed. *@changed gets
 * the names of the keys that differ. */
static enum err put_in_force(struct service *s, const struct config *old, const struct config *next,
                             bool is_file, struct buffer *changed, struct error *e)
{
    enum err code = ERR_OK;
    SCOPED(buffer_fini) struct buffer fixed = {0};
    struct tls_contexts certificates = {0};
    config_differences(old, next, false, &fixed);
    config_differences(old, next, true, changed);
    bool of_tls = is_file || strstr(buffer_text(changed), "tls_") != NULL;
    if (of_tls)
        code = tls_load(&certificates, next, e);
    if (code == ERR_OK && fixed.length > 0)
        code = error_set(e, ERR_CONFLICT, "%s: %s cannot change in a running daemon; restart it",
                         s->config_path, buffer_text(&fixed));
    if (code == ERR_OK && live_config_replace(s->config, old, next) && of_tls) {
        tls_replace(s->tls, certificates.clients); /* for new connections */
        tls_replace(s->nodes.tls, certificates.redis);
        tls_warn(next);
    } else {
        tls_unload(&certificates);
    }
    return code;
}

void reload_file(struct service *s)
{
    struct error e = {.text = ""};
    SCOPED(buffer_fini) struct buffer changed = {0};
    struct config *next = NULL;
    (void)pthread_mutex_lock(&s->reloading);
    const struct config *old = live_config_acquire(s->config);
    enum err code = config_read(&next, s->config_path, &e);
    if (code == ERR_OK)
        code = put_in_force(s, old, next, true, &changed, &e);
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
    config_release(old);
}

enum err reload_set(struct service *s, const struct config_assignment *list, size_t count, const char *by,
                    size_t *blamed, struct error *e)
{
    struct config *next = NULL;
    SCOPED(buffer_fini) struct buffer changed = {0};
    (void)pthread_mutex_lock(&s->reloading);
    const struct config *old = live_config_acquire(s->config);
    enum err code = config_assign(&next, old, list, count, blamed, e);
    if (code == ERR_OK)
        code = put_in_force(s, old, next, false, &changed, e);
    if (code == ERR_OK)
        log_info("config_set", "by=%s changed=%s", by, log_quote(buffer_text(&changed)));
    (void)pthread_mutex_unlock(&s->reloading);
    if (code == ERR_OK)
        announce(s);
    config_release(next);
    config_release(old);
    return code;
}
