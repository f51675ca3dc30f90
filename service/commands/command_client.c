/* SPDX-License-Identifier: MIT */
/* The subcommands of CLIENT. */
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "service/resp/client_list.h"
#include "service/commands/command.h"

/* Copy the text to @out, which has @size bytes, or send the error. */
static bool set_text(struct client *c, const char *what, char *out, size_t size, const struct argument *a)
{
    /* Only printable ASCII is allowed: the lines of CLIENT LIST separate names by blanks and equals signs. */
    for (size_t i = 0; i < a->length; i++)
        if (a->bytes[i] < '!' || a->bytes[i] > '~') {
            client_error(c, "ERR %s cannot contain spaces, newlines or special characters.", what);
            return false;
        }
    if (a->length >= size) {
        client_error(c, "ERR %s cannot be longer than %zu bytes.", what, size - 1);
        return false;
    }
    memcpy(out, a->bytes, a->length);
    out[a->length] = '\0';
    return true;
}

bool command_read_name(struct client *c, char *out, size_t size, const struct argument *name)
{
    return set_text(c, "Client names", out, size, name);
}

void command_client_setname(struct client *c, const struct argument *a, size_t count UNUSED)
{
    if (command_read_name(c, c->name, sizeof(c->name), &a[2]))
        command_ok(c);
}

void command_client_getname(struct client *c, const struct argument *a UNUSED, size_t count UNUSED)
{
    struct reply r = client_reply_begin(c);
    if (c->name[0] == '\0')
        reply_null(&r);
    else
        reply_text(&r, c->name);
    client_reply_end(c);
}

void command_client_setinfo(struct client *c, const struct argument *a, size_t count UNUSED)
{
    bool done = false;
    if (argument_is(&a[2], "LIB-NAME"))
        done = set_text(c, "lib-name", c->library, sizeof(c->library), &a[3]);
    else if (argument_is(&a[2], "LIB-VER"))
        done = set_text(c, "lib-ver", c->library_version, sizeof(c->library_version), &a[3]);
    else
        client_error(c, "ERR Unrecognized option '%.*s'", command_shown(a[2].length), a[2].bytes);
    if (done)
        command_ok(c);
}

void command_client_id(struct client *c, const struct argument *a UNUSED, size_t count UNUSED)
{
    struct reply r = client_reply_begin(c);
    reply_integer(&r, (int64_t)c->id);
    client_reply_end(c);
}

void command_client_info(struct client *c, const struct argument *a UNUSED, size_t count UNUSED)
{
    SCOPED(buffer_fini) struct buffer line = {0};
    client_list_line(&line, c);
    struct reply r = client_reply_begin(c);
    if (buffer_failed(&line))
        reply_error(&r, "OOM out of memory");
    else
        reply_verbatim(&r, line.data, line.length);
    client_reply_end(c);
}

/* There is no eviction here, and keys have no age, so both settings already apply. */
void command_client_on_off(struct client *c, const struct argument *a, size_t count UNUSED)
{
    if (argument_is(&a[2], "ON") || argument_is(&a[2], "OFF"))
        command_ok(c);
    else
        client_error(c, "ERR syntax error");
}

void command_client_reply(struct client *c, const struct argument *a, size_t count UNUSED)
{
    if (argument_is(&a[2], "ON"))
        command_ok(c);
    else if (argument_is(&a[2], "OFF") || argument_is(&a[2], "SKIP"))
        client_error(c, "ERR CLIENT REPLY OFF and SKIP are not offered: every command is answered");
    else
        client_error(c, "ERR syntax error");
}

/* There are no invalidations here, so a client that caches would keep "absent" after the key was added.
 * Libraries that ask for tracking while they connect try again after any error, so the error says what to
 * turn off. */
void command_client_tracking(struct client *c, const struct argument *a, size_t count UNUSED)
{
    if (argument_is(&a[2], "OFF"))
        command_ok(c);
    else if (argument_is(&a[2], "ON"))
        client_error(c,
                     "ERR CLIENT TRACKING is not supported: no invalidations are sent; turn off the client's "
                     "cache (node-redis: clientSideCache and emitInvalidate; GLIDE: serverAssisted)");
    else
        client_error(c, "ERR syntax error");
}

