"""The page of problems names every type with its status and its title; only the page says what to do."""

from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "problems.md").read_text(encoding="utf-8")


def rows(page):
    """Return the cells of the table."""
    found = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if "| `/" in line
    ]
    return [(name.strip("`"), int(status), title) for name, status, title, remedy in found if remedy]


def expected():
    problems = pytest.importorskip("dygcn.serving.service.problems")
    return [(problems.BASE + one.name, one.status, one.title) for one in problems.TYPES]


def test_the_page_has_every_type():
    assert rows(PAGE) == expected()


def test_a_type_that_is_missing_would_be_noticed():
    assert rows(PAGE.replace("| `/problems/closing`", "| closing")) != expected()
