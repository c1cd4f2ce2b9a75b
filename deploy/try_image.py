"""Do what `docker build` and `docker run` would do with the Dockerfile, where no container engine is at hand.

Every ARG, ENV, RUN, COPY, WORKDIR and USER is carried out with chroot, on copies of a root folder that stands
in for the base image; then the image's command is run as its user, with a read-only root, a volume for /data
and a /tmp in memory. The health check is asked until it succeeds, SIGTERM ends the service, and its exit code
is checked. As root, on Linux:

    debootstrap --variant=minbase --include=python3,python3-venv,python3-dev,ca-certificates bookworm ROOT
    python deploy/try_image.py ROOT WORK [--arg NAME=VALUE]... [--show FOLDER]... [--health PATH]

What it does not do: layers, the base image itself, networks, seccomp and the limits of an engine.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
SETTINGS = 'folder = "/data/live.dygcn"\n[http]\nport = 8470\n'
EVENTS = "src,dst\n1,2\n2,3\n3,4\n1,4\n"


def instructions(text: str) -> list[tuple[str, str]]:
    """Return the instructions of a Dockerfile, with long lines joined."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [
        (head.upper(), rest) for head, _, rest in (one.partition(" ") for one in joined.splitlines() if one)
    ]


def substituted(text: str, values: dict[str, str]) -> str:
    """Put the values of arguments and variables into a text."""
    return re.sub(r"\$\{?(\w+)\}?", lambda found: values.get(found[1], ""), text)


class Stage:
    """A root folder in which the instructions of one stage are carried out."""

    def __init__(self, base: Path, root: Path, shown: list[str]) -> None:
        subprocess.run(["cp", "-a", "--reflink=auto", str(base), str(root)], check=True)
        python = root / "usr/local/bin/python"
        if not python.exists():
            python.symlink_to("/usr/bin/python3")
        self.root, self.variables, self.arguments = (
            root,
            {"PATH": "/usr/local/bin:/usr/bin:/usr/sbin:/bin"},
            {},
        )
        self.user, self.folder, self.shown = "0:0", "/", shown
        for name in ("etc/resolv.conf", "etc/hosts", "etc/ssl/certs/ca-certificates.crt"):
            shutil.copyfile(f"/{name}", root / name)

    def run(self, command: str) -> None:
        """Carry out a command of the build, as root."""
        print(f"+ RUN {command[:100]}", flush=True)
        binds = "".join(
            f"mkdir -p {self.root}{one} && mount --bind -o ro {one} {self.root}{one} && "
            for one in self.shown
        )
        inside = f"cd {self.folder} && {command}"
        script = f"{binds}mount -t proc proc {self.root}/proc && mount --bind /dev {self.root}/dev && "
        script += f"exec chroot {self.root} /bin/sh -c {shlex.quote(inside)}"
        environment = {**self.variables, **{name: value for name, value in self.arguments.items() if value}}
        subprocess.run(["/usr/bin/unshare", "-m", "/bin/sh", "-c", script], env=environment, check=True)

    def copy(self, rest: str, others: dict[str, Stage], context: Path) -> None:
        """Copy files of the context, or of another stage."""
        print(f"+ COPY {rest}", flush=True)
        *options, target = shlex.split(rest)
        source = context
        if options[0].startswith("--from="):
            source = others[options.pop(0).removeprefix("--from=")].root
        place = self.root / Path(self.folder, target).relative_to("/")
        for one in options:
            found = source / one.lstrip("/")
            if found.is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "*.so")
                keep = None if source != context else ignored
                shutil.copytree(found, place, symlinks=True, ignore=keep, dirs_exist_ok=True)
            else:
                place.mkdir(parents=True, exist_ok=True)
                shutil.copy2(found, place / found.name)