/* --- LIST and KILL --- */

/* The only client type here is "normal". */
static bool choose_type(struct client *c, struct client_choice *out, const struct argument *type)
{
    bool normal = argument_is(type, "NORMAL");
    out->nobody |= !normal; /* another filter may have chosen nobody already */
    if (normal || argument_is(type, "MASTER") || argument_is(type, "REPLICA") || argument_is(type, "SLAVE") ||
        argument_is(type, "PUBSUB"))
        return true;
    client_error(c, "ERR Unknown client type '%.*s'", command_shown(type->length), type->bytes);
    return false;
}

static bool choose_ids(struct client *c, struct client_choice *out, const struct argument *ids, size_t count,
                       const char *error)
{
    free(out->ids);
    out->ids = calloc(count, sizeof(*out->ids));
    out->id_count = count;
    if (out->ids == NULL) {
        client_error(c, "OOM out of memory");
        return false;
    }
    for (size_t i = 0; i < count; i++)
        if (!number_u64(ids[i].bytes, ids[i].length, &out->ids[i]) || out->ids[i] == 0) {
            client_error(c, "%s", error);
            return false;
        }
    return true;
}

void command_client_list(struct client *c, const struct argument *a, size_t count)
{
    struct client_choice choice = {0};
    bool good = true;
    if (count == 4 && argument_is(&a[2], "TYPE")) {
        good = choose_type(c, &choice, &a[3]);
    } else if (count > 3 && argument_is(&a[2], "ID")) {
        good = choose_ids(c, &choice, a + 3, count - 3, "ERR Invalid client ID");
    } else if (count > 2) {
        client_error(c, "ERR syntax error");
        good = false;
    }
    if (good)
        client_list_start(c, CLIENT_LIST, &choice);
    else
        free(choice.ids);
}

/* Copy an address or a name to choose by. An impossible one matches no client. */
static void choose_text(struct client_choice *choice, char *out, size_t size, const struct argument *a)
{
    if (a->length == 0 || a->length >= size) {
        choice->nobody = true;
        return;
    }
    memcpy(out, a->bytes, a->length);
    out[a->length] = '\0';
}

/* Read one filter of KILL with its value. False: the error was sent. */
static bool choose(struct client *c, struct client_choice *out, const struct argument *word,
                   const struct argument *value)
{
    if (argument_is(word, "ID"))
        return choose_ids(c, out, value, 1, "ERR client-id should be greater than 0");
    if (argument_is(word, "TYPE"))
        return choose_type(c, out, value);
    if (argument_is(word, "SKIPME") && (argument_is(value, "YES") || argument_is(value, "NO"))) {
        out->not_self = argument_is(value, "YES");
    } else if (argument_is(word, "ADDR")) {
        choose_text(out, out->address, sizeof(out->address), value);
    } else if (argument_is(word, "LADDR")) {
        choose_text(out, out->local, sizeof(out->local), value);
    } else if (argument_is(word, "USER")) {
        choose_text(out, out->user, sizeof(out->user), value);
    } else if (!argument_is(word, "MAXAGE") || !number_u64(value->bytes, value->length, &out->age_s)) {
        client_error(c, "ERR syntax error");
        return false;
    }
    return true;
}

void command_client_kill(struct client *c, const struct argument *a, size_t count)
{
    struct client_choice choice = {0};
    if (count == 3) { /* the old form: only an address, which may be the client's own */
        choose_text(&choice, choice.address, sizeof(choice.address), &a[2]);
        client_list_start(c, CLIENT_KILL_ONE, &choice);
        return;
    }
    choice.not_self = true;
    for (size_t i = 2; i < count; i += 2) {
        if (i + 1 == count)
            client_error(c, "ERR syntax error");
        if (i + 1 == count || !choose(c, &choice, &a[i], &a[i + 1])) {
            free(choice.ids);
            return;
        }
    }
    client_list_start(c, CLIENT_KILL, &choice);
}
