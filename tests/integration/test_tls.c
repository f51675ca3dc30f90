/* SPDX-License-Identifier: MIT */
/* TLS with popular clients, certificates of both sides, and certificates that are replaced. */
#include "tests/integration/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/lib/certificates.h"
#include "tests/lib/raw.h"

enum { REPLY_MS = 30000 };

/* the hash of chief's password */
#define CHIEF_HASH "$y$j75$Ut2YzVcSvEB42z36Gz9X.1$6HMjJGfH6NrjGa6XqYopA5RoNdAGExQob2S1ZQwanW5"
#define CHIEF "[user chief]\npassword = " CHIEF_HASH "\nroles = admin\n"
#define FILTERS "[filter alpha]\ncapacity = 1000\n"

static struct fixture fixture;
static char directory[PATH_MAX];
static unsigned tls_port;
static char port[8];

/* Authorities, and certificates of servers and clients. */
static const char certificates[] =
    "ca ours && ca theirs && "
    "leaf first localhost 'subjectAltName=DNS:localhost,IP:127.0.0.1' ours 1001 && "
    "leaf second localhost 'subjectAltName=DNS:localhost,IP:127.0.0.1' ours 1002 && "
    "leaf elsewhere elsewhere 'subjectAltName=DNS:elsewhere' ours 1003 && "
    "leaf chief chief 'extendedKeyUsage=clientAuth' ours 1004 && "
    "leaf nobody nobody 'extendedKeyUsage=clientAuth' ours 1005 && "
    "leaf default default 'extendedKeyUsage=clientAuth' ours 1007 && "
    "leaf foreign chief 'extendedKeyUsage=clientAuth' theirs 1006 && "
    "leaf expired localhost 'subjectAltName=DNS:localhost,IP:127.0.0.1' ours 1008 \"$gone\" && "
    "printf 'openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n[c]\nMinProtocol = TLSv1\n"
    "CipherString = ALL:@SECLEVEL=0\n' > lax.cnf";

/* The test is about the daemon's own bounds, not those of the system's OpenSSL. */
static char openssl_conf[PATH_MAX + 32];
static const char *const lax[] = {"env", openssl_conf, NULL};

/* Run a script with the directory and the port as $0 and $1, and the daemon's plain port as $2. The caller
 * frees the output. */
static char *run(const char *script, int *status)
{
    struct error e = {""};
    char plain[8], *output = NULL;
    (void)snprintf(plain, sizeof(plain), "%u", fixture.daemon[0].port);
    const char *const argv[] = {"sh", "-c", script, directory, port, plain, NULL};
    must(process_run(argv, 60000, &output, status, &e), e);
    return output;
}

/* Run a script, which must succeed or fail, and print @wanted. */
static void says(const char *script, bool succeeds, const char *wanted)
{
    int status = -1;
    char *output = run(script, &status);
    bool good = (status == 0) == succeeds && strstr(output, wanted) != NULL;
    if (!good)
        (void)fprintf(stderr, "%s\nstatus %d, output: %s\nwanted: %s\n", script, status, output, wanted);
    free(output);
    assert_true(good);
}

static char *service_lines(const char *more)
{
    static char lines[4 * PATH_MAX];
    (void)snprintf(lines, sizeof(lines),
                   "threads = 2\nhttp_tls = yes\ntimeout = 30s\nlisten_tls = 127.0.0.1:%u\ntls_cert = "
                   "%s/server.crt\ntls_key "
                   "= %s/server.key\n"
                   "tls_ca = %s/ours.crt\n%s",
                   tls_port, directory, directory, directory, more);
    return lines;
}

static struct daemon_options options(const char *service, const char *sections)
{
    return (struct daemon_options){.nodes = fixture.node_list, .service = service, .filters = sections};
}

static void use_certificate(const char *name)
{
    char script[128];
    (void)snprintf(script, sizeof(script), "cd \"$0\" && cp %s.crt server.crt && cp %s.key server.key", name,
                   name);
    says(script, true, "");
}

