/* SPDX-License-Identifier: MIT */
#include "service/daemon/state_file.h"

#include <signal.h>
#include "base/clock.h"
#include "base/log.h"

enum { AGAIN_US = 100 * 1000, SAY_AFTER_US = 2 * 1000 * 1000, WAIT_US = 40 * 1000 * 1000 };

/* The signals are held until the service is ready. */
static bool is_told_to_stop(void)
{
    sigset_t set;
    return sigpending(&set) == 0 && (sigismember(&set, SIGTERM) == 1 || sigismember(&set, SIGINT) == 1);
}

static bool may_pass(enum err code)
{
    return code != ERR_OK && code != ERR_CONFIG && code != ERR_NOMEM;
}

static enum err look(struct clean_stop *stop, struct sync_client *l, struct error *e)
{
    uint64_t begun = clock_mono_us(), waited = 0;
    bool said = false;
    enum err code = clean_stop_look(stop, l, e);
    for (; may_pass(code) && waited < WAIT_US && !is_told_to_stop(); code = clean_stop_look(stop, l, e)) {
        if (!said && waited >= SAY_AFTER_US) {
            log_warn("clean_stop_waits",
                     "code=%s error=%s note=\"nothing is served before; waiting for %d s\"", error_name(code),
                     log_quote(e->text), WAIT_US / 1000000);
            said = true;
        }
        clock_sleep_us(AGAIN_US);
        waited = clock_mono_us() - begun;
    }
    if (may_pass(code) && is_told_to_stop())
        return error_set(e, ERR_CANCELLED, "a signal said stop");
    return may_pass(code) && code != ERR_BUSY ? ERR_OK : code; /* nodes that do not answer are left out */
}

enum err state_file_begin(struct clean_stop **out, const struct service *s, const struct config *config,
                          struct error *e)
{
    *out = NULL;
    struct sync_client *l = sync_client_new(&s->nodes, s->redis_timeout_ms, "twinbloom-start");
    if (l == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    if (config->state_file[0] == '\0') {
        if (s->nodes.cluster == NULL)
            clean_stop_unmark(l, s->prefix);
        sync_client_free(l);
        return ERR_OK;
    }
    enum err code = clean_stop_open(out, config->state_file, s->prefix, e);
    if (code == ERR_OK)
        code = look(*out, l, e);
    if (code == ERR_OK)
        code = clean_stop_begin(*out, l, e);
    sync_client_free(l);
    if (code != ERR_OK) {
        clean_stop_free(*out);
        *out = NULL;
    }
    return code;
}

void state_file_end(struct clean_stop *stop, const struct service *s)
{
    struct error e;
    if (stop == NULL)
        return;
    struct sync_client *l = sync_client_new(&s->nodes, s->redis_timeout_ms, "twinbloom-stop");
    enum err code =
        l != NULL ? clean_stop_end(stop, l, s->owner, &e) : error_set(&e, ERR_NOMEM, "out of memory");
    if (code == ERR_OK)
        log_info("clean_stop_noted", "note=\"Redis may be restarted before the next start\"");
    else if (code != ERR_BUSY) /* it is for another one to note it */
        log_warn("clean_stop_not_noted", "code=%s error=%s", error_name(code), log_quote(e.text));
    sync_client_free(l);
    clean_stop_free(stop);
}
