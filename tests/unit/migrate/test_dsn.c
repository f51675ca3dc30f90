/* SPDX-License-Identifier: MIT */
#include "migrate/source/dsn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

static void test_dsn_is_verified__wants_a_socket_or_a_certificate_that_is_checked(void **state)
{
    (void)state;
    static const struct {
        const char *dsn;
        bool verified;
    } rows[] = {
        {"postgresql://app@db.example.org/links", false},
        {"postgresql://app@db.example.org/links?sslmode=prefer", false},
        {"postgresql://app@db.example.org/links?sslmode=require", false},
        {"postgresql://app@db.example.org/links?sslmode=verify-ca", false},
        {"postgresql://app@db.example.org/links?sslmode=verify-full", true},
        {"host=db.example.org sslmode=verify-full", true},
        {"host=10.0.0.7 user=app", false},
        {"host=/run/postgresql user=app", true},
        {"postgresql:///links", true}, /* the default socket of libpq */
        {"postgresql://%2Frun%2Fpostgresql/links", true},
        {"postgresql://app@127.0.0.1:5432/links", true},
        {"host=127.example.org", false},
        {"host=localhost", true},
        {"host=localhost.example.org", false},
        {"host=::1", true},
        {"host=localhost hostaddr=10.0.0.7", false},
        {"host=/run/postgresql,db.example.org", false},
        {"host=db-1.example.org,db-2.example.org sslmode=verify-full", true},
        {"no connection string", true},
    };
    (void)unsetenv("PGHOST");
    (void)unsetenv("PGHOSTADDR");
    (void)unsetenv("PGSSLMODE");
    (void)unsetenv("PGSERVICE");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (dsn_is_verified(rows[i].dsn) != rows[i].verified)
            fail_msg("%s: not %d", rows[i].dsn, rows[i].verified);
    (void)setenv("PGSSLMODE", "verify-full", 1);
    assert_true(dsn_is_verified("host=db.example.org"));
    (void)setenv("PGSSLMODE", "require", 1);
    assert_true(dsn_is_verified("host=db.example.org sslmode=verify-full"));
    (void)unsetenv("PGSSLMODE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dsn_is_verified__wants_a_socket_or_a_certificate_that_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