static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    (void)fixture_start(&fixture, &(struct fixture_options){.nodes = 1});
    must(process_make_directory(directory, "tls", &e), e);
    tls_port = process_free_port();
    (void)snprintf(port, sizeof(port), "%u", tls_port);
    must(certificates_make_by(certificates, directory, &e), e);
    use_certificate("first");
    const struct daemon_options o = options(service_lines(""), FILTERS);
    must(daemon_prepare(&fixture.daemon[0], &o, &e), e);
    (void)snprintf(openssl_conf, sizeof(openssl_conf), "OPENSSL_CONF=%s/lax.cnf", directory);
    fixture.daemon[0].wrapper = lax;
    must(daemon_launch(&fixture.daemon[0], &e), e);
    must(client_open(&fixture.client[0], fixture.daemon[0].port, REPLY_MS, &e), e);
    must(client_wait_status(&fixture.client[0], "alpha", "state", "serving", REPLY_MS, &e), e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    process_remove_directory(directory);
    return fixture_stop(&fixture);
}

static enum err try_reload(const char *more, const char *sections, struct error *e)
{
    const struct daemon_options o = options(service_lines(more), sections);
    must(daemon_rewrite(&fixture.daemon[0], &o, e), *e);
    return daemon_reload(&fixture.daemon[0], e);
}

static void reload(const char *more, const char *sections)
{
    struct error e = {""};
    must(try_reload(more, sections, &e), e);
}

static int restore(void **state)
{
    (void)state;
    use_certificate("first");
    reload("", FILTERS);
    return 0;
}

#define REDIS_CLI "redis-cli --no-raw -h 127.0.0.1 -p \"$1\" --tls --cacert \"$0/ours.crt\" "

static void test_redis_cli__speaks_tls(void **state)
{
    (void)state;
    says(REDIS_CLI "PING 2>&1", true, "PONG");
    says(REDIS_CLI "-3 BF.ADD alpha tls 2>&1", true, "(true)");
    says("redis-cli --no-raw -p \"$2\" BF.EXISTS alpha tls", true, "(integer) 1"); /* the same service */
    says("redis-cli -p \"$1\" --tls --cacert \"$0/theirs.crt\" PING 2>&1", false,
         "certificate verify failed");
    says("redis-cli -p \"$1\" PING 2>&1", false, "Error");
}

static void test_redis_benchmark__and_long_commands_run_over_tls(void **state)
{
    (void)state;
    says("redis-benchmark -p \"$1\" --tls --cacert \"$0/ours.crt\" -n 20000 -P 16 -c 20 -q -r 100000 BF.ADD "
         "bench "
         "key:__rand_int__ 2>&1",
         true, "requests per second");
    says("seq 1 20000 | sed 's/.*/BF.ADD piped k&/' | redis-cli -p \"$1\" --tls --cacert \"$0/ours.crt\" "
         "--pipe",
         true, "errors: 0, replies: 20000");
}

static const char python[] = "import sys, redis\n"
                             "r = redis.Redis(host='localhost', port=int(sys.argv[2]), ssl=True, "
                             "ssl_ca_certs=sys.argv[1] + '/ours.crt',\n"
                             "                socket_timeout=30)\n"
                             "assert r.ping()\n"
                             "keys = ['k%d' % i for i in range(100000)]\n"
                             "assert len(r.bf().madd('py', *keys)) == len(keys)\n"
                             "assert all(r.bf().mexists('py', *keys))\n"
                             "print('redis-py', redis.__version__)\n";

static void test_redis_py__speaks_tls(void **state)
{
    (void)state;
    char script[sizeof(python) + 64];
    (void)snprintf(script, sizeof(script), "/usr/bin/python3 -c \"%s\" \"$0\" \"$1\"", python);
    says(script, true, "redis-py ");
}

#define TWINBLOOM "env -u TWINBLOOM_URL -u TWINBLOOM_PASSWORD " TWINBLOOM_CLI " "

static void test_command_line__speaks_tls_and_looks_at_the_certificate(void **state)
{
    (void)state;
    says(TWINBLOOM "status -u rediss://127.0.0.1:$1 --cacert \"$0/ours.crt\" 2>&1", true, "alpha");
    says(TWINBLOOM "check alpha none -h localhost -p $1 --cacert \"$0/ours.crt\" 2>&1", false, "absent");
    says("seq 1 20000 | " TWINBLOOM
         "add cli --json -h localhost -p $1 --cacert \"$0/ours.crt\" | tail -c 200",
         true, "20000");
    says(TWINBLOOM "status -p $1 --tls 2>&1", false, "its certificate is not accepted");
    says(TWINBLOOM "status -p $1 --cacert \"$0/theirs.crt\" 2>&1", false, "its certificate is not accepted");
    says(TWINBLOOM "status -p $1 --cacert \"$0/none.crt\" 2>&1", false, "none.crt: No such file");
    says(TWINBLOOM "status -p $2 --cacert \"$0/ours.crt\" --timeout 2 2>&1", false,
         "cannot reach twinbloomd");
    use_certificate("elsewhere");
    reload("", FILTERS);
    says(TWINBLOOM "status -p $1 --cacert \"$0/ours.crt\" 2>&1", false, "IP address mismatch");
    says(TWINBLOOM "status -h localhost -p $1 --cacert \"$0/ours.crt\" 2>&1", false, "ostname mismatch");
}

