"""The page of what comes next says what was measured, lost or won; planted events are what they say."""

import json
from pathlib import Path

import numpy as np
import pytest

from dygcn_lab.evaluation.following import Stream
from dygcn_lab.experiments.following_page import counts, main_table, page, said
from dygcn_lab.experiments.short_and_long import long_answer
from dygcn_lab.experiments.unusual import KINDS, planted

ROOT = Path(__file__).parents[3]
NOW = "state 0 events old"


def row(ours, low, high, seeds=(0.5, 0.5)):
    return {
        "mrr": {"ours": ours, "recency": 0.4, "EdgeBank": 0.3},
        "mrr of new pairs": {"ours": 0.2, "recency": 0.1, "EdgeBank": 0.0},
        "by seed": list(seeds),
        "ours minus": {"recency": [ours - 0.4, low, high], "EdgeBank": [ours - 0.3, 0.01, 0.2]},
    }


MEASURED = {
    "one": {NOW: {"random": row(0.5, 0.05, 0.2), "historical": row(0.41, -0.01, 0.03)}},
    "two": {NOW: {"all": row(0.3, -0.2, -0.05, (0.3, 0.34))}},
}


def test_a_row_says_beside_whom_ours_stands():
    assert said(MEASURED["one"][NOW]["random"]) == "surely above all"
    assert said(MEASURED["one"][NOW]["historical"]) == "tied with recency"
    assert said(MEASURED["two"][NOW]["all"]) == "surely below recency"


def test_what_is_lost_is_counted():
    text = counts(MEASURED).splitlines()
    logit = "above the logit on heuristics, too, on"
    assert text[0].endswith(
        f"that learns nothing on 1 of 2 sets, {logit} 1; surely below any of them on two."
    )
    assert text[1].endswith(
        f"that learns nothing on 0 of 2 sets, {logit} 0; surely below any of them on two."
    )
    assert "0.040 at most, above .01 in 1 of 3 rows" in text[2]
    table = main_table(MEASURED, NOW).splitlines()
    assert table[2].startswith(
        "| one | random | **0.500** | 0.400 recency | surely above all | 0.200, 0.100 recency"
    )
    assert table[4].startswith(
        "| two | all candidates | 0.300 ± 0.040 | 0.400 recency | surely below recency"
    )


def test_the_long_benchmark_names_somebody():
    assert long_answer(MEASURED["one"][NOW]["random"]) == ("ours", "recency")
    assert long_answer(MEASURED["one"][NOW]["historical"]) == ("nobody", "recency")
    assert long_answer(MEASURED["two"][NOW]["all"]) == ("recency", "recency")


def test_the_page_is_what_the_files_say():
    assert (ROOT / "docs" / "what-comes-next.md").read_text(encoding="utf-8") == page(
        ROOT / "results" / "following"
    )


def test_every_set_was_asked_with_five_seeds():
    found = json.loads((ROOT / "results" / "following" / "now.json").read_text())
    assert len(found) == 16
    for each in found.values():
        for kind in ("all", "random", "historical"):
            if kind in each[NOW]:
                assert len(each[NOW][kind]["by seed"]) == 5


@pytest.mark.parametrize("kind", KINDS)
def test_planted_events_stand_behind_real_ones(kind):
    random = np.random.default_rng(0)
    src = random.integers(0, 20, 400)
    dst = 20 + random.integers(0, 20, 400)
    stream = Stream("made up", src, dst, np.arange(400.0), np.ones(400, np.int64))
    table, fake = planted(stream, 200, 400, kind, 0)
    assert fake.sum() == 10
    for name, column in (("src", src), ("dst", dst), ("t", stream.t)):
        np.testing.assert_array_equal(table[name][~fake], column[200:])
    before = np.flatnonzero(fake) - 1
    assert not fake[before].any()
    for name in ("src", "t"):
        np.testing.assert_array_equal(table[name][fake], table[name][before])
    assert set(table["dst"][fake]) <= set(dst[:200])
