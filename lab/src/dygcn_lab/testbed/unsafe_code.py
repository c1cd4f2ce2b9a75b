"""Finds code that would execute its input, in the syntax tree of a source: the library has none."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_MODULES = {
    "cloudpickle",
    "cPickle",
    "dill",
    "joblib",
    "jsonpickle",
    "marshal",
    "pickle",
    "_pickle",
    "shelve",
}
_BUILTINS = {"eval", "exec", "__import__"}
_CALLS = {
    "numpy": {"loads"},
    "np": {"loads"},
    "torch": {"load"},
    "torch.jit": {"load"},
    "yaml": {"load", "load_all", "full_load", "full_load_all", "unsafe_load", "unsafe_load_all"},
    "pandas": {"read_pickle", "eval"},
    "pd": {"read_pickle", "eval"},
    "pyarrow": {"deserialize"},
    "pa": {"deserialize"},
    "os": {"system", "popen"},
}
_SWITCHES = {"allow_pickle": "lets a file of arrays run code", "shell": "lets a shell read a command"}
_METHODS = {"enable_load_extension", "load_extension", "read_pickle"}


def unsafe_code(source: str) -> list[str]:
    """Return the calls in a source that would execute their input, with their lines."""
    found = [
        (node.lineno, reason)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Call)
        for reason in _reasons(node)
    ]
    return [f"line {line}: {reason}" for line, reason in sorted(found)]


def _reasons(node: ast.Import | ast.ImportFrom | ast.Call) -> Iterator[str]:
    if isinstance(node, ast.Call):
        yield from _of_call(node)
        return
    names = [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        wanted = _CALLS.get(node.module or "", set())
        yield from (f"{name} of {node.module} runs what it reads" for name in names if name in wanted)
        names = [node.module or ""] if not node.level else []
    for name in names:
        if name.partition(".")[0] in _MODULES:
            yield f"{name} runs what it reads"


def _of_call(node: ast.Call) -> Iterator[str]:
    for keyword in node.keywords:
        off = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
        if keyword.arg in _SWITCHES and not off:
            yield f"{keyword.arg} {_SWITCHES[keyword.arg]}"
    name = ast.unparse(node.func)
    owner, _, last = name.rpartition(".")
    builtin = isinstance(node.func, ast.Name) and name in _BUILTINS
    if builtin or last in _CALLS.get(owner, ()) or (owner and last in _METHODS):
        yield f"{name} runs what it reads"
    elif last == "import_module" and node.args and _names_unsafe(node.args[0]):
        yield f"{ast.unparse(node.args[0])} runs what it reads"


def _names_unsafe(node: ast.expr) -> bool:
    text = node.value if isinstance(node, ast.Constant) else None
    return isinstance(text, str) and text.partition(".")[0] in _MODULES
