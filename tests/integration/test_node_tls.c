/* SPDX-License-Identifier: MIT */
/* TLS towards Redis: which certificates the client trusts, which name it expects, and which certificate it
 * shows. */
#include "tests/integration/wired.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct wired w;

static int start(void **state)
{
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    wired_start(&w, "redis", "optional");
    return 0;
}

static int stop(void **state)
{
    (void)state;
    wired_stop(&w);
    return 0;
}

static struct node_tls_options trusting(const char *ca)
{
    return (struct node_tls_options){.ca_file = wired_file(&w, ca),
                                     .ca_dir = "",
                                     .cert_file = "",
                                     .key_file = "",
                                     .server_name = "",
                                     .verify = true};
}

/* Set the server's certificate. */
static void show(const char *name)
{
    char cert[64], key[64];
    (void)snprintf(cert, sizeof(cert), "%s.crt", name);
    (void)snprintf(key, sizeof(key), "%s.key", name);
    assert_string_equal(wired_ask(&w, "CONFIG SET tls-cert-file %s tls-key-file %s", wired_file(&w, cert),
                                  wired_file(&w, key)),
                        "OK");
}

static void test_tls__looks_at_the_authority_the_name_and_the_time(void **state)
{
    (void)state;
    if (temp_redis_is_before_7()) /* it sets a certificate without its key only */
        skip();
    struct node_tls_options o = trusting("theirs.crt");
    wired_use(&w, &o, "rediss://127.0.0.1:%u", w.tls_port);
    wired_refused(&w, ERR_UNREACHABLE, "its certificate is not accepted: ");
    o = trusting("ours.crt");
    o.ca_file = "";
    wired_use(&w, &o, "rediss://127.0.0.1:%u", w.tls_port); /* the system lacks the test's CA */
    wired_refused(&w, ERR_UNREACHABLE, "its certificate is not accepted: ");

    show("elsewhere");
    wired_use(&w, NULL, "rediss://127.0.0.1:%u", w.tls_port);
    wired_refused(&w, ERR_UNREACHABLE, "IP address mismatch");
    wired_use(&w, NULL, "rediss://localhost:%u", w.tls_port);
    wired_refused(&w, ERR_UNREACHABLE, "ostname mismatch");
    show("named"); /* the certificate names a host and no address */
    sync_connection_close(wired_open(&w));
    wired_use(&w, NULL, "rediss://127.0.0.1:%u", w.tls_port);
    wired_refused(&w, ERR_UNREACHABLE, "IP address mismatch");
    show("expired");
    wired_refused(&w, ERR_UNREACHABLE, "certificate has expired");
    show("redis");
    sync_connection_close(wired_open(&w));
}

static void test_tls__may_expect_another_name_or_none(void **state)
{
    (void)state;
    if (temp_redis_is_before_7()) /* it sets a certificate without its key only */
        skip();
    struct node_tls_options o = trusting("ours.crt");
    show("elsewhere");
    o.server_name = "elsewhere";
    wired_use(&w, &o, "rediss://127.0.0.1:%u", w.tls_port);
    sync_connection_close(wired_open(&w));
    show("redis");
    wired_refused(&w, ERR_UNREACHABLE, "ostname mismatch");
    o.server_name = "127.0.0.1";
    wired_use(&w, &o, "rediss://localhost:%u", w.tls_port);
    sync_connection_close(wired_open(&w));
    o.server_name = "127.0.0.2";
    wired_use(&w, &o, "rediss://127.0.0.1:%u", w.tls_port);
    wired_refused(&w, ERR_UNREACHABLE, "IP address mismatch");

    o = trusting("theirs.crt");
    o.verify = false;
    show("expired");
    wired_use(&w, &o, "rediss://127.0.0.1:%u", w.tls_port);
    sync_connection_close(wired_open(&w));
    show("redis");
}

static void test_tls__shows_a_certificate_where_one_is_wanted(void **state)
{
    (void)state;
    assert_string_equal(wired_ask(&w, "CONFIG SET tls-auth-clients yes"), "OK");
    wired_use(&w, NULL, "rediss://127.0.0.1:%u", w.tls_port);
    wired_refused(&w, ERR_UNREACHABLE, "TLS: "); /* the text of the alert is OpenSSL's */
    struct node_tls_options o = trusting("ours.crt");
    o.cert_file = wired_file(&w, "foreign.crt");
    o.key_file = wired_file(&w, "foreign.key");
    wired_use(&w, &o, "rediss://127.0.0.1:%u", w.tls_port);
    wired_refused(&w, ERR_UNREACHABLE, "TLS: ");
    o.cert_file = wired_file(&w, "client.crt");
    o.key_file = wired_file(&w, "client.key");
    wired_use(&w, &o, "rediss://127.0.0.1:%u", w.tls_port);
    struct sync_connection *c = wired_open(&w);
    assert_string_equal(WIRED_ASK(c, "PING"), "PONG");
    sync_connection_close(c);
    assert_string_equal(wired_ask(&w, "CONFIG SET tls-auth-clients optional"), "OK");
}

static void test_tls__says_which_file_is_wrong(void **state)
{
    (void)state;
    struct error e = {""};
    SSL_CTX *context = NULL;
    struct node_tls_options o = trusting("none.crt");
    gives(ERR_CONFIG, node_tls_load(&context, &o, &e), e);
    assert_non_null(strstr(e.text, "tls_ca_file = "));
    assert_non_null(strstr(e.text, "none.crt: No such file"));
    o = trusting("ours.crt");
    o.ca_dir = "/nowhere";
    gives(ERR_CONFIG, node_tls_load(&context, &o, &e), e);
    assert_non_null(strstr(e.text, "tls_ca_dir = /nowhere: No such file"));
    o = trusting("ours.crt");
    o.cert_file = wired_file(&w, "client.crt");
    o.key_file = wired_file(&w, "foreign.key");
    gives(ERR_CONFIG, node_tls_load(&context, &o, &e), e);
    assert_non_null(strstr(e.text, "tls_key_file = "));
    o.cert_file = wired_file(&w, "client.key");
    gives(ERR_CONFIG, node_tls_load(&context, &o, &e), e);
    assert_non_null(strstr(e.text, "tls_cert_file = "));
    assert_null(context);
}

static void test_tls__trusts_a_directory(void **state)
{
    (void)state;
    char script[] = "mkdir -p \"$0/dir\" && cp \"$0/ours.crt\" \"$0/dir/\" && openssl rehash \"$0/dir\"",
         *output = NULL;
    const char *const argv[] = {"sh", "-c", script, w.directory, NULL};
    struct error e = {""};
    int status = -1;
    must(process_run(argv, 20000, &output, &status, &e), e);
    free(output);
    assert_int_equal(status, 0);
    struct node_tls_options o = trusting("ours.crt");
    o.ca_file = "";
    o.ca_dir = wired_file(&w, "dir");
    wired_use(&w, &o, "rediss://127.0.0.1:%u", w.tls_port);
    sync_connection_close(wired_open(&w));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tls__looks_at_the_authority_the_name_and_the_time),
        cmocka_unit_test(test_tls__may_expect_another_name_or_none),
        cmocka_unit_test(test_tls__shows_a_certificate_where_one_is_wanted),
        cmocka_unit_test(test_tls__says_which_file_is_wrong),
        cmocka_unit_test(test_tls__trusts_a_directory),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
