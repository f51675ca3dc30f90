/* SPDX-License-Identifier: MIT */
/* Serves the files of the dashboard and the pages of the documentation, which are part of the program, and
 * what the dashboard must know about its user. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <openssl/evp.h>
#include "service/protocol/base64.h"
#include "service/http/http_dashboard.h"
#include "service/http/http_internal.h"
#include "service/protocol/json.h"
#include "service/http/message/http_origin.h"

static const char *type_of(const char *name)
{
    const char *end = strrchr(name, '.');
    return end == NULL                 ? "application/octet-stream"
           : strcmp(end, ".html") == 0 ? "text/html; charset=utf-8"
           : strcmp(end, ".md") == 0   ? "text/plain; charset=utf-8"
                                       : "text/javascript; charset=utf-8";
}

static const struct dashboard_file *find(const char *name)
{
    for (size_t i = 0; i < dashboard_file_count; i++)
        if (strcmp(dashboard_files[i].name, name) == 0)
            return &dashboard_files[i];
    return NULL;
}

/* Append the source 'sha256-...' for the text between the tags @opens and @closes of @page. */
static bool put_hash(struct buffer *out, const struct dashboard_file *page, const char *opens,
                     const char *closes)
{
    const char *html = (const char *)page->bytes, *end = html + page->length;
    const char *from = memmem(html, page->length, opens, strlen(opens));
    const char *to = from == NULL ? NULL : memmem(from, (size_t)(end - from), closes, strlen(closes));
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    if (to == NULL)
        return false;
    from += strlen(opens);
    if (EVP_Digest(from, (size_t)(to - from), digest, &length, EVP_sha256(), NULL) != 1)
        return false;
    buffer_puts(out, "'sha256-");
    base64_encode(out, digest, length);
    buffer_puts(out, "'");
    return true;
}

/* The content security policy: load only from this server, show in no frame of another site, and run only the
 * page's own inline style and script. The hashes are computed from the bytes that are served, so they are
 * right whichever dashboard was built in. */
enum err http_dashboard_init(struct http *h, struct error *e)
{
    const struct dashboard_file *page = find("index.html");
    struct buffer *policy = &h->policy;
    buffer_puts(policy, "default-src 'none'; script-src 'self' ");
    bool hashed = put_hash(policy, page, "<script>", "</script>");
    buffer_puts(policy, "; style-src ");
    hashed = put_hash(policy, page, "<style>", "</style>") && hashed;
    buffer_puts(policy, "; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
                        "frame-ancestors 'none'");
    (void)buffer_text(policy);
    if (!hashed)
        return error_set(e, ERR_PARSE, "the dashboard's style and script have no hash");
    return buffer_failed(policy) ? error_set(e, ERR_NOMEM, "out of memory") : ERR_OK;
}

static const char *asked(const struct http_request *r, const char *header)
{
    const char *value = http_asked(r, header);
    return value == NULL ? "" : value;
}

/* A weight of 0 says that the client takes none. */
static bool takes_gzip(const char *accepted)
{
    static const char coding[] = "gzip", blanks[] = " \t", weight[] = "q=";
    const char *at = strcasestr(accepted, coding);
    if (at == NULL)
        return false;
    at += strlen(coding);
    at += strspn(at, blanks);
    if (*at != ';')
        return true;
    at += 1 + strspn(at + 1, blanks);
    return strncasecmp(at, weight, strlen(weight)) != 0 || strtod(at + strlen(weight), NULL) > 0;
}

/* Serve the page itself, or the file that the path names. */
void http_dashboard(struct http_request *r)
{
    const struct dashboard_file *file = find(r->filter.length == 0 ? "index.html" : buffer_text(&r->filter));
    if (file == NULL) {
        http_problem(r, HTTP_NO_SUCH_PATH, "no file has this path");
        return;
    }
    bool packed = takes_gzip(asked(r, "Accept-Encoding"));
    bool known = strstr(asked(r, "If-None-Match"), file->etag) != NULL;
    http_header(r, "Content-Security-Policy", r->http->policy.data);
    http_header(r, "X-Frame-Options", "DENY");
    http_header(r, "Referrer-Policy", "no-referrer");
    http_header(r, "Cross-Origin-Resource-Policy", "same-origin");
    http_header(r, "Permissions-Policy", "camera=(), geolocation=(), microphone=()");
    http_header(r, "ETag", file->etag);
    /* The browser must check whether its copy is still current. */
    http_header(r, "Cache-Control", "no-cache");
    http_header(r, "Vary", "Accept-Encoding");
    if (packed && !known)
        http_header(r, "Content-Encoding", "gzip");
    size_t length = packed ? file->packed_length : file->length;
    http_answer_builtin(r, known ? 304 : 200, type_of(file->name), packed ? file->packed : file->bytes,
                        known ? 0 : length);
}

void http_session(struct http_request *r)
{
    char token[CSRF_TOKEN_SIZE] = "";
    struct http *h = r->http;
    const struct config_user *u = users_find(h->config, r->user, strlen(r->user));
    SCOPED(buffer_fini) struct buffer json = {0}, role = {0};
    if (u == NULL || !origin_token(h->csrf_key, r->user, token)) {
        http_no_memory(r);
        return;
    }
    roles_format(u->roles, &role);
    buffer_puts(&json, "{\"user\":");
    json_put_text(&json, r->user, strlen(r->user));
    buffer_printf(
        &json, ",\"role\":\"%s\",\"login\":%s,\"csrf_token\":\"%s\",\"version\":\"%s\",\"coordinator\":",
        buffer_text(&role), users_login_required(h->config) ? "true" : "false", token, h->service->version);
    json_put_text(&json, h->service->owner, strlen(h->service->owner));
    buffer_puts(&json, "}");
    http_header(r, "Cross-Origin-Resource-Policy", "same-origin");
    http_answer(r, 200, &json);
}