def build(
    dockerfile: Path, base: Path, work: Path, given: dict[str, str], shown: list[str]
) -> tuple[Stage, dict]:
    """Carry out a Dockerfile; return its last stage, and what it says of running."""
    stages: dict[str, Stage] = {}
    stage, everywhere, says = None, {}, {}
    for head, rest in instructions(dockerfile.read_text()):
        if head == "FROM":
            name = rest.partition(" AS ")[2] or "last"
            print(f"+ FROM {substituted(rest, everywhere)} (here: {base})", flush=True)
            stage = stages[name] = Stage(base, work / name, shown)
        elif head == "ARG":
            name, _, value = rest.partition("=")
            (everywhere if stage is None else stage.arguments)[name] = given.get(name, value)
        elif stage is None:
            raise SystemExit(f"{head} stands before FROM")
        elif head == "ENV":
            for pair in shlex.split(rest):
                name, _, value = pair.partition("=")
                stage.variables[name] = substituted(value, stage.variables)
        elif head == "RUN":
            stage.run(rest)
        elif head == "COPY":
            stage.copy(rest, stages, dockerfile.parents[1])
        elif head == "WORKDIR":
            stage.folder = rest
            (stage.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif head == "USER":
            stage.user = rest
        elif head == "HEALTHCHECK":
            says[head] = json.loads(rest.partition("CMD ")[2])
        elif head in ("CMD", "ENTRYPOINT"):
            says[head] = json.loads(rest)
        else:
            print(f"  {head} {rest}: for an engine", flush=True)
    assert stage is not None
    return stage, says


def start(stage: Stage, command: list[str], data: Path, settings: Path) -> subprocess.Popen[bytes]:
    """Begin a command of the image as its user: the root is read-only, /data a volume, /tmp in memory."""
    root = stage.root
    mounts = [
        f"mount --bind {root} {root}",
        f"mount -o remount,ro,bind {root}",
        f"mount --bind {data} {root}/data",
        f"mount -t tmpfs tmpfs {root}/tmp",
        f"mount --bind -o ro {settings} {root}/etc/dygcn",
        f"mount -t proc proc {root}/proc",
        f"mount --bind /dev {root}/dev",
    ]
    inside = "exec " + shlex.join(["/usr/bin/env", "-C", "/data", *command])
    chroot = f"exec chroot --userspec={stage.user} {root} /bin/sh -c {shlex.quote(inside)}"
    script = " && ".join([*mounts, chroot])
    return subprocess.Popen(["/usr/bin/unshare", "-m", "/bin/sh", "-c", script], env=stage.variables)


def attempt(stage: Stage, says: dict, work: Path, health: str) -> None:
    """Fit a graph, serve it, ask the health check, and end it by SIGTERM."""
    data, settings = work / "data", work / "settings"
    for folder in (data, settings, stage.root / "etc/dygcn"):
        folder.mkdir(exist_ok=True)
    (data / "events.csv").write_text(EVENTS)
    (settings / "dygcn.toml").write_text(SETTINGS)
    os.chown(data, *map(int, stage.user.split(":")))
    entry = says["ENTRYPOINT"]
    fit = [*entry, "fit", "/data/events.csv", "--out", "/data/live.dygcn", "--dim", "8"]
    write = ["python", "-c", "open('/venv/written', 'w')"]
    if start(stage, write, data, settings).wait() == 0:
        raise SystemExit("the root can be written")
    if start(stage, fit, data, settings).wait():
        raise SystemExit("fit failed")
    service = start(stage, [*entry, *says["CMD"]], data, settings)
    check = [part.replace("/livez", health) for part in says["HEALTHCHECK"]]
    until = time.monotonic() + 120
    while start(stage, check, data, settings).wait():
        if time.monotonic() > until or service.poll() is not None:
            raise SystemExit("the health check never succeeded")
        time.sleep(1)
    print("the health check succeeds", flush=True)
    service.send_signal(signal.SIGTERM)
    print(f"after SIGTERM the exit code is {service.wait(40)}", flush=True)
    if service.returncode not in (0, -signal.SIGTERM, 128 + signal.SIGTERM):
        raise SystemExit(1)


def main() -> None:
    """Build, and try."""
    reader = argparse.ArgumentParser()
    reader.add_argument("base", type=Path)
    reader.add_argument("work", type=Path)
    reader.add_argument("--arg", action="append", default=[])
    reader.add_argument("--show", action="append", default=[])
    reader.add_argument("--health", default="/livez")
    asked = reader.parse_args()
    asked.work.mkdir(parents=True)
    given = dict(one.split("=", 1) for one in asked.arg)
    stage, says = build(HERE / "Dockerfile", asked.base, asked.work.resolve(), given, asked.show)
    attempt(stage, says, asked.work.resolve(), asked.health)
    print("tried: every instruction, fit, serve, health check, SIGTERM", flush=True)


if __name__ == "__main__":
    sys.exit(main())
