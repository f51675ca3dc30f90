/* SPDX-License-Identifier: MIT */
#include "shard/members/clean_stop.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/number.h"
#include "base/random.h"
#include "shard/members/members.h"
#include "shard/view/log_view.h"

enum {
    MARK_MAX = 33,
    FILE_BYTES_MAX = 4 * 1024 * 1024,
    ID_DIGITS = REPLICATION_ID_DIGITS,
    AGAIN_US = 200 * 1000,
    SHARE_US = 10 * 1000 * 1000
};

/* A node of the file. */
struct stopped {
    char name[NODE_NAME_MAX];
    struct trusted ids;
    bool goes_on; /* the history of `ids` goes on in `now` */
    bool is_asked;
    struct replication now; /* its name is not set */
};

struct clean_stop {
    int file;
    bool is_locked, is_exclusive;
    char mark[MARK_MAX]; /* "": the file has none */
    unsigned count;
    struct stopped *node;
    char path[512];
    char prefix[PREFIX_MAX + 1];
};

/* --- the file --- */

static enum err fail(const struct clean_stop *s, const char *what, struct error *e)
{
    return error_set(e, ERR_CONFIG, "state_file %s cannot be %s: %s", s->path, what, strerror(errno));
}

/* Take a line "<word> <value>" from *@at. False: it is another one. */
static bool take(const char **at, const char *word, const char **value, size_t *length)
{
    size_t n = strlen(word), whole = strcspn(*at, "\n");
    if ((*at)[whole] != '\n' || whole <= n || strncmp(*at, word, n) != 0 || (*at)[n] != ' ')
        return false;
    *value = *at + n + 1;
    *length = whole - n - 1;
    *at += whole + 1;
    return true;
}

/* "<id> <run> <received>" */
static bool parse_now(struct replication *now, const char *text, size_t length)
{
    enum { RECEIVED = 2 * (ID_DIGITS + 1) };
    return length > RECEIVED && text[ID_DIGITS] == ' ' && text[RECEIVED - 1] == ' ' &&
           number_hex64(text, ID_DIGITS, &now->id) &&
           number_hex64(text + ID_DIGITS + 1, ID_DIGITS, &now->run) &&
           number_u64(text + RECEIVED, length - RECEIVED, &now->received);
}

/* A node of the file, added to @s. NULL: no memory. */
static struct stopped *add(struct clean_stop *s)
{
    struct stopped *more = realloc(s->node, (s->count + 1) * sizeof(*more));
    if (more == NULL)
        return NULL;
    s->node = more;
    s->node[s->count] = (struct stopped){.goes_on = false};
    return &s->node[s->count++];
}

static bool parse_node(struct clean_stop *s, const char **at)
{
    const char *value;
    size_t length;
    if (!take(at, "node", &value, &length) || length >= NODE_NAME_MAX)
        return false;
    struct stopped *n = add(s);
    if (n == NULL)
        return false;
    memcpy(n->name, value, length);
    if (!take(at, "ids", &value, &length) || !trusted_parse(&n->ids, value, length))
        return false;
    n->goes_on = take(at, "now", &value, &length);
    return !n->goes_on || (s->mark[0] == '\0' && parse_now(&n->now, value, length));
}

/* False: the file was not written to its end, or by another version. */
static bool parse(struct clean_stop *s, const char *at)
{
    const char *value;
    size_t length;
    if (!take(&at, "twinbloom", &value, &length) || length != 7 || memcmp(value, "state 1", 7) != 0 ||
        !take(&at, "prefix", &value, &length))
        return false;
    if (take(&at, "mark", &value, &length)) {
        if (length != MARK_MAX - 1)
            return false;
        memcpy(s->mark, value, length);
    }
    while (strcmp(at, "end\n") != 0)
        if (!parse_node(s, &at))
            return false;
    return true;
}

/* True if the file's second line names another prefix. */
static bool is_of_another(const struct clean_stop *s, const char *text)
{
    const char *value, *at = strchr(text, '\n');
    size_t length;
    if (at == NULL)
        return false;
    at++;
    return take(&at, "prefix", &value, &length) &&
           (length != strlen(s->prefix) || memcmp(value, s->prefix, length) != 0);
}

static void forget(struct clean_stop *s)
{
    s->count = 0;
    s->mark[0] = '\0';
}

