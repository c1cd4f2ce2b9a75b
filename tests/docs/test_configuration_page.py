"""The page of the configuration names every key with its default."""

from pathlib import Path

import msgspec
import pytest

from dygcn.serving.observing.tracing import Otel
from dygcn.serving.service.settings import Http, Limits, LogSettings, NearestSettings, ServiceSettings, Shards
from dygcn.serving.sinks import SINKS
from dygcn.serving.sources import SOURCES

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
NESTED = {"http", "limits", "nearest", "log", "otel", "sources", "sinks"}


def section(title):
    """Return the rows of the first table under a title, as lists of cells."""
    text = PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def by_kind(rows):
    """Return the keys and defaults of each kind; a kind is named in its first row only."""
    found, kind = {}, ""
    for first, key, default, *_ in rows:
        kind = first.strip("`") or kind
        found.setdefault(kind, {})[key.strip("`")] = default
    return found


def defaults(settings):
    """Return what the page should say of each key."""
    found = {}
    for field in msgspec.structs.fields(settings):
        made = field.default_factory is not msgspec.NODEFAULT
        value = field.default_factory() if made else field.default
        shown = msgspec.json.encode(value).decode() if value is not msgspec.NODEFAULT else ""
        found[field.name] = "-" if not shown else "none" if value is None else f"`{shown}`"
    return found


def plain(rows):
    return {key.strip("`"): default for key, default, *_ in rows if "," not in key}


@pytest.mark.parametrize(
    ("title", "settings"),
    [
        ("`[http]`", Http),
        ("`[limits]`", Limits),
        ("`[shards]`", Shards),
        ("`[nearest]`", NearestSettings),
        ("`[log]`", LogSettings),
        ("`[otel]`", Otel),
    ],
)
def test_a_table_has_every_key(title, settings):
    assert plain(section(title)) == defaults(settings)


def test_the_process_has_every_key():
    own = {key: value for key, value in defaults(ServiceSettings).items() if key not in NESTED}
    assert plain(section("The process")) == own


@pytest.mark.parametrize(("title", "kinds"), [("`[[sources]]`", SOURCES), ("`[[sinks]]`", SINKS)])
def test_every_kind_has_every_key(title, kinds):
    expected = {kind: defaults(settings) for kind, settings in kinds.items()}
    assert by_kind(section(title)) == expected
