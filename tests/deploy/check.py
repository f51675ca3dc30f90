# SPDX-License-Identifier: MIT
"""What deploy/ says of units, images and manifests, compared with the programs of this build, and among itself.

usage: check.py BUILD_DIRECTORY        needs systemd-analyze and python3-yaml; kubectl is used where there is one
"""
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import yaml

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
DEPLOY = os.path.join(ROOT, "deploy")
BUILD = ""  # the argument


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return f.read()


def daemon():
    return os.path.join(BUILD, "service", "twinbloomd")


def run(*argv, **more):
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False, **more)


def configuration(text):
    """Every key of a configuration, as the daemon understands it: {("service", "listen"): ":6479", ...}."""
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as f:
        f.write(text)
        f.flush()
        printed = run(daemon(), "-c", f.name, "--print-config")
    if printed.returncode != 0:
        raise AssertionError(f"{printed.stdout}in:\n{text}")
    found, section = {}, ""
    for line in printed.stdout.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif "=" in line and not line.startswith("#"):
            key, value = line.split("=", 1)
            found[section, key.strip()] = value.strip()
    return found


def port(address):
    return int(address.rsplit(":", 1)[1])


def seconds(duration):
    value, unit = re.fullmatch(r"(\d+)(ms|s|m|h)", duration).groups()
    return int(value) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600}[unit]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Systemd(unittest.TestCase):
    """The units, as this build configures them."""

    def setUp(self):
        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory)
        made = os.path.join(BUILD, "deploy", "package")
        for name in ("twinbloomd.service", "twinbloom-expand@.service", "twinbloom-expand@.timer"):
            # Where the programs will be there is nothing yet.
            text = re.sub(r"(?m)^(Exec\w+=.*?)/\S*/(twinbloomd?) ", rf"\1{BUILD}/service/\2 ", read(made, name))
            with open(os.path.join(self.directory, name), "w", encoding="utf-8") as f:
                f.write(text)

    def path(self, name):
        return os.path.join(self.directory, name)

    def test_units_are_sound(self):
        for name in ("twinbloomd.service", "twinbloom-expand@.service", "twinbloom-expand@.timer"):
            with self.subTest(name):
                done = run("systemd-analyze", "verify", "--man=no", self.path(name))
                # Of other units of this machine: not ours to mend.
                ours = [line for line in done.stdout.splitlines() if "twinbloom" in line]
                self.assertEqual((done.returncode, ours), (0, []), done.stdout)

    def test_exposure_is_below_two_and_a_half(self):
        for name in ("twinbloomd.service", "twinbloom-expand@.service"):
            with self.subTest(name):
                done = run("systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold=25", self.path(name))
                self.assertEqual(done.returncode, 0, done.stdout)
                self.assertRegex(done.stdout, r"Overall exposure level for twinbloom\S*: [01]\.\d|: 2\.[0-4]")

    def test_the_daemon_is_waited_for_and_watched(self):
        unit = read(self.path("twinbloomd.service"))
        for line in ("Type=notify", "Restart=on-failure", "User=twinbloom"):
            self.assertIn(f"\n{line}\n", unit)
        self.assertRegex(unit, r"\nWatchdogSec=\d+s\n")

    def test_a_reload_looks_for_faults_of_the_file_first(self):
        look, tell = re.findall(r"(?m)^ExecReload=(.*)$", read(self.path("twinbloomd.service")))
        with tempfile.NamedTemporaryFile("w") as f:
            words = shlex.split(re.sub(r"-c /\S+", f"-c {f.name}", look))
            self.assertEqual((run(*words).returncode, run(*words).stdout), (0, ""))
            f.write("[service]\ntypo = 1\n")
            f.flush()
            done = run(*words)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"{f.name}:2:", done.stdout)
        with subprocess.Popen(["sleep", "60"]) as told:
            self.assertEqual(run(*shlex.split(tell.replace("$MAINPID", str(told.pid)))).returncode, 0)
            self.assertEqual(told.wait(10), -signal.SIGHUP)


