/* SPDX-License-Identifier: MIT */
/* The configuration, of the table of its keys. */
#include <ctype.h>
#include "service/config/config.h"
#include "service/config/config_keys.h"
#include "service/describe.h"

const struct describe_section describe_config_sections[CONFIG_SECTIONS] = {
    [CONFIG_SERVICE] = {"service", "The coordinator: where it listens, who may connect, limits for clients."},
    [CONFIG_REDIS] =
        {"redis", "Where the filters are stored. All coordinators of an installation need the same nodes, "
                  "the same first node and the same prefix. A coordinator with another list does not start."},
    [CONFIG_POSTGRES] = {"postgres",
                         "The database that holds the tables. Filters without a table need none."},
    [CONFIG_EXPANSION] = {"rebuild", "How filters are rebuilt, verified and followed."},
    [CONFIG_FILTER] = {"filter NAME", "One section for each filter that has a table or values of its own. "
                                      "Filters that BF.RESERVE creates need none."},
    [CONFIG_USER] = {"user NAME",
                     "One section for each user. Without users, and without a password in [service], "
                     "everybody who connects may do everything."},
};

static const char *const page = "# Configuration\n\n"
                                "The file is an INI file: sections, and lines `key = value`. `#` or `;` "
                                "starts a comment at the beginning of a line. "
                                "A comment may also follow a number, a time, a size or a word, after a "
                                "blank. After a text (a name, a path, a password, "
                                "a condition) it is an error, because the `#` could belong to the text. A "
                                "line that starts with a blank continues the "
                                "value before it, which must be a list or a text. An unknown key, a value "
                                "out of bounds and a key that appears twice are "
                                "errors; the message names file and line.\n\n"
                                "| column | |\n|---|---|\n"
                                "| value | what to write. Sizes take `KiB`, `MiB`, `GiB` or `TiB`, or are "
                                "bytes. Times need `ms`, `s`, `m` or `h`; "
                                "`0` needs none |\n"
                                "| default | the value if the key is left out |\n"
                                "| running | `yes`: SIGHUP or `CONFIG SET` changes it in a running daemon. "
                                "`file`: only SIGHUP does. `no`: a change needs "
                                "a restart |\n\n"
                                "`twinbloomd -c FILE --print-config` prints the configuration of a file with "
                                "all defaults, `CONFIG GET *` the one in force. "
                                "`twinbloomd -c FILE --check-config` checks a file and the tables that it "
                                "names, and says what Twinbloom chose where the "
                                "file leaves it open.\n";

static const char *changes(const struct config_key *k)
{
    if ((k->flags & CONFIG_RELOADABLE) == 0)
        return "no";
    return (k->flags & CONFIG_FILE_ONLY) != 0 ? "file" : "yes";
}

static void write_row(FILE *to, const struct config_key *k)
{
    struct buffer bounds = {0};
    config_key_bounds(k, &bounds);
    (void)fprintf(to, "| `%s` | ", k->name);
    describe_cell(to, config_type_expected(k->type));
    (void)fputs(" | ", to);
    describe_code(to, k->standard);
    (void)fputs(" | ", to);
    describe_cell(to, bounds.length > 0 ? buffer_text(&bounds) : "-");
    (void)fprintf(to, " | %s | ", changes(k));
    describe_cell(to, k->help);
    if ((k->flags & CONFIG_SECRET) != 0)
        (void)fputs(" Printed as `***`.", to);
    (void)fputs(" |\n", to);
    buffer_fini(&bounds);
}

void describe_config(FILE *to)
{
    (void)fputs(page, to);
    for (unsigned s = 0; s < CONFIG_SECTIONS; s++) {
        (void)fprintf(to, "\n## [%s]\n\n%s\n\n", describe_config_sections[s].name,
                      describe_config_sections[s].about);
        (void)fputs("| key | value | default | bounds | running | meaning |\n|---|---|---|---|---|---|\n",
                    to);
        for (size_t i = 0; i < config_key_count; i++)
            if (config_keys[i].section == (enum config_section)s)
                write_row(to, &config_keys[i]);
    }
}

/* --- twinbloom.conf(5) --- */

static void write_key(FILE *to, const struct config_key *k)
{
    struct buffer bounds = {0};
    config_key_bounds(k, &bounds);
    (void)fprintf(to, ".TP\n.B ");
    describe_roff(to, k->name);
    (void)fputc('\n', to);
    describe_roff(to, k->help);
    (void)fputs("\n.br\nGive ", to);
    describe_roff(to, config_type_expected(k->type));
    (void)fputs(". ", to);
    if (*k->standard != '\0') {
        (void)fputs("Default: ", to);
        describe_roff(to, k->standard);
        (void)fputc('.', to);
    } else
        (void)fputs("Empty by default.", to);
    if (bounds.length > 0) {
        (void)fputs(" Bounds: ", to);
        describe_roff(to, buffer_text(&bounds));
        (void)fputc('.', to);
    }
    if ((k->flags & CONFIG_RELOADABLE) == 0)
        (void)fputs(" A change needs a restart.", to);
    else if ((k->flags & CONFIG_FILE_ONLY) != 0)
        (void)fputs(" Not by CONFIG SET.", to);
    (void)fputc('\n', to);
    buffer_fini(&bounds);
}

void describe_config_man(FILE *to)
{
    describe_man_title(to, "twinbloom.conf", "5", "configuration of twinbloomd");
    (void)fputs(
        ".SH DESCRIPTION\n"
        "The file is an INI file: sections,\n.IR key \" = \" value ,\n"
        "and comments. # or ; starts a comment at the beginning of a line, or after a blank behind a number, "
        "a\n"
        "time, a size or a word; behind a text a comment is an error. A line that starts with a blank "
        "continues\n"
        "the value before it. An unknown key, a value out of bounds and a key that appears twice are "
        "errors;\n"
        "the message names file and line.\n.PP\n"
        "Sizes take KiB, MiB, GiB or TiB, or are bytes. Times need ms, s, m or h; 0 needs none.\n.PP\n"
        ".B twinbloomd \\-c FILE \\-\\-check\\-config\n"
        "checks a file and the tables that it names, and says what was chosen.\n"
        ".B twinbloomd \\-c FILE \\-\\-print\\-config\n"
        "prints every key with its value. SIGHUP makes a running daemon read its file again.\n",
        to);
    for (unsigned s = 0; s < CONFIG_SECTIONS; s++) {
        (void)fputs(".SH \"[", to);
        describe_roff(to, describe_config_sections[s].name);
        (void)fputs("]\"\n", to);
        describe_roff(to, describe_config_sections[s].about);
        (void)fputc('\n', to);
        for (size_t i = 0; i < config_key_count; i++)
            if (config_keys[i].section == (enum config_section)s)
                write_key(to, &config_keys[i]);
    }
    (void)fputs(".SH EXAMPLE\n.nf\n.EX\n"
                "[redis]\n"
                "nodes = redis://127.0.0.1:6379\n"
                "\n"
                "[postgres]\n"
                "dsn = postgresql://app@127.0.0.1/app\n"
                "\n"
                "[filter short\\-link]\n"
                "table = short_link\n"
                "key = code\n"
                "where = deleted_at IS NULL\n"
                ".EE\n.fi\n"
                ".SH SEE ALSO\n.BR twinbloomd (8),\n.BR twinbloom (1)\n",
                to);
}
