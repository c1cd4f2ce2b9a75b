"""Rules, sources and sinks of other distributions join by entry points, found by name and loaded late."""

import itertools
import shutil
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest

import dygcn
from dygcn.errors import MissingExtra, OptionError
from dygcn.serving.service.service import Service
from dygcn.serving.service.settings import parse_settings
from dygcn.serving.sinks import read_sink
from dygcn.serving.sources import read_source
from dygcn.testing import SinkTarget, check_sink, check_source, named, source_checks

EXAMPLE = Path(__file__).parent / "third_party"
EVENTS = [("ann", "bob"), ("bob", "cat"), ("cat", "ann"), ("cat", "dan"), ("dan", "eve")]


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The example as an installer leaves it: the package, and beside it a folder with its entry points."""
    site = tmp_path / "site"
    shutil.copytree(EXAMPLE / "dygcn_example", site / "dygcn_example")
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    about = site / f"dygcn_example-{project['version']}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (about / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(site))
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "dygcn_example"]:
        del sys.modules[name]


def test_a_rule_is_fitted_updated_saved_and_loaded(installed, tmp_path):
    live = dygcn.fit(EVENTS, dim=8, rule="even")
    assert live.model.spec.name == "even"
    assert len({matrix.tobytes() for matrix in live.model.weights}) == 1
    live.update(add=[("eve", "fay")])
    live.save(tmp_path / "saved")
    again = dygcn.load(tmp_path / "saved")
    assert again.digest() == live.digest()
    assert np.array_equal(again["fay"], live["fay"])


def test_a_rule_that_is_not_installed_is_named():
    with pytest.raises(OptionError, match="rule is 'even'; known: exact"):
        dygcn.fit(EVENTS, dim=8, rule="even")


def test_a_source_does_what_a_source_promises(installed, monkeypatch):
    for name, seconds in (("QUIET", 0.02), ("FIRST", 0.05)):  # a list has all messages at once
        monkeypatch.setattr(source_checks, name, seconds)
    settings = read_source({"kind": "list", "name": "clicks"})
    settings.make()
    check_source(settings.make, sys.modules["dygcn_example.source"].LISTS["clicks"].extend)


def test_a_sink_does_what_a_sink_promises(installed):
    numbers = itertools.count()

    def fresh():
        settings = read_sink({"kind": "dict", "name": f"t{next(numbers)}"})
        tables = sys.modules["dygcn_example.sink"].TABLES

        def read_all():
            shape, _, rows = tables[settings.name]
            with_kinds = shape is not None and shape.with_kinds
            return {
                named(id_, id_.partition(":")[0] if with_kinds else None): row
                for id_, row in rows.items()
                if row[1] is not None
            }

        return SinkTarget(settings.make, read_all)

    check_sink(fresh, examples=3)


def test_a_service_reads_and_writes_them(installed, tmp_path):
    dygcn.fit(EVENTS, dim=8, rule="even").save(tmp_path / "people")
    settings = parse_settings(
        f"""folder = "{tmp_path}/people"
        [[sources]]
        kind = "list"
        name = "friends"
        [[sinks]]
        kind = "dict"
        name = "vectors"
        """
    )
    service = Service(settings)
    service.start()
    try:
        sys.modules["dygcn_example.source"].LISTS["friends"].append(b'{"src": "eve", "dst": "gus"}')
        rows = sys.modules["dygcn_example.sink"].TABLES["vectors"][2]
        until = time.monotonic() + 30
        while "gus" not in rows and time.monotonic() < until:
            time.sleep(0.02)
        assert np.array_equal(rows["gus"][1], service.live["gus"])
    finally:
        service.stop()


def test_kinds_that_nothing_brings_say_what_there_is(installed):
    with pytest.raises(
        OptionError, match=r"'ftp' is unknown; allowed are nats, .*, list, and .*'dygcn.sources'"
    ):
        read_source({"kind": "ftp"})
    with pytest.raises(OptionError, match=r"sinks\[0\]|'mongo' is unknown; allowed are postgres, .*, dict"):
        parse_settings('folder = "x"\n[[sinks]]\nkind = "mongo"')


def test_one_that_cannot_be_imported_says_what_to_install(installed):
    with pytest.raises(MissingExtra, match=r"dygcn_example.missing.*pip install .* dygcn-example"):
        read_sink({"kind": "broken"})


def test_settings_of_others_are_strict(installed):
    with pytest.raises(OptionError, match=r"unknown field `nmae` - at `\$.sources\[0\]`"):
        parse_settings('folder = "x"\n[[sources]]\nkind = "list"\nname = "a"\nnmae = "b"')
