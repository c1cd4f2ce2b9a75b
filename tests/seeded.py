"""Seeded bugs in compiled loops: a fresh copy of a module with one wrong line, put where the right one was.

Compiled code does not notice that a function it calls was replaced, so every module between the wrong line
and the place in plain Python that calls it must be copied, too.
"""

import importlib
import sys
from pathlib import Path
from types import ModuleType

from numba.core.caching import NullCache
from numba.core.dispatcher import Dispatcher


def seed_bug(monkeypatch, name, line, wrong, *, through=(), places):
    """Put a wrong line in the place of one that occurs once in a module.

    Parameters
    ----------
    name
        The module.
    line, wrong
        Without their indentation; what is wrong may be several lines.
    through
        Modules whose loops call those of the first, in the order in which they import each other.
    places
        Where plain Python finds what was copied, and what it shall find there: a copied module, or one of
        its functions.
    """
    names = (name, *through)
    with monkeypatch.context() as meanwhile:
        for each in names:
            source = Path(importlib.import_module(each).__file__).read_text()
            if each == name:
                source = with_line(source, line, wrong)
            package, _, short = each.rpartition(".")
            copy = ModuleType(each)
            meanwhile.setitem(sys.modules, each, copy)
            meanwhile.setattr(sys.modules[package], short, copy)
            exec(compile(source, f"<{each} with a seeded bug>", "exec"), copy.__dict__)
            assert_nothing_is_kept(copy)
        copies = {each: sys.modules[each] for each in names}
    for place, copied in places.items():
        monkeypatch.setattr(place, _find(copies, copied))


def in_pieces(monkeypatch):
    """Have even the smallest update go order by order: a wrong loop then has less to compile."""
    monkeypatch.setattr("dygcn.propagation.exact.FEW", -1)


def with_line(source, line, wrong):
    """Return source with another line (or lines) in the place of one that stands there exactly once."""
    lines = source.splitlines()
    found = [at for at, text in enumerate(lines) if text.strip() == line]
    assert len(found) == 1, f"{line!r} stands there {len(found)} times"
    indent = lines[found[0]][: -len(line)]
    lines[found[0]] = "\n".join(indent + text for text in wrong.splitlines())
    return "\n".join(lines) + "\n"


def assert_nothing_is_kept(module):
    """A wrong loop that is kept on disk would be found by the next run, where it should be right."""
    loops = [
        value
        for value in vars(module).values()
        if isinstance(value, Dispatcher) and value.py_func.__globals__ is vars(module)
    ]
    assert loops
    assert all(isinstance(loop._cache, NullCache) for loop in loops)


def _find(copies, copied):
    if copied in copies:
        return copies[copied]
    module, _, name = copied.rpartition(".")
    return getattr(copies[module], name)