class Configurations(unittest.TestCase):
    """Every configuration that deploy/ shows is one that the daemon takes."""

    def test_the_packaged_one(self):
        text = read(DEPLOY, "twinbloom.conf")
        all_else = "[service]\nstate_file = /var/lib/twinbloom/state\n"  # which its unit makes room for
        self.assertEqual(configuration(text), configuration(all_else))

    def test_what_it_has_commented_out(self):
        text = re.sub(r"(?m)^# (\[|\w+ = )", r"\1", read(DEPLOY, "twinbloom.conf"))
        self.assertIn("\n[filter short-link]\n", text)
        with tempfile.NamedTemporaryFile("w", suffix=".password") as password:  # mode 0600, as the text asks for
            password.write("secret\n")
            password.flush()
            there = text.replace("/etc/twinbloom/postgres.password", password.name)
            self.assertNotEqual(there, text)
            self.assertEqual(configuration(there)["filter short-link", "table"], "short_link")


class Image(unittest.TestCase):
    def setUp(self):
        text = read(DEPLOY, "docker", "Dockerfile")
        lines = re.sub(r"(?m)^#.*\n", "", text).replace("\\\n", " ").splitlines()
        self.steps = [tuple(line.split(None, 1)) for line in lines if line.strip()]
        self.last = self.steps[[i for i, s in enumerate(self.steps) if s[0] == "FROM"][-1]:]

    def one(self, word):
        found = [rest for step, rest in self.last if step == word]
        self.assertEqual(len(found), 1, word)
        return found[0]

    def test_words_are_those_of_dockerfiles(self):
        known = {"ARG", "FROM", "RUN", "WORKDIR", "COPY", "LABEL", "USER", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
        self.assertEqual({step for step, _ in self.steps} - known, set())

    def test_ports_are_the_defaults(self):
        c = configuration("[service]\n")
        self.assertEqual(self.one("EXPOSE").split(), [str(port(c["service", k])) for k in ("listen", "http")])

    def test_nobody_is_root(self):
        self.assertRegex(self.one("USER"), r"^[1-9]\d*:[1-9]\d*$")
        self.assertEqual(self.one("STOPSIGNAL"), "SIGTERM")

    def test_it_builds_with_what_packages_sh_lists(self):
        listed = run("bash", "-c", f". {DEPLOY}/packages.sh; printf '%s\\n' \"${{packages_build[@]}}\"").stdout.split()
        wanted = {p for p in listed if p.endswith("-dev")} - {"libcmocka-dev"}
        runs = [rest for step, rest in self.steps if step == "RUN"]
        self.assertEqual(wanted - set(" ".join(runs).split()), set())
        first = next(r for r in runs if "dpkg-dev" in r) # the stage that makes the package, as docs/install.md does
        asked = first.split("--no-install-recommends", 1)[1].split("&&", 1)[0].replace("\\", " ").split()
        self.assertGreater(len(asked), 10)
        self.assertEqual(set(asked) - set(listed), set())

    def test_the_context_has_all_folders_that_are_built(self):
        folders = set(re.findall(r"(?m)^add_subdirectory\((\w+)\)", read(ROOT, "CMakeLists.txt")))
        kept = set(re.findall(r"(?m)^!(\S+)", read(DEPLOY, "docker", "Dockerfile.dockerignore")))
        self.assertEqual(folders - kept, set())
        for name in kept:
            self.assertTrue(os.path.exists(os.path.join(ROOT, name)), name)

    def test_the_health_check_tells_life_from_death(self):
        words = yaml.safe_load(self.one("HEALTHCHECK").split("CMD", 1)[1])
        ready = yaml.safe_load(read(DEPLOY, "compose.yaml"))["services"]["twinbloomd"]["healthcheck"]["test"][1:]
        listen, http, none = free_port(), free_port(), free_port()
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as f, tempfile.TemporaryFile() as log:
            f.write(f"[service]\nlisten = 127.0.0.1:{listen}\nhttp = 127.0.0.1:{http}\n[redis]\nnodes = redis://127.0.0.1:{none}\n")
            f.flush()
            def ask(words):
                return run(*(w.replace("9479", str(http)).replace("$$", "$") for w in words)).returncode
            self.assertNotEqual(ask(words), 0)
            process = subprocess.Popen([daemon(), "-c", f.name], stdout=log, stderr=log)
            try:
                until = time.monotonic() + 60
                while ask(words) != 0 and time.monotonic() < until:
                    time.sleep(0.1)
                self.assertEqual(ask(words), 0)
                self.assertNotEqual(ask(ready), 0)  # there is no Redis
            finally:
                process.send_signal(signal.SIGTERM)
                self.assertEqual(process.wait(60), 0)
            self.assertNotEqual(ask(words), 0)


class Compose(unittest.TestCase):
    def setUp(self):
        self.text = read(DEPLOY, "compose.yaml")
        self.file = yaml.safe_load(self.text)

    def test_every_service_has_a_health_check(self):
        self.assertEqual(set(self.file["services"]), {"twinbloomd", "redis", "postgres"})
        for name, service in self.file["services"].items():
            self.assertIn("healthcheck", service, name)

    def test_what_is_named_is_there(self):
        for service in self.file["services"].values():
            for volume in service.get("volumes", []):
                self.assertIn(volume.split(":")[0], self.file["volumes"])
            for config in service.get("configs", []):
                self.assertIn(config["source"], self.file["configs"])
            for other in service.get("depends_on", {}):
                self.assertIn(other, self.file["services"])
            build = service.get("build")
            if build:
                context = os.path.join(DEPLOY, build["context"])
                self.assertTrue(os.path.exists(os.path.join(context, build["dockerfile"])))

    def test_secrets_have_no_default(self):
        for name in ("TWINBLOOM_PASSWORD", "POSTGRES_PASSWORD", "READER_PASSWORD"):
            self.assertIn(f"${{{name}:?", self.text)
        self.assertNotRegex(self.text, r"\$\{\w*PASSWORD:?-")
        self.assertEqual(set(re.findall(r"(?i)password(?: '| = |=|: )(\S)", re.sub("#.*", "", self.text))), {"$"})

    def test_the_daemon_is_no_superuser_and_reads_alone(self):
        dsn = re.search(r"dsn = (.*)", self.file["configs"]["twinbloom.conf"]["content"]).group(1)
        reader = re.search(r"user=(\w+)", dsn).group(1)
        superuser = self.file["services"]["postgres"]["environment"].get("POSTGRES_USER", "postgres")
        self.assertNotEqual(reader, superuser)
        sql = self.file["configs"]["reader.sql"]["content"].replace("${READER_PASSWORD}", "x1")
        script = r"""
            . "$ROOT/deploy/servers.sh"
            trap servers_end EXIT
            servers_begin "$DIR/servers"
            servers_postgres
            admin() { psql -qAtX -v ON_ERROR_STOP=1 "postgresql://postgres@127.0.0.1:$postgres_port/$1"; }
            admin postgres <<<'CREATE DATABASE links'
            admin links <<<"$SQL"
            admin links <<<'CREATE TABLE t (id bigint PRIMARY KEY, code text)'
            reader() { PGPASSWORD=x1 PGPASSFILE=/dev/null psql -qAtX "postgresql://$READER@127.0.0.1:$postgres_port/links" -c "$1" 2>&1; }
            reader 'SELECT count(*) FROM t'
            reader "SELECT rolsuper OR rolcreaterole OR rolcreatedb FROM pg_roles WHERE rolname = current_user"
            reader "INSERT INTO t VALUES (1, 'x')" || true
            reader "CREATE TABLE mine ()" || true
            """
        with tempfile.TemporaryDirectory() as there:
            done = run("bash", "-c", "set -Eeuo pipefail\n" + script,
                       env={**os.environ, "ROOT": ROOT, "DIR": there, "SQL": sql, "READER": reader})
        self.assertEqual(done.returncode, 0, done.stdout)
        said = [line for line in done.stdout.splitlines() if re.match(r"\d|[tf]$|ERROR", line)]
        self.assertEqual(said[:2], ["0", "f"], done.stdout)
        self.assertEqual([line.split(" for")[0] for line in said[2:]], ["ERROR:  permission denied"] * 2, done.stdout)

    def test_the_configuration_is_taken_and_listens_where_ports_lead(self):
        text = re.sub(r"\$\{\w+(:\?[^}]*)?\}", "x1", self.file["configs"]["twinbloom.conf"]["content"])
        c = configuration(text)
        inner = {int(p.rsplit(":", 1)[1]) for p in self.file["services"]["twinbloomd"]["ports"]}
        self.assertEqual(inner, {port(c["service", "listen"]), port(c["service", "http"])})
        for published in self.file["services"]["twinbloomd"]["ports"]:
            self.assertTrue(published.startswith("127.0.0.1:"))
        grace = seconds(self.file["services"]["twinbloomd"]["stop_grace_period"])
        self.assertGreaterEqual(grace, seconds(c["service", "shutdown_delay"]) + 10)


class ComposeFiles(unittest.TestCase):
    """What compose.yaml and demo.yaml have in common. No engine runs them here."""

    # Of the Compose Specification, what these two files use: a misspelled key would be refused by an engine, or
    # ignored.
    KNOWN = {
        "": {"name", "services", "configs", "volumes"},
        "services": {"image", "build", "restart", "depends_on", "ports", "configs", "volumes", "stop_grace_period", "read_only", "cap_drop",
                     "security_opt", "ulimits", "healthcheck", "command", "environment", "network_mode"},
        "build": {"context", "dockerfile", "target"},
        "healthcheck": {"test", "interval", "timeout", "start_period", "retries"},
        "depends_on": {"condition"},
        "configs": {"source", "target", "mode"},
    }

    def setUp(self):
        self.files = {name: yaml.safe_load(read(DEPLOY, name)) for name in ("compose.yaml", "demo.yaml")}
        self.services = [(f"{file}: {name}", service) for file, found in self.files.items() for name, service in found["services"].items()]

    def known(self, where, kind, found):
        self.assertLessEqual(set(found), self.KNOWN[kind], where)

    def test_keys_are_those_of_the_specification(self):
        for name, found in self.files.items():
            self.known(name, "", found)
            for config in found["configs"].values():
                self.assertEqual(set(config), {"content"}, name)
        for name, service in self.services:
            self.known(name, "services", service)
            for kind in ("build", "healthcheck"):
                self.known(name, kind, service.get(kind, {}))
            for other in service.get("depends_on", {}).values():
                self.known(name, "depends_on", other)
                self.assertIn(other["condition"], ("service_healthy", "service_completed_successfully"), name)
            for config in service.get("configs", []):
                self.known(name, "configs", config)
            test = service.get("healthcheck", {}).get("test", ["CMD"])
            self.assertEqual(test[0], "CMD", name)
            for key in ("interval", "timeout", "start_period"):
                seconds(service.get("healthcheck", {}).get(key, "1s"))

    def test_an_engine_can_write_what_it_is_given(self):
        # Docker Compose copies a config with `content` into the container, and refuses to where its root is read-only.
        for name, service in self.services:
            self.assertFalse(service.get("read_only") and service.get("configs"), name)

    def test_the_first_start_of_postgres_is_not_ready(self):
        # While the image makes the database, a server answers at its Unix socket alone, and then ends.
        for name, service in self.services:
            if service["image"].startswith("postgres:"):
                self.assertIn(" -h 127.0.0.1 ", " ".join(service["healthcheck"]["test"]), name)

    def test_what_is_deployed_comes_back_with_the_machine(self):
        # With `on-failure` Docker starts nothing that ended with status 0, as all three do when the machine goes down.
        for name, service in self.files["compose.yaml"]["services"].items():
            self.assertEqual(service["restart"], "unless-stopped", name)

    def test_pages_name_the_same_image_and_ports(self):
        pages = read(ROOT, "docs", "install.md") + read(DEPLOY, "README.md")
        self.assertEqual({service["image"] for name, service in self.services if name.endswith(": twinbloomd")}, {"twinbloom:local"})
        self.assertIn(" -t twinbloom:local ", pages)
        for _, service in self.services:
            for published in service.get("ports", []):
                self.assertIn(":".join(published.split(":")[:2]), pages)
        for file in self.files:
            self.assertIn(f"docker compose -f deploy/{file} up", pages)

    def test_commands_of_servers_run(self):
        for name, service in self.services:
            if not service["image"].startswith("redis:"):
                continue
            listen = free_port()
            with tempfile.TemporaryDirectory() as there:
                process = subprocess.Popen([*service["command"], "--port", str(listen), "--bind", "127.0.0.1", "--dir", there],
                                           stdout=subprocess.DEVNULL)
                ask = [w if w != "redis-cli" else "redis-cli -p %d" % listen for w in service["healthcheck"]["test"][1:]]
                try:
                    until = time.monotonic() + 30
                    while (said := run("sh", "-c", " ".join(ask)).stdout.strip()) != "PONG" and time.monotonic() < until:
                        time.sleep(0.1)
                    self.assertEqual(said, "PONG", name)
                finally:
                    process.terminate()
                    self.assertEqual(process.wait(30), 0, name)
        for name, service in self.services:
            if service["image"].startswith("postgres:"):  # 2: nobody answers; 3: an option that it does not know
                self.assertEqual(run(*service["healthcheck"]["test"][1:], "-p", str(free_port())).returncode, 2, name)


class Demo(unittest.TestCase):
    """deploy/demo.yaml: what it names is there; its commands, one after the other, on servers of the test's own."""

    def setUp(self):
        self.text = read(DEPLOY, "demo.yaml")
        self.file = yaml.safe_load(self.text)
        self.services = self.file["services"]

    def test_what_is_named_is_there(self):
        self.assertEqual(set(self.services), {"twinbloomd", "redis", "postgres", "rows", "traffic"})
        stages = re.findall(r"(?m)^FROM \S+ AS (\w+)$", read(DEPLOY, "docker", "Dockerfile"))
        for name, service in self.services.items():
            for volume in service.get("volumes", []):
                self.assertIn(volume.split(":")[0], self.file["volumes"])
            for config in service.get("configs", []):
                self.assertIn(config["source"], self.file["configs"])
            for other, how in service.get("depends_on", {}).items():
                image = self.services[other].get("image", "")
                healthy = "healthcheck" in self.services[other] or image == "twinbloom:local"  # the image has one
                self.assertTrue(healthy or how["condition"] != "service_healthy", f"{name} waits for {other}")
            if "build" in service:
                self.assertTrue(os.path.exists(os.path.join(DEPLOY, service["build"]["context"], service["build"]["dockerfile"])))
                self.assertIn(service["build"].get("target", stages[0]), stages)
        self.assertEqual(self.services["traffic"]["image"], self.services["rows"]["image"])

    def test_nobody_else_reaches_it(self):
        published = [p for service in self.services.values() for p in service.get("ports", [])]
        self.assertTrue(published and all(p.startswith("127.0.0.1:") for p in published))

    def test_a_compose_takes_it(self):
        compose = next((c for c in (["docker", "compose"], ["docker-compose"]) if shutil.which(c[0]) and run(*c, "version").returncode == 0),
                       None)
        if compose is None:
            self.skipTest("there is no docker compose")
        done = run(*compose, "-f", os.path.join(DEPLOY, "demo.yaml"), "config", "--quiet")
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_its_commands_run(self):
        def words(name):
            return [w.replace("$$", "$").replace("/src/", f"{ROOT}/") for w in self.services[name]["command"]]
        traffic = words("traffic")
        for option, value in (("--steady-seconds", "5"), ("--deadline", "60"), ("--adds-per-second", "20")):
            traffic[traffic.index(option) + 1] = value
        script = r"""
            . "$ROOT/deploy/servers.sh"
            trap servers_end EXIT
            servers_begin "$DIR/servers"
            servers_redis redis
            servers_postgres
            export PGHOST=127.0.0.1 PGPORT=$postgres_port PGUSER=postgres PGDATABASE=links PATH="$BUILD/deploy:$PATH"
            psql -qX -d postgres -c 'CREATE DATABASE links'
            ROWS=20000 "${rows[@]}"
            ROWS=20000 "${rows[@]}" # again: nothing
            psql -qAtX -c "SELECT 'rows ' || count(*) FROM short_link"
            servers_free_port; listen=$REPLY
            servers_free_port; http=$REPLY
            sed -e "s/:6479/127.0.0.1:$listen/; s/:9479/127.0.0.1:$http/; s/redis:6379/127.0.0.1:$redis_port/" \
              -e "s/host=postgres/host=127.0.0.1 port=$postgres_port/" <<<"$CONF" >"$DIR/demo.conf"
            servers_daemon "$BUILD" "$DIR/demo.conf" "$listen"
            "${traffic[@]/#6479/$listen}"
            """
        arrays = "".join(f"{name}=({' '.join(shlex.quote(w) for w in argv)})\n" for name, argv in (("rows", words("rows")), ("traffic", traffic)))
        with tempfile.TemporaryDirectory() as there:
            done = run("bash", "-c", "set -Eeuo pipefail\n" + arrays + script,
                       env={**os.environ, "ROOT": ROOT, "DIR": there, "BUILD": BUILD, "CONF": self.file["configs"]["twinbloom.conf"]["content"]})
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("\nrows 20000\n", done.stdout)
        self.assertRegex(done.stdout, r"kept +known keys reported absent at any moment: 0 of [1-9]")


class Kubernetes(unittest.TestCase):
    def setUp(self):
        self.folder = os.path.join(DEPLOY, "kubernetes")
        self.kustomization = yaml.safe_load(read(self.folder, "kustomization.yaml"))
        self.objects = {}
        for name in self.kustomization["resources"]:
            for found in yaml.safe_load_all(read(self.folder, name)):
                self.objects[found["kind"]] = found
        self.labels = self.kustomization["labels"][0]["pairs"]
        self.deployment = self.objects["Deployment"]["spec"]
        self.pod = self.deployment["template"]["spec"]
        self.container = self.pod["containers"][0]
        self.example = configuration(read(self.folder, "twinbloom.conf.example") + f"\n[user test]\ntoken = sha256:{'0' * 64}\n")

    def test_all_files_are_named(self):
        there = {name for name in os.listdir(self.folder) if name.endswith(".yaml")}
        self.assertEqual(there, set(self.kustomization["resources"]) | {"kustomization.yaml"})

    def test_ports_are_those_of_the_configuration(self):
        ports = {p["name"]: p["containerPort"] for p in self.container["ports"]}
        self.assertEqual(ports, {"redis": port(self.example["service", "listen"]), "http": port(self.example["service", "http"])})
        c = configuration("[service]\n")
        self.assertEqual(ports, {"redis": port(c["service", "listen"]), "http": port(c["service", "http"])})
        for p in self.objects["Service"]["spec"]["ports"]:
            self.assertEqual(ports[p["targetPort"]], p["port"])
        for rule in self.objects["NetworkPolicy"]["spec"]["ingress"]:
            self.assertLessEqual({p["port"] for p in rule["ports"]}, set(ports))
            for source in rule["from"]:  # a namespace alone would admit every pod in it
                self.assertEqual(set(source), {"namespaceSelector", "podSelector"})
                self.assertTrue(all(s["matchLabels"] for s in source.values()))
        names = {p["name"] for p in self.objects["Service"]["spec"]["ports"]}
        for endpoint in self.objects["ServiceMonitor"]["spec"]["endpoints"]:
            self.assertIn(endpoint["port"], names)
            secret = next(s for s in self.kustomization["secretGenerator"] if s["name"] == endpoint["authorization"]["credentials"]["name"])
            self.assertTrue(secret["options"]["disableNameSuffixHash"])  # kustomize does not know this kind

    def test_probes_ask_paths_that_there_are(self):
        routes = read(ROOT, "service", "http", "http_route.c")
        paths = {k: self.container[k]["httpGet"]["path"] for k in ("startupProbe", "livenessProbe", "readinessProbe")}
        self.assertEqual(paths, {"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz"})
        scraped = [e["path"] for e in self.objects["ServiceMonitor"]["spec"]["endpoints"]]
        self.assertEqual(scraped, ["/metrics"])
        for path in {*paths.values(), *scraped}:
            self.assertIn(f'"{path}"', routes)

    def test_selectors_select_the_pods(self):
        labels = {**self.deployment["template"]["metadata"]["labels"], **self.labels}
        selectors = [self.deployment["selector"]["matchLabels"], self.objects["Service"]["spec"]["selector"],
                     self.objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
                     self.objects["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"]]
        for selector in selectors:
            self.assertLessEqual(selector.items(), labels.items())
        monitored = self.objects["ServiceMonitor"]["spec"]["selector"]["matchLabels"]
        self.assertLessEqual(monitored.items(), self.labels.items())  # which kustomize puts on the Service

    def test_one_may_go_and_another_serves(self):
        self.assertGreaterEqual(self.deployment["replicas"], 2)
        self.assertEqual(self.objects["PodDisruptionBudget"]["spec"]["maxUnavailable"], 1)
        self.assertEqual(self.deployment["strategy"]["rollingUpdate"]["maxUnavailable"], 0)

    def test_there_is_time_to_leave(self):
        delay = seconds(self.example["service", "shutdown_delay"])
        probe = self.container["readinessProbe"]
        self.assertGreaterEqual(self.pod["terminationGracePeriodSeconds"], delay + 15)
        self.assertGreater(delay, probe["periodSeconds"] * probe["failureThreshold"])

    def test_the_restricted_profile(self):
        pod, container = self.pod["securityContext"], self.container["securityContext"]
        self.assertTrue(pod["runAsNonRoot"])
        self.assertEqual(pod["seccompProfile"]["type"], "RuntimeDefault")
        self.assertFalse(container["allowPrivilegeEscalation"])
        self.assertTrue(container["readOnlyRootFilesystem"])
        self.assertEqual(container["capabilities"]["drop"], ["ALL"])
        user = re.search(r"(?m)^USER (\d+):(\d+)$", read(DEPLOY, "docker", "Dockerfile")).groups()
        self.assertEqual(user, (str(pod["runAsUser"]), str(pod["runAsGroup"])))
        self.assertEqual(self.objects["Namespace"]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "restricted")

    def test_what_is_mounted_is_there(self):
        volumes = {v["name"]: v for v in self.pod["volumes"]}
        generated = {s["name"] for s in self.kustomization["secretGenerator"] + self.kustomization["configMapGenerator"]}
        self.assertEqual({m["name"] for m in self.container["volumeMounts"]}, set(volumes))
        self.assertIn(volumes["config"]["secret"]["secretName"], generated)
        for source in self.container["envFrom"]:
            self.assertIn(next(iter(source.values()))["name"], generated)
        mounts = {m["name"]: m["mountPath"] for m in self.container["volumeMounts"]}
        self.assertEqual(mounts["spill"], self.example["rebuild", "spill_dir"])
        self.assertTrue(self.container["args"][1].startswith(mounts["config"] + "/"))

    @unittest.skipUnless(shutil.which("kubectl"), "there is no kubectl")
    def test_kubernetes_knows_every_field_of_the_deployment(self):
        done = run("kubectl", "set", "env", "--local", "-f", os.path.join(self.folder, "deployment.yaml"), "CHECKED=1", "-o", "json")
        self.assertEqual(done.returncode, 0, done.stdout)

        def lost(given, kept, where):  # a field that it does not know is not kept
            if isinstance(given, dict):
                return [x for k in given for x in (lost(given[k], kept[k], f"{where}.{k}") if k in kept else [f"{where}.{k}"])]
            if isinstance(given, list):
                return [x for i, g in enumerate(given) for x in lost(g, kept[i], f"{where}[{i}]")]
            return []
        self.assertEqual(lost(self.objects["Deployment"], yaml.safe_load(done.stdout), ""), [])

    @unittest.skipUnless(shutil.which("kubectl"), "there is no kubectl")
    def test_kustomize_makes_it(self):
        with tempfile.TemporaryDirectory() as there:
            shutil.copytree(self.folder, there, dirs_exist_ok=True)
            for name in ("twinbloom.conf", "postgres.env", "scrape.env"):
                shutil.copy(os.path.join(there, f"{name}.example"), os.path.join(there, name))
            done = run("kubectl", "kustomize", there)
            self.assertEqual(done.returncode, 0, done.stdout)
            made = list(yaml.safe_load_all(done.stdout))
        self.assertEqual(len(made), len(self.objects) + 4)
        secrets = [o["metadata"]["name"] for o in made if o["kind"] == "Secret"]
        pod = next(o for o in made if o["kind"] == "Deployment")["spec"]["template"]["spec"]
        self.assertIn(pod["volumes"][0]["secret"]["secretName"], secrets)


class Package(unittest.TestCase):
    def test_scripts_are_shell(self):
        for name in ("postinst", "prerm", "postrm", "page"):
            done = run("dash", "-n", os.path.join(DEPLOY, "package", name))
            self.assertEqual(done.returncode, 0, done.stdout)

    def test_cpack_says_which_tool_is_missing(self):
        with tempfile.TemporaryDirectory() as empty:
            done = run(shutil.which("cmake"), "-P", os.path.join(DEPLOY, "package", "tools.cmake"), env={"PATH": empty})
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertIn("apt-get install dpkg-dev file", " ".join(done.stdout.split()))

    def test_cmake_installs_programs_units_and_configuration(self):
        with tempfile.TemporaryDirectory() as there:
            done = run("cmake", "--install", BUILD, env={**os.environ, "DESTDIR": there})
            self.assertEqual(done.returncode, 0, done.stdout)
            found = {os.path.join(folder, name)[len(there):] for folder, _, names in os.walk(there) for name in names}
        for name in ("/bin/twinbloom", "/sbin/twinbloomd", "/etc/twinbloom/twinbloom.conf", "/systemd/system/twinbloomd.service",
                     "/systemd/system/twinbloom-expand@.service", "/systemd/system/twinbloom-expand@.timer",
                     "/share/twinbloom/sql/reader_role.sql", "/share/twinbloom/sql/publication.sql",
                     "/share/twinbloom/sql/outbox.sql", "/share/twinbloom/twinbloom.rules.yml", "/share/twinbloom/grafana.json"):
            self.assertTrue(any(f.endswith(name) for f in found), f"{name} in {sorted(found)}")


if __name__ == "__main__":
    BUILD = os.path.realpath(sys.argv.pop(1))
    unittest.main()
