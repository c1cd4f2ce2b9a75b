"""Engines by turns on graphs with hubs."""

import json
from pathlib import Path

import pytest

from dygcn_lab.costs import hub_readers, hubs
from dygcn_lab.report.blocks import with_blocks

ROOT = Path(__file__).parents[3]


def test_engines_take_turns_and_agree():
    found = hubs.measure("hubs-600-4000", None)
    tiers, pushed = found["tiers"], found["pushed"]
    assert tiers["digest"] == pushed["digest"]
    assert tiers["heavy"] > 0 == pushed["heavy"]
    assert tiers["rows"] < pushed["rows"]
    assert "| hubs-600-4000 |" in hubs.table([found])


@pytest.mark.parametrize(
    ("block", "result", "table"),
    [
        ("hubs", hubs.RESULT, hubs.table),
        ("hub counts", hubs.COUNTS, hubs.counts_table),
        ("hub readers", hub_readers.RESULT, hub_readers.table),
        ("hub http", hub_readers.HTTP, hub_readers.over_http_line),
    ],
)
def test_the_page_shows_what_was_measured(block, result, table):
    text = table(json.loads((ROOT / result).read_text()))
    assert with_blocks(ROOT / hubs.PAGE, {block: text}) == (ROOT / hubs.PAGE).read_text()


def test_rows_are_counted_without_other_engines():
    found = hubs.count("hubs-600-4000")
    assert found["rows"] < found["pushed_to_all"]
    assert "| hubs-600-4000," in hubs.counts_table([found])


def test_readers_beside_events_answer(monkeypatch):
    monkeypatch.setattr(hub_readers, "SECONDS", 0.2)
    found = hub_readers.measure("hubs-600-4000")
    assert len(found["lines"]) == 24
    assert all(line["reads"] > 0 and line["asked"] < 1 for line in found["lines"])
    assert "| hubs-600-4000 |" in hub_readers.table([found])


def test_an_event_meets_few_rows_on_every_graph_that_was_measured():
    """At most two thresholds and a part of the square root of the edges, however great the hub."""
    for row in json.loads((ROOT / hubs.RESULT).read_text()):
        assert row["tiers"]["rows_most"] <= 2 * 128 + 2 * row["tiers"]["edges"] ** 0.5
