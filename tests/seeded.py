"""Seeded bugs in kernels: an uncompiled copy of the package with one wrong line, and a test on it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import dygcn

ROOT = Path(__file__).parents[1]
_BUILT = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
_NOTICED = 7
_TRIAL = """
import importlib, sys
copy, root, name, hunt, arguments, noticed = sys.argv[1:]
sys.path[:0] = [copy, root, f"{root}/lab/src"]
import pytest
from hypothesis.errors import Flaky
import dygcn
from dygcn.errors import DygcnError
assert dygcn.__file__.startswith(copy), dygcn.__file__
hunt = getattr(importlib.import_module(name), hunt)
try:
    hunt(*eval(arguments))
except (AssertionError, DygcnError, Flaky, pytest.fail.Exception) as error:
    print(type(error).__name__, error)
    sys.exit(int(noticed))
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
    """Run a test on such a copy, in a process of its own."""
    copy = wrong_copy(tmp_path, name, line, wrong)
    result = [hunt.__module__, hunt.__qualname__, repr(arguments), str(_NOTICED)]
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _TRIAL, copy, ROOT, *result],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, **elsewhere()},
    )


def wrong_copy(folder, name, line, wrong):
    """Make such a copy; return where it can be imported from."""
    copy = copy_uncompiled(folder)
    file = (copy / name.replace(".", "/")).with_suffix(".py")
    changes = [(line, wrong)] if isinstance(line, str) else zip(line, wrong, strict=True)
    for right, instead in changes:
        file.write_text(with_line(file.read_text(), right, instead))
    return copy


def copy_uncompiled(folder):
    """Copy the package without what was compiled; return where it can be imported from."""
    shutil.copytree(Path(dygcn.__file__).parent, folder / "copy" / "dygcn", ignore=_BUILT)
    return folder / "copy"


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
