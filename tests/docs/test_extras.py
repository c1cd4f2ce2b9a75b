"""Every extra that can be installed is in the table that the front page points to."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOR_DEVELOPERS = {"dev", "docs"}


def listed(quickstart):
    rows = quickstart.partition("| extra | for |")[2].partition("\n\n")[0].splitlines()[2:]
    return {name for row in rows for name in re.findall(r"`([\w-]+)`", row.split("|")[1])}


def of_the_front_page(readme):
    return set(re.findall(r"`(\w+)`", re.search(r"\[Extras\][^:]*:([^.]*)\.", readme)[1]))


def faults(quickstart, readme):
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    wanted = set(extras) - FOR_DEVELOPERS
    return (listed(quickstart) ^ wanted) | (of_the_front_page(readme) - wanted)


def pages():
    return (ROOT / "docs" / "quickstart.md").read_text(), (ROOT / "README.md").read_text()


def test_every_extra_is_listed():
    assert faults(*pages()) == set()


@pytest.mark.parametrize(("page", "old", "new"), [(0, "| `sklearn` |", "| |"), (1, "`sklearn`", "`sklern`")])
def test_an_extra_that_is_not_would_be_noticed(page, old, new):
    texts = list(pages())
    assert old in texts[page]
    texts[page] = texts[page].replace(old, new)
    assert len(faults(*texts)) == 1
