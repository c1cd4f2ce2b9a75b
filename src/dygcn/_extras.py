"""Optional packages, and plugins of other distributions; errors say what to install."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from dygcn.errors import MissingExtra, OptionError


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
    return {entry.name: entry for entry in entry_points(group=group)}


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
