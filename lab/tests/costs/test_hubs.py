"""Engines by turns on graphs with hubs."""

import json
from pathlib import Path

from dygcn_lab.costs import hubs

ROOT = Path(__file__).parents[3]


def test_engines_take_turns_and_agree():
    found = hubs.measure("hubs-600-4000", None)
    tiers, pushed = found["tiers"], found["pushed"]
    assert tiers["digest"] == pushed["digest"]
    assert tiers["heavy"] > 0 == pushed["heavy"]
    assert tiers["rows"] < pushed["rows"]
    assert "| hubs-600-4000 |" in hubs.table([found])


def test_the_page_shows_what_was_measured():
    rows = json.loads((ROOT / hubs.RESULT).read_text())
    begin, end = hubs.MARKS
    shown = (ROOT / hubs.PAGE).read_text().partition(begin)[2].partition(end)[0]
    assert shown.strip() == hubs.table(rows)


def test_an_event_meets_few_rows_on_every_graph_that_was_measured():
    """At most two thresholds and a part of the square root of the edges, however great the hub."""
    for row in json.loads((ROOT / hubs.RESULT).read_text()):
        assert row["tiers"]["rows_most"] <= 2 * 128 + 2 * row["tiers"]["edges"] ** 0.5
