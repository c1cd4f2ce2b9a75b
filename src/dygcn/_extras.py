"""Imports that may fail or wait: optional packages, plugins of other distributions, modules on first use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dygcn.errors import MissingExtra, OptionError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


@contextmanager
def extra(name: str, of: str = "dygcn") -> Iterator[None]:
    """Raise `MissingExtra`, with the command that installs it, if an import in the block fails."""
    try:
        yield
    except ModuleNotFoundError as missing:
        raise MissingExtra(f'{missing.name} is not installed. Run: pip install "{of}[{name}]"') from missing


def plugins(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of other distributions in a group, by name, without importing any."""
    return _plugins(group, tuple(sys.path))


@cache
def _plugins(group: str, path: tuple[str, ...]) -> dict[str, EntryPoint]:
    """Read the files of every distribution on the path once: this takes longer than a small fit."""
    return {entry.name: entry for entry in import_module("importlib.metadata").entry_points(group=group)}


def load_plugin(group: str, name: str, known: Iterable[str]) -> Any:
    """Import another distribution's object by its entry point; `known` are dygcn's names, for the error."""
    found = plugins(group)
    if name not in found:
        allowed = ", ".join([*known, *found])
        raise OptionError(
            f"{name!r} is unknown; allowed are {allowed}, and entry points of the group {group!r} of other "
            f"distributions: install the one that has {name!r}"
        )
    try:
        return found[name].load()
    except (ImportError, AttributeError) as error:
        distribution = getattr(found[name].dist, "name", "its distribution")
        raise MissingExtra(
            f"{name!r} of the group {group!r} cannot be loaded: {error}. "
            f"Run: pip install --upgrade --force-reinstall {distribution}"
        ) from error


class _Late:
    """A stand-in for a module, which is imported when an attribute is read."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)


def late(name: str) -> Any:
    """Return a stand-in for a module that is imported when one of its attributes is read.

    For the type checker, import the module itself under ``TYPE_CHECKING``.
    """
    return _Late(name)


def late_names(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package whose names are imported on first use."""

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return find, lambda: sorted(homes)
