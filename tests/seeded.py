"""Seeded bugs in kernels: an uncompiled copy of the package with one wrong line, and a test on it."""

import atexit
import compileall
import json
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import dygcn

ROOT = Path(__file__).parents[1]
_BUILT = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
_NOTICED = 7
_TRIALS = """
import importlib, json, os, sys
import hypothesis.extra.numpy, hypothesis.stateful, numpy, pytest
from hypothesis import Phase, settings
from hypothesis.errors import Flaky
# One failing example is enough, the shortest is not looked for, and to be slow is not to be wrong.
phases = [Phase.explicit, Phase.generate]
settings.register_profile("hunt", phases=phases, report_multiple_bugs=False, deadline=None)
settings.load_profile("hunt")
for line in iter(sys.stdin.readline, ""):
    child = os.fork()
    if not child:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
trial = json.loads(line)
os.chdir(trial["folder"])
for stream, name in ((sys.stdout, "stdout"), (sys.stderr, "stderr")):
    os.dup2(os.open(name, os.O_CREAT | os.O_WRONLY | os.O_TRUNC), stream.fileno(), inheritable=True)
os.dup2(os.open(os.devnull, os.O_RDONLY), 0, inheritable=True)
os.environ.clear()
os.environ.update(trial["environment"])
sys.path[:0] = [trial["copy"], trial["root"], f"{trial['root']}/lab/src"]
import dygcn
from dygcn.errors import DygcnError
assert dygcn.__file__.startswith(trial["copy"]), dygcn.__file__
hunt = getattr(importlib.import_module(trial["module"]), trial["hunt"])
try:
    hunt(*eval(trial["arguments"]))
except (AssertionError, DygcnError, Flaky, pytest.fail.Exception) as error:
    print(type(error).__name__, error)
    sys.exit(trial["noticed"])
"""


def assert_noticed(tmp_path, name, line, wrong, hunt, *arguments):
    """Put a wrong line in the place of one that stands once in a module; assert that a test then fails.

    Not by any exception: code that no longer is what the bug was made for would raise one, too.

    Parameters
    ----------
    name
        The module.
    line, wrong
        Without their indentation; what is wrong may be several lines. Or several of each.
    hunt
        A function of a test module.
    arguments
        Literals.
    """
    done = try_with(tmp_path, name, line, wrong, hunt, *arguments)
    assert done.returncode == _NOTICED, f"not noticed: {done.stdout}{done.stderr}"


def try_with(tmp_path, name, line, wrong, hunt, *arguments):
    """Run a test on such a copy, in a process of its own; return its exit code and output."""
    copy = wrong_copy(tmp_path, name, line, wrong)
    trial = {
        "copy": str(copy),
        "root": str(ROOT),
        "module": hunt.__module__,
        "hunt": hunt.__qualname__,
        "arguments": repr(arguments),
        "noticed": _NOTICED,
        "environment": {**os.environ, **elsewhere()},
    }
    return subprocess.CompletedProcess(trial, *_run_trial(tmp_path, trial))


def _run_trial(folder, trial):
    """Fork the process that has imported numpy, pytest and hypothesis: that takes longer than most trials."""
    trials = _trials()
    trials.stdin.write(json.dumps({**trial, "folder": str(folder)}) + "\n")
    trials.stdin.flush()
    code = int(trials.stdout.readline())
    return code, *((folder / name).read_text() for name in ("stdout", "stderr"))


@cache
def _trials():
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", _TRIALS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def wrong_copy(folder, name, line, wrong):
    """Make such a copy; return where it can be imported from."""
    copy = copy_uncompiled(folder)
    file = (copy / name.replace(".", "/")).with_suffix(".py")
    source = file.read_text()
    for right, instead in [(line, wrong)] if isinstance(line, str) else zip(line, wrong, strict=True):
        source = with_line(source, right, instead)
    file.unlink()  # it is a link
    file.write_text(source)
    for cached in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
        cached.unlink()
    return copy


def copy_uncompiled(folder):
    """Copy the package without what was compiled, by links; return where it can be imported from."""
    shutil.copytree(_bytecode(), folder / "copy" / "dygcn", copy_function=os.link)
    return folder / "copy"


@cache
def _bytecode():
    """Copy the package with its bytecode, but no compiled kernels; the folder goes when this process ends."""
    folder = tempfile.TemporaryDirectory(prefix="uncompiled-")
    atexit.register(folder.cleanup)
    shutil.copytree(Path(dygcn.__file__).parent, Path(folder.name, "dygcn"), ignore=_BUILT)
    compileall.compile_dir(folder.name, quiet=2)
    return Path(folder.name, "dygcn")


def copy_sources(folder):
    """Copy all that a build needs."""
    shutil.copytree(ROOT / "src", folder / "src", ignore=_BUILT)
    for file in ("meson.build", "meson.options", "pyproject.toml"):
        shutil.copy2(ROOT / file, folder / file)


def elsewhere():
    """Return the environment in which an editable install does not answer for the package."""
    builds = [one._build_path for one in sys.meta_path if type(one).__name__ == "MesonpyMetaFinder"]
    return {"MESONPY_EDITABLE_SKIP": os.pathsep.join(builds)}


def with_line(source, line, wrong):
    """Return source with another line (or lines) in the place of one that stands there exactly once."""
    lines = source.splitlines()
    found = [at for at, text in enumerate(lines) if text.strip() == line]
    assert len(found) == 1, f"{line!r} stands there {len(found)} times"
    indent = lines[found[0]][: -len(line)]
    lines[found[0]] = "\n".join(indent + text for text in wrong.splitlines())
    return "\n".join(lines) + "\n"
