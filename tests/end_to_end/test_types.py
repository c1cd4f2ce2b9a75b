"""The types that users see: mypy and pyright, both strict, on a user's script against the built wheel."""

import ast
import importlib
import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dygcn

SCRIPT = Path(__file__).with_name("users_script.py")
PLAIN = os.environ.get("DYGCN_PLAIN")
IDS = "NDArray[Any]"  # int64 or str objects, which only the graph decides
OTHERS = {"to_pandas", "to_networkx", "plot"}  # types of packages that may be missing


def check(*command):
    python = f"{PLAIN}/python" if PLAIN else sys.executable
    done = subprocess.run([*command, python, str(SCRIPT)], capture_output=True, text=True, cwd=SCRIPT.parent)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_script_runs():
    subprocess.run([sys.executable, str(SCRIPT)], check=True)


@pytest.mark.skipif(not PLAIN, reason="DYGCN_PLAIN names no environment with the built wheel")
def test_mypy_finds_nothing():
    check(sys.executable, "-m", "mypy", "--strict", "--config-file=", "--python-executable")


@pytest.mark.skipif(not PLAIN, reason="DYGCN_PLAIN names no environment with the built wheel")
@pytest.mark.skipif(shutil.which("pyright") is None, reason="pyright is not installed")
def test_pyright_finds_nothing(tmp_path):
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    shutil.copy(SCRIPT, tmp_path / "script.py")
    command = ["pyright", "--pythonpath", f"{PLAIN}/python", "--project", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def public_functions():
    for name in dygcn.__all__:
        thing = getattr(dygcn, name)
        if inspect.isfunction(thing):
            yield name, thing
        elif inspect.isclass(thing) and not issubclass(thing, BaseException):
            for method, found in inspect.getmembers(thing, inspect.isfunction):
                if not method.startswith("_"):
                    yield f"{name}.{method}", found


def test_nothing_public_is_any():
    """Results are named types; `Any` may be an argument only where anything tabular is taken."""
    loose = []
    for name, function in public_functions():
        if function.__name__ in OTHERS:
            continue
        source = inspect.getsource(importlib.import_module(function.__module__))
        for node in ast.walk(ast.parse(source)):
            if (
                isinstance(node, ast.FunctionDef)
                and node.name == function.__name__
                and node.returns is not None
            ):
                if "Any" in ast.unparse(node.returns).replace(IDS, ""):
                    loose.append(name)
                break
    assert loose == []