static void test_tls__is_1_2_at_least(void **state)
{
    (void)state;
    says("openssl s_client -connect 127.0.0.1:$1 -tls1_1 -cipher ALL:@SECLEVEL=0 </dev/null 2>&1", false,
         "alert");
    says("openssl s_client -connect 127.0.0.1:$1 -tls1_2 </dev/null 2>&1", true, "TLSv1.2");
    says("openssl s_client -connect 127.0.0.1:$1 -tls1_3 </dev/null 2>&1", true, "TLSv1.3");
}

#define SERIAL "openssl s_client -connect 127.0.0.1:$1 </dev/null 2>/dev/null | openssl x509 -noout -serial"

static void test_reload__takes_new_certificates_from_the_same_files(void **state)
{
    (void)state;
    says(SERIAL, true, "serial=03E9");
    use_certificate("second");
    says(REDIS_CLI "CONFIG SET log_level info 2>&1", true, "OK");
    says(SERIAL, true, "serial=03E9"); /* until the reload */
    reload("", FILTERS);
    says(SERIAL, true, "serial=03EA");
}

static void test_reload__with_bad_files_changes_nothing(void **state)
{
    (void)state;
    struct error e = {""};
    says("echo nonsense > \"$0/server.crt\"", true, "");
    assert_int_equal(try_reload("log_level = warn\n", FILTERS, &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "nothing changed"));
    assert_non_null(strstr(e.text, "tls_cert = "));
    says("cp \"$0/second.crt\" \"$0/server.crt\"", true, ""); /* with the first certificate's key */
    assert_int_equal(try_reload("log_level = warn\n", FILTERS, &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "key values mismatch; give a PEM file with the key of the certificate"));
    says("openssl pkey -in \"$0/server.key\" -aes256 -passout pass:x -out \"$0/sealed\" && "
         "mv \"$0/sealed\" \"$0/server.key\"",
         true, "");
    assert_int_equal(try_reload("log_level = warn\n", FILTERS, &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "not encrypted"));
    says("rm \"$0/server.key\"", true, "");
    assert_int_equal(try_reload("log_level = warn\n", FILTERS, &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "No such file"));
    says(SERIAL, true, "serial=03E9");
    says(REDIS_CLI "CONFIG GET log_level 2>&1", true, "info");
    says(REDIS_CLI "CONFIG SET log_level info 2>&1", true, "OK");
    says(REDIS_CLI "CONFIG SET tls_client_auth optional 2>&1", true, "No such file");
    says(REDIS_CLI "CONFIG SET tls_cert /dev/null 2>&1", true, "configuration file alone");
    says(SERIAL, true, "serial=03E9");
}

static void test_reload__warns_of_a_certificate_that_has_expired(void **state)
{
    (void)state;
    static const char warning[] = "event=tls_certificate_not_valid key=tls_cert file=";
    char *log = process_log(&fixture.daemon[0].process);
    assert_null(strstr(log, warning));
    free(log);
    use_certificate("expired");
    reload("", FILTERS);
    log = process_log(&fixture.daemon[0].process);
    const char *line = strstr(log, warning);
    assert_true(line != NULL && strstr(line, "note=\"it has expired; peers refuse it\"") != NULL);
    free(log);
}

