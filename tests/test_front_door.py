"""The front door is small, sorted and what it says."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import dygcn
from dygcn import errors
from dygcn_lab.testbed.unsafe_code import unsafe_code

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src" / "dygcn").rglob("*.py"))


def test_names_are_sorted_and_there():
    assert dygcn.__all__ == sorted(dygcn.__all__)
    for name in dygcn.__all__:
        assert getattr(dygcn, name).__doc__
    assert set(dygcn.__all__) == set(dygcn._HOMES) | {"errors"}
    with pytest.raises(AttributeError, match="no attribute 'magic'"):
        _ = dygcn.magic


def test_every_error_is_of_one_tree_and_says_when_it_comes():
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, Exception):
            assert issubclass(kind, (errors.DygcnError, errors.DygcnWarning))
            assert kind.__doc__


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_stay_small_and_unpickled(source):
    text = source.read_text()
    assert text.count("\n") <= 500
    assert source.stem not in {"utils", "util", "helpers", "common", "misc", "core", "manager"}
    assert unsafe_code(text) == []
    if "cli" not in source.parts:
        assert not any(
            isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print"
            for node in ast.walk(ast.parse(text))
        )
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            lines = (node.end_lineno or 0) - node.lineno + 1
            assert lines - len((ast.get_docstring(node) or "").splitlines()) <= 75, node.name


def test_the_version_is_one():
    assert f'version = "{dygcn.__version__}"' in (ROOT / "pyproject.toml").read_text()


def test_python_dash_m_is_not_needed():
    run = subprocess.run(
        [sys.executable, "-c", "from dygcn.cli import main; main(['--version'])"], capture_output=True
    )
    assert dygcn.__version__.encode() in run.stdout