static enum err read_file(struct clean_stop *s, struct error *e)
{
    struct stat st;
    SCOPED(buffer_fini) struct buffer text = {0};
    if (fstat(s->file, &st) != 0)
        return fail(s, "read", e);
    size_t size = st.st_size < FILE_BYTES_MAX ? (size_t)st.st_size : FILE_BYTES_MAX;
    char *to = buffer_reserve(&text, size + 1);
    if (to == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    ssize_t got = pread(s->file, to, size, 0);
    if (got < 0)
        return fail(s, "read", e);
    text.length = (size_t)got;
    if (is_of_another(s, buffer_text(&text)))
        return error_set(e, ERR_CONFIG, "state_file %s is that of another prefix", s->path);
    if (text.length > 0 && !parse(s, buffer_text(&text))) {
        log_warn("clean_stop_ignored", "error=\"state_file is damaged, or another version's\"");
        forget(s);
    }
    return ERR_OK;
}

static enum err write_file(const struct clean_stop *s, struct error *e)
{
    SCOPED(buffer_fini) struct buffer text = {0};
    buffer_printf(&text, "twinbloom state 1\nprefix %s\n", s->prefix);
    if (s->mark[0] != '\0')
        buffer_printf(&text, "mark %s\n", s->mark);
    for (unsigned i = 0; i < s->count; i++) {
        const struct stopped *n = &s->node[i];
        buffer_printf(&text, "node %s\nids ", n->name);
        log_eras_text(&n->ids, &text);
        buffer_puts(&text, "\n");
        if (n->goes_on)
            buffer_printf(&text, "now %016" PRIx64 " %016" PRIx64 " %" PRIu64 "\n", n->now.id, n->now.run,
                          n->now.received);
    }
    buffer_puts(&text, "end\n");
    if (buffer_failed(&text))
        return error_set(e, ERR_NOMEM, "out of memory");
    if (ftruncate(s->file, 0) != 0 || pwrite(s->file, text.data, text.length, 0) != (ssize_t)text.length ||
        fsync(s->file) != 0)
        return fail(s, "written", e);
    return ERR_OK;
}

enum err clean_stop_open(struct clean_stop **out, const char *path, const char *prefix, struct error *e)
{
    struct clean_stop *s = calloc(1, sizeof(*s));
    *out = s;
    if (s == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    (void)snprintf(s->path, sizeof(s->path), "%s", path);
    (void)snprintf(s->prefix, sizeof(s->prefix), "%s", prefix);
    s->file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    return s->file < 0 ? fail(s, "opened", e) : ERR_OK;
}

void clean_stop_free(struct clean_stop *s)
{
    if (s == NULL)
        return;
    if (s->file >= 0)
        (void)close(s->file); /* and with it the lock */
    free(s->node);
    free(s);
}

/* --- the start --- */

/* Lock and read the file. */
static enum err lock(struct clean_stop *s, struct error *e)
{
    s->is_exclusive = flock(s->file, LOCK_EX | LOCK_NB) == 0;
    if (!s->is_exclusive && flock(s->file, LOCK_SH | LOCK_NB) != 0)
        return errno == EWOULDBLOCK
                   ? error_set(e, ERR_BUSY, "another coordinator that has state_file starts or stops")
                   : fail(s, "locked", e);
    s->is_locked = true;
    forget(s);
    return read_file(s, e);
}

/* Compare the mark of @n, the node @where, which is @now. That is asked for before the mark: an id that comes
 * behind it may be that of older data. */
static enum err compare(struct clean_stop *s, struct sync_client *l, unsigned where, struct stopped *n,
                        const struct replication *now, struct error *e)
{
    SCOPED(scope_reply) redisReply *r = NULL;
    enum err code = sync_client_command(l, where, &r, e, "GET %s:clean_stop", s->prefix);
    if (code != ERR_OK)
        return code;
    n->is_asked = true;
    n->now = *now;
    n->goes_on = r->type == REDIS_REPLY_STRING && strcmp(r->str, s->mark) == 0;
    return ERR_OK;
}

static struct stopped *of_name(const struct clean_stop *s, const char *name)
{
    for (unsigned i = 0; i < s->count; i++)
        if (strcmp(s->node[i].name, name) == 0)
            return &s->node[i];
    return NULL;
}

static enum err ask(struct clean_stop *s, struct sync_client *l, struct error *e)
{
    SCOPED(replications_fini) struct replications there = {0};
    enum err code = sync_client_replications(l, NULL, &there, e), first = code;
    for (unsigned i = 0; i < sync_client_nodes(l)->count && code == ERR_OK; i++) {
        struct stopped *n = of_name(s, sync_client_name(l, i));
        if (n == NULL || n->is_asked)
            continue;
        const struct replication *now = replications_of_node(&there, n->name);
        enum err one =
            now == NULL || now->id == 0
                ? error_set(e, ERR_UNREACHABLE, "Redis node %s does not answer, or is no master", n->name)
                : compare(s, l, i, n, now, e);
        first = first == ERR_OK ? one : first;
    }
    return first;
}

enum err clean_stop_look(struct clean_stop *s, struct sync_client *l, struct error *e)
{
    enum err code = s->is_locked ? ERR_OK : lock(s, e);
    return code == ERR_OK && s->mark[0] != '\0' ? ask(s, l, e) : code;
}

/* The lock is given up for a moment, in which another coordinator that starts may get it. It finds no mark,
 * so that it asks no node, and goes on at once. */
static enum err share(const struct clean_stop *s, struct error *e)
{
    const uint64_t until = clock_mono_us() + SHARE_US;
    while (flock(s->file, LOCK_SH | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK || clock_mono_us() > until)
            return fail(s, "locked", e);
        clock_sleep_us(AGAIN_US / 20);
    }
    return ERR_OK;
}

void clean_stop_unmark(struct sync_client *l, const char *prefix)
{
    struct error ignored;
    for (unsigned i = 0; i < sync_client_nodes(l)->count; i++)
        (void)!sync_client_command(l, i, NULL, &ignored, "DEL %s:clean_stop", prefix);
}

enum err clean_stop_begin(struct clean_stop *s, struct sync_client *l, struct error *e)
{
    bool was_clean = s->mark[0] != '\0';
    s->mark[0] = '\0';
    enum err code = s->is_exclusive && was_clean ? write_file(s, e) : ERR_OK;
    for (unsigned i = 0; i < s->count && was_clean && code == ERR_OK; i++)
        if (s->node[i].goes_on)
            log_info("clean_stop", "node=%s note=\"nothing was lost since all coordinators stopped\"",
                     s->node[i].name);
        else
            log_warn("clean_stop_ignored", "node=%s error=\"%s\"", s->node[i].name,
                     s->node[i].is_asked ? "it has older data, or is another server" : "it does not answer");
    if (code == ERR_OK)
        clean_stop_unmark(l, s->prefix);
    return code == ERR_OK && s->is_exclusive ? share(s, e) : code;
}

/* --- between --- */

static bool still_goes_on(const struct stopped *n, const struct replication *now)
{
    return n->goes_on && (n->now.id == now->id || replication_goes_on(&n->now, now));
}

bool clean_stop_goes_on(const struct clean_stop *s, uint64_t id, const struct replication *now)
{
    const struct stopped *n = s == NULL ? NULL : of_name(s, now->node);
    /* Without the metadata node's history a view may be older than the shards. */
    return n != NULL && s->node[NODE_HOME].goes_on && trusted_contains(&n->ids, id) && still_goes_on(n, now);
}

/* --- the end --- */

struct others {
    const char *id;
    bool any;
};

static void see(void *arg, const struct members_entry *entry)
{
    struct others *o = arg;
    o->any |= !entry->gone && strcmp(entry->id, o->id) != 0;
}

/* ERR_BUSY, ERR_CONFLICT: another coordinator serves. One that was killed counts as gone a moment later: that
 * is waited for. */
static enum err be_alone(struct clean_stop *s, struct sync_client *l, const char *id, struct error *e)
{
    const uint64_t until = clock_mono_us() + (MEMBERS_GONE_MS + 500) * 1000ull;
    struct others others = {.id = id};
    if (flock(s->file, LOCK_EX | LOCK_NB) != 0)
        return error_set(e, ERR_BUSY, "another coordinator that has state_file serves");
    enum err code = members_read(l, s->prefix, NULL, see, &others, e);
    while (code == ERR_OK && others.any && clock_mono_us() < until) {
        clock_sleep_us(AGAIN_US);
        others.any = false;
        code = members_read(l, s->prefix, NULL, see, &others, e);
    }
    return code == ERR_OK && others.any
               ? error_set(e, ERR_CONFLICT, "another coordinator serves, without state_file")
               : code;
}

static enum err set_marks(struct clean_stop *s, struct sync_client *l, struct error *e)
{
    enum err code = ERR_OK;
    (void)snprintf(s->mark, MARK_MAX, "%016" PRIx64 "%016" PRIx64, random_u64(), random_u64());
    for (unsigned i = 0; i < sync_client_nodes(l)->count && code == ERR_OK; i++)
        code = sync_client_command(l, i, NULL, e, "SET %s:clean_stop %s", s->prefix, s->mark);
    return code;
}

/* Note the ids of the nodes, which have the mark, in place of what the file has. */
static enum err note(struct clean_stop *s, struct sync_client *l, struct error *e)
{
    SCOPED(replications_fini) struct replications there = {0};
    struct clean_stop was = *s;
    enum err code = sync_client_replications(l, NULL, &there, e);
    s->node = NULL;
    s->count = 0;
    for (unsigned i = 0; i < sync_client_nodes(l)->count && code == ERR_OK; i++) {
        const char *name = sync_client_name(l, i);
        const struct replication *now = replications_of_node(&there, name);
        const struct stopped *before = of_name(&was, name);
        if (now == NULL) /* another database of a server that is there */
            continue;
        if (now->id == 0) {
            code = error_set(e, ERR_UNREACHABLE, "Redis node %s does not answer, or is no master", name);
            break;
        }
        struct stopped *n = add(s);
        if (n == NULL) {
            code = error_set(e, ERR_NOMEM, "out of memory");
            break;
        }
        (void)snprintf(n->name, sizeof(n->name), "%s", name);
        if (before != NULL && still_goes_on(before, now))
            n->ids = before->ids;
        if (!trusted_add(&n->ids, now->id)) { /* there are too many */
            n->ids.count = 1;
            n->ids.id[0] = now->id;
        }
    }
    free(was.node);
    return code == ERR_OK ? write_file(s, e) : code;
}

enum err clean_stop_end(struct clean_stop *s, struct sync_client *l, const char *id, struct error *e)
{
    enum err code = be_alone(s, l, id, e);
    if (code == ERR_OK)
        code = set_marks(s, l, e);
    return code == ERR_OK ? note(s, l, e) : code;
}