static void test_reload__open_connections_go_on(void **state)
{
    (void)state;
    static const char script[] =
        "{ echo 'BF.ADD alpha before'; touch \"$0/sent\"; while [ ! -e \"$0/go\" ]; do sleep 0.1; done; "
        "echo 'BF.ADD alpha after'; } | timeout 30 redis-cli -p \"$1\" --tls --cacert \"$0/ours.crt\" > "
        "\"$0/replies\" & while [ ! -e \"$0/sent\" ]; do sleep 0.1; done; sleep 0.5";
    says(script, true, "");
    use_certificate("second");
    reload("", FILTERS);
    says("touch \"$0/go\"; for i in $(seq 50); do [ $(wc -l < \"$0/replies\") = 2 ] && break; sleep 0.1; "
         "done; "
         "tr '\\n' ' ' < \"$0/replies\"",
         true, "1 1 ");
}

#define WITH(name) "--cert \"$0/" name ".crt\" --key \"$0/" name ".key\" "

static void test_client_certificates__are_required_where_that_is_said(void **state)
{
    (void)state;
    reload("tls_client_auth = required\n", FILTERS);
    says(REDIS_CLI "PING 2>&1 | grep -v PONG", true, "rror");
    says(REDIS_CLI WITH("foreign") "PING 2>&1 | grep -v PONG", true, "rror");
    says(REDIS_CLI WITH("nobody") "PING 2>&1", true, "PONG");
    says(TWINBLOOM "status -p $1 --cacert \"$0/ours.crt\" 2>&1", false, "certificate required");
    says(TWINBLOOM "status -p $1 --cacert \"$0/ours.crt\" " WITH("chief") "2>&1", true, "alpha");
    reload("tls_client_auth = optional\n", FILTERS);
    says(REDIS_CLI "PING 2>&1", true, "PONG");
    says(REDIS_CLI WITH("foreign") "PING 2>&1 | grep -v PONG", true, "rror");
}

static void test_client_certificates__log_in_whom_they_name(void **state)
{
    (void)state;
    reload("tls_client_auth = optional\ntls_client_user = yes\n", FILTERS CHIEF);
    says(REDIS_CLI WITH("chief") "ACL WHOAMI 2>&1", true, "chief");
    says("printf 'RESET\\nACL WHOAMI\\n' | " REDIS_CLI WITH("chief") "2>&1", true, "RESET\n\"chief\"");
    says(REDIS_CLI WITH("nobody") "ACL WHOAMI 2>&1", true, "NOAUTH Authentication required.");
    says(REDIS_CLI "ACL WHOAMI 2>&1", true, "NOAUTH Authentication required.");
    says(REDIS_CLI "--user chief --pass chief --no-auth-warning ACL WHOAMI 2>&1", true, "chief");
    says(TWINBLOOM "status -p $1 --cacert \"$0/ours.crt\" " WITH("chief") "2>&1", true, "alpha");
    says(TWINBLOOM "status -p $1 --cacert \"$0/ours.crt\" 2>&1", false, "NOAUTH");
    says("env TWINBLOOM_PASSWORD=chief " TWINBLOOM_CLI
         " status --user chief -p $1 --cacert \"$0/ours.crt\" 2>&1",
         true, "alpha");
    reload("tls_client_auth = optional\n", FILTERS CHIEF);
    says(REDIS_CLI WITH("chief") "ACL WHOAMI 2>&1", true, "NOAUTH Authentication required.");
    /* The default user has all rights, and logs in by the password only, not by a certificate. */
    reload("tls_client_auth = optional\ntls_client_user = yes\npassword = sesame\n", FILTERS CHIEF);
    says(REDIS_CLI WITH("default") "ACL WHOAMI 2>&1", true, "NOAUTH Authentication required.");
}

static const char https[] =
    "import sys, ssl, json, http.client\n"
    "directory, port, cert = sys.argv[1], int(sys.argv[2]), sys.argv[3]\n"
    "tls = ssl.create_default_context(cafile=directory + '/ours.crt')\n"
    "if cert: tls.load_cert_chain(directory + '/' + cert + '.crt', directory + '/' + cert + '.key')\n"
    "c = http.client.HTTPSConnection('localhost', port, context=tls, timeout=20)\n"
    "for i in range(3):\n"
    "    keys = json.dumps({'keys': ['k%d' % k for k in range(20000)]})\n"
    "    c.request('POST', '/v1/filters/alpha/add', keys, {'Content-Type': 'application/json'})\n"
    "    r = c.getresponse()\n"
    "    body = r.read()\n"
    "    print(r.status, len(body) > 20000)\n"
    "c.close()\n"
    "c = http.client.HTTPSConnection('localhost', port, context=tls, timeout=20)\n"
    "c.request('GET', '/livez')\n"
    "print('livez', c.getresponse().status)\n"
    "c = http.client.HTTPSConnection('localhost', port, context=tls, timeout=20)\n"
    "c.putrequest('NONSENSE', '/' + 'x' * 40000)\n"
    "c.endheaders()\n"
    "r = c.getresponse()\n"
    "print('malformed', r.status, r.getheader('Content-Type'), len(r.read()) < 2000)\n";

