"""The page on sizing has what the results say."""

from pathlib import Path

import msgspec

from dygcn_lab.costs import sizing

ROOT = Path(__file__).parents[3]


def test_the_page_is_current():
    assert sizing.page(ROOT) == (ROOT / sizing.PAGE).read_text(encoding="utf-8")


def test_a_number_that_was_typed_would_be_noticed():
    results = [
        msgspec.json.decode((ROOT / one).read_bytes())
        for one in (sizing.MEMORY, sizing.SCALE, sizing.KINDS, sizing.DISK)
    ]
    before = sizing.table(*results)
    results[0]["rows"][0]["bytes_per_node"] *= 2
    assert sizing.table(*results) != before
