"""Facts about every data set, read from ``registry.toml``."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files

import msgspec

from dygcn.errors import DatasetError


class Window(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="window"):
    """Snapshots first..last, each a step; the first one is the start."""

    first: int
    last: int


class Equal(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="equal"):
    """The first part of the events is the start; the rest is divided into parts with equally many events."""

    parts: int
    start: float


class Original(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The publisher's own file, if dygcn can read it."""

    file: str
    content: str  # sha256 of the edges and attributes in it


class DatasetInfo(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Facts about one data set.

    Examples
    --------
    >>> about = info("as-733")
    >>> about.title, about.nodes, about.events, about.deletions, about.ships_in
    ('Autonomous systems, daily', 7716, 232638, 110033, 'dygcn_lab.datasets')
    >>> about.cut
    Window(first=673, last=732)
    """

    name: str
    title: str
    what: str
    nodes: int
    events: int
    deletions: int
    time: str  # unit of t
    publisher: str
    address: str
    source: str  # of the converted copy
    citation: str
    terms: str
    cut: Window | Equal  # the steps of evaluations
    labels: tuple[str, ...] = ()  # columns of nodes.parquet; the first one is the default
    missing: int | None = None  # the number that means "no label"
    sha256: dict[str, str] = {}
    original: Original | None = None
    grown_from: str = ""  # the set that this one is a growing sample of
    ships_in: str = ""  # the package whose folder `shipped` has a copy

    @property
    def shipped_file(self) -> str:
        """The name of that copy."""
        return f"{self.name}.parquet"


@cache
def registry() -> dict[str, DatasetInfo]:
    """Return the facts about every set, by name."""
    content = tomllib.loads(files("dygcn.datasets").joinpath("registry.toml").read_text("utf-8"))
    return {name: msgspec.convert({"name": name, **facts}, DatasetInfo) for name, facts in content.items()}


def names() -> list[str]:
    """Return the names that `load` accepts.

    Examples
    --------
    >>> len(names()), names()[:3]
    (22, ['as-733', 'hepth-collab', 'cit-hepth'])
    """
    return list(registry())


def shipped_names(package: str) -> list[str]:
    """Return the names of the sets that come with a package."""
    return [name for name, about in registry().items() if about.ships_in == package]


def info(name: str) -> DatasetInfo:
    """Return the facts about a set; raise `DatasetError` if it is unknown.

    Examples
    --------
    >>> info("fb100-amherst41").labels
    ('year', 'status', 'gender', 'major', 'second_major', 'dorm', 'high_school')
    """
    try:
        return registry()[name]
    except (KeyError, TypeError):
        known = ", ".join(names())
        raise DatasetError(f"{name!r} is not a data set that dygcn knows; known are {known}") from None
