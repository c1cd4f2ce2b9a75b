"""The page of recommendations holds what the results say."""

from pathlib import Path

from dygcn_lab.experiments.recommending_page import page

ROOT = Path(__file__).parents[3]


def test_the_page_is_what_the_results_say():
    written = (ROOT / "docs" / "recommendations.md").read_text(encoding="utf-8")
    assert written == page(ROOT / "results" / "recommend")
