# SPDX-License-Identifier: MIT
"""The Dockerfile without Docker: its steps, one by one, in roots made by debootstrap, then its ENTRYPOINT and HEALTHCHECK.

usage: image.py        as root; status 77: something that it needs is missing. All is under build/deploy/.

What this is not: layers, the network and the limits of an engine, and debian:bookworm-slim, of which a minimal root of
debootstrap stands in. ARG, FROM, RUN, WORKDIR, COPY, USER, HEALTHCHECK, ENTRYPOINT and CMD are followed as this file uses them.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import time

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
DOCKERFILE = os.path.join(ROOT, "deploy", "docker", "Dockerfile")
WORK = os.path.join(ROOT, "build", "deploy", "image")
BASE = os.path.join(ROOT, "build", "deploy", "minbase.tar")
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"}
ALIVE_SECONDS = 60
started = time.monotonic()


def say(text):
    print(f"==> {text} ({time.monotonic() - started:.0f} s)", flush=True)


def must(*argv, **more):
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False, **more)
    if done.returncode != 0:
        sys.exit(f"FAILED ({done.returncode}): {' '.join(argv)}\n{done.stdout[-4000:]}")
    return done.stdout


def make_base():
    if os.path.exists(BASE):
        return
    say("debootstrap (once)")
    targets = must("apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME)", "Created-By: Packages")
    mirror = next(line.split()[0] for line in targets.splitlines() if re.search(r"debian/? bookworm$", line))
    there = os.path.join(WORK, "base")
    must("debootstrap", "--variant=minbase", "bookworm", there, mirror)
    must("tar", "-C", there, "-cf", BASE + ".part", ".")
    os.rename(BASE + ".part", BASE)
    shutil.rmtree(there)


def steps():
    """[(word, rest)], with comments taken out and continued lines joined."""
    with open(DOCKERFILE, encoding="utf-8") as f:
        text = re.sub(r"(?m)^#.*\n", "", f.read()).replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]


class Stage:
    def __init__(self, name, parent=None):
        self.root = os.path.join(WORK, name)
        self.folder, self.user, self.last = parent.folder if parent else "/", None, {}
        if parent:
            must("cp", "-a", parent.root, self.root)
            return
        os.makedirs(self.root)
        must("tar", "-C", self.root, "-xf", BASE)
        shutil.copy(os.path.realpath("/etc/resolv.conf"), os.path.join(self.root, "etc", "resolv.conf"))
        with open(os.path.join(self.root, "usr/sbin/policy-rc.d"), "w", encoding="ascii") as f:
            f.write("#!/bin/sh\nexit 101\n")
        os.chmod(f.name, 0o755)  # as the official image has it

    def argv(self, *command):
        who = ["setpriv", "--reuid", self.user[0], "--regid", self.user[1], "--clear-groups"] if self.user else []
        return ["chroot", self.root, *who, "env", "-C", self.folder, "-i", *(f"{k}={v}" for k, v in ENVIRONMENT.items()), *command]

    def copy(self, rest, stages):
        source = re.match(r"--from=(\w+) (.*)", rest)
        where = stages[source[1]].root if source else ROOT
        *names, to = (source[2] if source else rest).split()
        to = os.path.join(self.root, os.path.join(self.folder, to).lstrip("/"))
        if source:
            found = [path for name in names for path in glob.glob(os.path.join(where, name.lstrip("/")))]
        else:  # the context, by the .dockerignore beside the Dockerfile: nothing but what it names
            with open(DOCKERFILE + ".dockerignore", encoding="utf-8") as f:
                found = [os.path.join(where, line[1:].strip()) for line in f if line.startswith("!")]
        assert found, f"COPY {rest}: there is nothing"
        must("cp", "-a", *found, to)


def run_it(stage):
    """The daemon as the image starts it, until it is healthy; then SIGTERM."""
    with open(os.path.join(stage.root, "etc/twinbloom/twinbloom.conf"), "w", encoding="ascii") as f:
        f.write("[service]\nlisten = :6479\nhttp = :9479\npassword = for-this-test\n")
    command = json.loads(stage.last["ENTRYPOINT"]) + json.loads(stage.last["CMD"])
    health = json.loads(stage.last["HEALTHCHECK"].split("CMD", 1)[1])
    # Ports of its own; the health check joins by the process, as an engine does.
    inner = " ".join(f"'{w}'" for w in stage.argv(*command))
    process = subprocess.Popen(["unshare", "--net", "bash", "-c", f"ip link set lo up && exec {inner}"])
    try:
        until = time.monotonic() + ALIVE_SECONDS
        status = -1
        while status != 0 and time.monotonic() < until and process.poll() is None:
            status = subprocess.run(["nsenter", "-t", str(process.pid), "-n", *stage.argv(*health)], check=False,
                                    stderr=subprocess.DEVNULL).returncode
            time.sleep(0.2)
        with open(f"/proc/{process.pid}/status", encoding="ascii") as f:
            uid = re.search(r"(?m)^Uid:\s+(\d+)", f.read())[1]
    finally:
        process.terminate()
        ended = process.wait(60)
    if (status, ended, uid) != (0, 0, stage.user[0]):
        sys.exit(f"FAILED: health {status}, exit status {ended}, user {uid}")


def main():
    missing = [t for t in ("debootstrap", "unshare", "nsenter", "setpriv", "ip") if shutil.which(t) is None]
    if os.geteuid() != 0 or missing:
        print("skipped: needs root and", *missing)
        sys.exit(77)
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(WORK)
    try:
        make_base()
        stages, stage = {}, None
        for word, rest in steps():
            if word == "FROM":
                name = rest.split(" AS ")[1] if " AS " in rest else "final"
                stage = stages[name] = Stage(name, stages.get(rest.split()[0]))
                continue
            say(f"{word} {' '.join(rest.split())[:100]}")
            if word == "RUN":
                must(*stage.argv("sh", "-c", rest))
            elif word == "COPY":
                stage.copy(rest, stages)
            elif word == "WORKDIR":
                stage.folder = rest
                os.makedirs(stage.root + rest, exist_ok=True)
            elif word == "USER" and ":" in rest:
                stage.user = rest.split(":")
            elif stage is not None:
                stage.last[word] = rest
        say("ENTRYPOINT, HEALTHCHECK, SIGTERM")
        run_it(stage)
        size = must("du", "-sxm", stage.root).split()[0]
        say(f"done; the last root has {size} MiB")
    finally:
        shutil.rmtree(WORK, ignore_errors=True)


main()
