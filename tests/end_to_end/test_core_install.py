"""The command line without any extra: every --help answers, and what needs an extra says which, in one line.

Where `DYGCN_PLAIN` names the `bin` of an environment with the core install alone, its `dygcn` runs; else this
Python is, with everything hidden from it that a core install does not bring.
"""

import json
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from dygcn.cli.main import COMMANDS, LAB_COMMANDS

ROOT = Path(__file__).parents[2]
PLAIN, WHEEL = os.environ.get("DYGCN_PLAIN"), os.environ.get("DYGCN_WHEEL")
DEPENDENCIES = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
THEIRS = ["markdown_it", "mdurl", "pygments"]  # what rich brings
SHOWN = ["dygcn", *(one.partition(">")[0] for one in DEPENDENCIES), *THEIRS]
HIDE = f"""
import sys, importlib.abc
class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in shown and not name.startswith("_"):  # some of the standard library's
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
shown = {{*sys.stdlib_module_names, *{SHOWN!r}}}
sys.meta_path.insert(0, Hidden())
import importlib.metadata
importlib.metadata.entry_points = lambda **_: []
"""
HELPS = """
import click, contextlib, io, json
from dygcn.cli import main
def names(command, above):
    yield above
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from names(command.get_command(context, name), [*above, name])
for name in list(names(main, [])):
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        main([*name, "--help"], prog_name="dygcn", standalone_mode=False)
    print(json.dumps([name, text.getvalue()]))
"""

EXAMPLE = """
import doctest, sys
flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
failed, ran = doctest.testfile(sys.argv[1], module_relative=False, optionflags=flags)
sys.exit(bool(failed) or not ran)
"""


def python(script, *arguments):
    """Run a script where there are no extras."""
    start = [f"{PLAIN}/python", "-c", script] if PLAIN else [sys.executable, "-c", HIDE + script]
    env = {name: value for name, value in os.environ.items() if not (PLAIN and name == "PYTHONPATH")}
    return subprocess.run([*start, *map(str, arguments)], capture_output=True, text=True, env=env)


def dygcn(*arguments):
    """Run `dygcn` there."""
    if not PLAIN:
        return python("from dygcn.cli import main; main(prog_name='dygcn')", *arguments)
    return subprocess.run([f"{PLAIN}/dygcn", *map(str, arguments)], capture_output=True, text=True)


@pytest.mark.parametrize("package", ["starlette", "torch", "scipy", "matplotlib", "redis", "pandas"])
def test_there_are_no_extras(package):
    assert "ModuleNotFoundError" in python(f"import {package}").stderr


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_first_lines_that_are_read_need_no_extra(page):
    done = python(EXAMPLE, ROOT / page)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_every_help_answers():
    found = python(HELPS)
    assert (found.returncode, found.stderr) == (0, "")
    shown = [json.loads(line) for line in found.stdout.splitlines()]
    assert {command[0] for command, _ in shown if len(command) == 1} == set(COMMANDS)
    for command, text in shown:
        assert text.startswith("Usage: " + " ".join(["dygcn", *command])), command


@pytest.mark.parametrize(
    ("extra", "command"),
    [
        ("serve", ["serve", "FOLDER"]),
        ("serve", ["run", "CONFIG.toml"]),
        ("torch", ["fit", "events.csv", "--rule", "rolling", "--out", "FOLDER"]),
    ],
)
def test_a_missing_extra_is_one_line(extra, command, tmp_path):
    events = tmp_path / "events.csv"
    events.write_text("src,dst,t\n" + "".join(f"{i % 7},{i % 11 + 20},{i}\n" for i in range(60)))
    paths = {"events.csv": events, "FOLDER": tmp_path / "folder", "CONFIG.toml": tmp_path / "config.toml"}
    done = dygcn(*(paths.get(word, word) for word in command))
    assert done.returncode == 1, done.stderr
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert line.endswith(f'is not installed. Run: pip install "dygcn[{extra}]"')
    assert not (tmp_path / "folder").exists()


@pytest.mark.parametrize("name", LAB_COMMANDS)
def test_a_command_of_the_laboratory_says_what_to_install(name):
    done = dygcn(name, "--quick")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: `dygcn {name}` comes with the laboratory: pip install dygcn-lab\n"
    assert LAB_COMMANDS[name].split()[0] in dygcn("--help").stdout


@pytest.mark.skipif(WHEEL is None, reason="DYGCN_WHEEL names no built wheel")
def test_the_wheel_holds_the_product_and_one_small_data_set():
    with zipfile.ZipFile(WHEEL) as wheel:
        files = {one.filename: one.file_size for one in wheel.infolist()}
    inside = {name.split("/")[1] for name in files if name.startswith("dygcn/")}
    wings = {
        "engine",
        "datasets",
        "paper",
        "live",
        "schema",
        "serving",
        "client",
        "cluster",
        "cli",
        "testing",
    }
    assert inside == wings | {
        *("__init__.py", "_extras.py", "_progress.py", "errors.py", "py.typed", "sklearn.py")
    }
    assert [name for name in files if name.endswith(".parquet")] == [
        "dygcn/datasets/shipped/hepth-collab.parquet"
    ]
    assert not [
        name for name in files if "lab" in name.split("/")[0] or name.endswith((".pyx", ".pxd", ".h", ".c"))
    ]
