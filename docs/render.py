#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""usage: docs/render.py TABLES CLI OPENAPI FOLDER

Writes the pages of docs/templates into FOLDER. A line "@name argument" of a template stands for what the function
of that name here makes of the tables: TABLES is what docs/tables prints, CLI what `twinbloom help --json` does.
"""
import json
import pathlib
import sys

tables, cli, api = (json.loads(pathlib.Path(name).read_bytes()) for name in sys.argv[1:4])

# In the order of the pages: section, its heading, what it is about.
SECTIONS = (
    ("service", "service", "The coordinator: where it listens, who may connect, limits for clients."),
    ("redis", "redis", "Where the filters are stored. All coordinators of an installation need the same prefix, the "
     "same first node, and every node on which a filter has shards; otherwise they do not start."),
    ("postgres", "postgres", "The database that holds the tables. Filters without a table need none."),
    ("rebuild", "rebuild", "How filters are rebuilt, verified and followed."),
    ("filter", "filter NAME", "One section for each filter that has a table or values of its own. Filters that "
     "BF.RESERVE creates need none. NAME has up to 512 bytes, where { } and % count as three; it has no ], no control "
     "character, no blank at an end and no quote at its beginning, which names in BF.RESERVE may have."),
    ("user", "user NAME", "One section for each user. Without users, and without a password in [service], everybody "
     "who connects may do everything."),
)


def escaped(text, special):
    return "".join("\\" + c if c in special else c for c in text).replace("\n", " ")


def cell(text):
    return escaped(text, "|*<")


def plain(text):  # nothing of it is markup
    return escaped(text, "\\`*_<>|[]#")


def code(text):
    return "`" + text.replace("|", "\\|") + "`" if text else "-"


def capital(text):
    return text[:1].upper() + text[1:]


def table(head, rows):
    return f"| {' | '.join(head)} |\n".replace("|  |", "| |") + "|" + "---|" * len(head) + "\n" + "".join(rows)


# --- the daemon ---


def commands(group):
    for c in tables["commands"]:
        if c["group"] == group:
            others = ", ".join(f"`{word}` ({role})" for word, role in c["others"])
            others = ". For other roles: " + others if others else ""
            usage = " ".join((c["name"], c["usage"])).strip()
            yield f"| {code(usage)} | {c['role']} | {cell(c['summary'])}{others} |\n"


def key_row(k):
    secret = " Printed as `***`." if k["secret"] else ""
    return (f"| `{k['name']}` | {cell(k['expected'])} | {code(k['default'])} | {cell(k['bounds'] or '-')} "
            f"| {k['running']} | {cell(k['help'])}{secret} |\n")


def keys_of(section):
    return [k for k in tables["keys"] if k["section"] == section]


def sections():
    head = ("key", "value", "default", "bounds", "running", "meaning")
    for section, heading, about in SECTIONS:
        yield f"\n## [{heading}]\n\n{about}\n\n" + table(head, map(key_row, keys_of(section)))


def error_rows():
    for e in tables["errors"]:
        yield f"| [{e['name']}](#{e['name']}) | `-{e['reply']}` | {e['http']} | {e['exit']} |\n"


def errors():
    for e in tables["errors"]:
        yield f"\n## {e['name']}\n\n{capital(e['meaning'])}.\n\nWhat to do: {e['remedy']}\n"


def errors_of_cli():
    for e in tables["errors_of_cli"]:
        yield f"| `{e['name']}` | {e['exit']} | {e['meaning']} | {e['remedy']} |\n"


def errors_of_http():
    for e in tables["errors_of_http"]:
        yield f"| `{e['name']}` | {e['http']} | {cell(e['meaning'])} | {cell(e['remedy'])} |\n"


def sentence_of_html(text):
    text = capital(text).replace("&", "&#38;").replace("<", "&#60;").replace(">", "&#62;")
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(text.split("`")))


def errors_page():  # without those of the command line alone
    for e in tables["errors"] + tables["errors_of_http"]:
        yield (f"<h2 id=\"{e['name']}\">{e['name']} <small>{e['http']}</small></h2>\n"
               f"<p>{sentence_of_html(e['meaning'])}.</p>\n<p>{sentence_of_html(e['remedy'])}</p>\n")


def metrics():
    for m in tables["metrics"]:
        labels = ", ".join(f"`{name}`" for name in m["labels"].split(",") if name)
        yield f"| `{m['name']}` | {m['type']} | {labels} | {cell(m['help'])} |\n"


def reference(schema):  # "#/components/schemas/Keys": "Keys"
    return schema.get("$ref", "").rpartition("/")[2]


def routes():
    for r in tables["routes"]:
        operation = api["paths"].get(r["pattern"], {}).get(r["method"].lower())
        if operation is None:  # a file of the dashboard
            continue
        query = ", ".join(f"`{p['name']}`" for p in operation.get("parameters", ())) or "-"
        content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        body = reference(content.get("schema", {}))
        body = "-" if not body else "empty, or `{}`" if body == "Nothing" else f"[{body}](#{body.lower()})"
        yield (f"| `{r['method']} {r['pattern']}` | {r['role']} | {cell(r['summary'])} | {query} | {body} "
               f"| {' '.join(operation['responses'])} |\n")


def type_of(member):
    of, words = member.get("items", {}).get("type"), ", ".join(f"`{word}`" for word in member.get("enum", ()))
    return ((reference(member) or member.get("type", "any")) + (f" of {of}" if of else "") +
            (" or null" if member.get("nullable") else "") + (f": {words}" if words else ""))


def schemas():
    for name, schema in api["components"]["schemas"].items():
        if name == "Nothing":
            continue
        about = schema.get("description")
        yield f"\n### {name}\n" + (f"\n{about}\n" if about else "")
        rows = [f"| `{key}`{' (required)' if key in schema.get('required', ()) else ''} | {type_of(member)} "
                f"| {cell(member.get('description', ''))} |\n" for key, member in schema.get("properties", {}).items()]
        if rows:
            yield "\n" + table(("member", "type", ""), rows)


# --- pages of the manual ---

ROFF = {"\\": "\\e", "-": "\\-", "~": "\\(ti", "^": "\\(ha"}


def roff(text):
    lines = "".join(ROFF.get(c, c) for c in text).split("\n")
    return "\n".join("\\&" + line if line[:1] in (".", "'") else line for line in lines)


def man_sections():
    for section, heading, about in SECTIONS:
        yield f".SH \"[{roff(heading)}]\"\n{roff(about)}\n"
        for k in keys_of(section):
            default = f"Default: {roff(k['default'])}." if k["default"] else "Empty by default."
            bounds = f" Bounds: {roff(k['bounds'])}." if k["bounds"] else ""
            running = {"no": " A change needs a restart.", "file": " Not by CONFIG SET.", "yes": ""}[k["running"]]
            yield (f".TP\n.B {roff(k['name'])}\n{roff(k['help'])}\n.br\nGive {roff(k['expected'])}. "
                   f"{default}{bounds}{running}\n")


def man_options():
    for o in tables["options"]:
        letter = f"\\-{o['letter']}, " if o["letter"] else ""
        argument = o["argument"] or ""
        blank = " " if argument and argument[0] != "[" else ""
        yield f".TP\n.B {letter}\\-\\-{roff(o['name'])}{blank}{roff(argument)}\n{roff(o['help'])}.\n"


# --- the command line ---


def with_arguments(command):
    return " ".join((command["name"], command["arguments"])).strip()


def cli_summary():
    for c in cli["commands"]:
        yield f"| [`{c['name']}`](#{c['name']}) | {plain(c['summary'])} |\n"


def options_table(options):
    rows = [f"| {code(', '.join(filter(None, (o['letter'], o['name']))) + (' ' + o['value'] if o['value'] else ''))} "
            f"| {plain(o['help'])} |\n" for o in options]
    return "\n" + table(("option", ""), rows) if rows else ""


def cli_commands():
    for c in cli["commands"]:
        yield f"\n### {c['name']}\n\n`twinbloom {with_arguments(c)}`: {plain(c['summary'])}.\n"
        if c["details"]:
            yield f"\n{plain(c['details'])}\n"
        yield options_table(c["options"])
        yield "\n```sh\n" + "".join(line + "\n" for line in c["examples"]) + "```\n"
        for o in c["json"]:
            when, of = ", " + o["when"] if o["when"] else "", "an array" if o["array"] else "one object"
            yield f"\n`--json`{when}: {of} of [{o['name']}](#json-{o['name']})\n"


def cli_options():
    yield options_table(cli["options"])


def cli_rows(name):
    for what, meaning in cli[name].items():
        yield f"| {code(what)} | {plain(meaning)} |\n"


def members(shape, of):
    """Those of the objects in it come after them as "steps[].rows"."""
    for m in shape["members"]:
        yield f"| {code(of + m['name'])} | {m['type']} | {'yes' if m['always'] else ''} | {plain(m['meaning'])} |\n"
        if "shape" in m:
            yield from members(m["shape"], of + m["name"] + ("." if m["type"].startswith("object") else "[]."))


def cli_shapes():
    shapes = {o["name"]: o for c in cli["commands"] for o in c["json"]}
    for name, shape in shapes.items():
        yield f"\n### <a id=\"json-{name}\"></a>JSON: {name}\n\n"
        yield table(("member", "type", "always", ""), members(shape, ""))


CLI_ROFF = {"\\": "\\e", "-": "\\-", '"': "\\(dq"}
FOLD = 70


def cli_roff(text):
    return ("\\&" if text[:1] in (".", "'") else "") + "".join(CLI_ROFF.get(c, c) for c in text)


def folded(text):
    """A line a sentence, and none that is long."""
    lines, line, column = [], "", 0
    for word in text.replace("\n", " ").split(" "):
        if line and (line.endswith(".") or column + len(word.encode()) > FOLD):
            lines.append(line)
            line, column = "", 0
        line += (" " if line else "") + word
        column += (1 if column else 0) + sum({"-": 2, '"': 4}.get(c, len(c.encode())) for c in word)
    return "".join(cli_roff(line) + "\n" for line in lines + [line])


def man_option(o):
    letter = cli_roff(o["letter"]) + (", " if o["letter"] else "")
    value = f" \\fI{cli_roff(o['value'])}\\fP" if o["value"] else ""
    return f".TP\n.B {letter}{cli_roff(o['name'])}{value}\n{folded(o['help'])}"


def cli_man_commands():
    for c in cli["commands"]:
        blank = " " if c["arguments"] else ""
        yield f".SS \"twinbloom {cli_roff(c['name'])}{blank}{cli_roff(c['arguments'])}\"\n{folded(c['summary'])}"
        if c["details"]:
            yield f".PP\n{folded(c['details'])}"
        yield from map(man_option, c["options"])
        yield ".PP\n.nf\n.RS 4\n" + "".join(cli_roff(line) + "\n" for line in c["examples"]) + ".RE\n.fi\n"


def cli_man_options():
    yield from map(man_option, cli["options"])


def cli_man_rows(name):
    for what, meaning in cli[name].items():
        yield f".TP\n.B {folded(what)}{folded(meaning)}"


def main():
    templates = pathlib.Path(__file__).with_name("templates")
    for template in sorted(templates.iterdir()):
        page = []
        for line in template.read_text().splitlines(keepends=True):
            if line.startswith("@"):
                name, *arguments = line[1:].split()
                page += globals()[name](*arguments)
            else:
                page.append(line.replace("@VERSION@", tables["version"]))
        name = template.name.removesuffix(".in")
        note = "<!-- Generated by docs/generate. To change it, change the table in the sources. -->\n"
        pathlib.Path(sys.argv[4], name).write_text((note if name.endswith(".md") else "") + "".join(page))


main()