/* @cert: the client's certificate, or "" for none. */
static void https_says(const char *cert, const char *wanted)
{
    char script[sizeof(https) + 128];
    (void)snprintf(script, sizeof(script), "/usr/bin/python3 -c \"%s\" \"$0\" %u '%s' 2>&1", https,
                   fixture.daemon[0].http_port, cert);
    says(script, true, wanted);
}

static void test_http__is_served_over_tls(void **state)
{
    (void)state;
    https_says("", "200 True\n200 True\n200 True\nlivez 200\nmalformed ");
    https_says("", " application/problem+json True\n");
    int fd = raw_open(fixture.daemon[0].http_port);
    char answer[256];
    assert_true(raw_puts(fd, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"));
    assert_false(raw_read_until(fd, "200", answer, sizeof(answer)));
    raw_close(fd);
    reload("tls_client_auth = optional\ntls_client_user = yes\n", FILTERS CHIEF);
    https_says("", "401 False\n");
    https_says("nobody", "401 False\n");
    reload("tls_client_auth = optional\ntls_client_user = yes\npassword = sesame\n", FILTERS CHIEF);
    https_says("default", "401 False\n");
    https_says("chief", "200 True\n200 True\n200 True\nlivez 200\n");
}

static void test_handshake__has_a_deadline_and_survives_nonsense(void **state)
{
    (void)state;
    int silent[] = {raw_open((uint16_t)tls_port), raw_open(fixture.daemon[0].http_port)};
    int gone = raw_open((uint16_t)tls_port);
    uint64_t began = clock_mono_us();
    assert_true(raw_puts(gone, "\x16\x03\x01"));
    raw_close(gone);
    for (int i = 0; i < 20; i++) {
        char answer[64];
        int fd = raw_open((uint16_t)tls_port);
        assert_true(raw_puts(fd, "*1\r\n$4\r\nPING\r\n"));
        assert_false(raw_read_until(fd, "PONG", answer, sizeof(answer)));
        raw_close(fd);
    }
    for (int i = 0; i < 2; i++) {
        assert_true(raw_expect_close(silent[i]));
        uint64_t took = clock_mono_us() - began;
        assert_true(took > 8000000 && took < 20000000);
        raw_close(silent[i]);
    }
    says(REDIS_CLI "PING 2>&1", true, "PONG");
}

static void test_start__is_refused_with_certificates_that_are_none(void **state)
{
    (void)state;
    struct daemon d;
    struct error e = {""};
    char *output = NULL;
    int status = -1;
    const struct daemon_options o =
        options("listen_tls = 127.0.0.1:1\ntls_cert = /dev/null\ntls_key = /dev/null\n", FILTERS);
    must(daemon_prepare(&d, &o, &e), e);
    must(daemon_run(&d, "--check-config", &output, &status, &e), e);
    assert_int_equal(status, 2);
    assert_non_null(strstr(output, "tls_cert = /dev/null: "));
    free(output);
    (void)daemon_fini(&d);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, restore)
    const struct CMUnitTest tests[] = {
        TEST(test_redis_cli__speaks_tls),
        TEST(test_redis_benchmark__and_long_commands_run_over_tls),
        TEST(test_redis_py__speaks_tls),
        TEST(test_command_line__speaks_tls_and_looks_at_the_certificate),
        TEST(test_tls__is_1_2_at_least),
        TEST(test_reload__takes_new_certificates_from_the_same_files),
        TEST(test_reload__with_bad_files_changes_nothing),
        TEST(test_reload__warns_of_a_certificate_that_has_expired),
        TEST(test_reload__open_connections_go_on),
        TEST(test_client_certificates__are_required_where_that_is_said),
        TEST(test_client_certificates__log_in_whom_they_name),
        TEST(test_http__is_served_over_tls),
        TEST(test_handshake__has_a_deadline_and_survives_nonsense),
        TEST(test_start__is_refused_with_certificates_that_are_none),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
