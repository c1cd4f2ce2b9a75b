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


def named(texts, extras):
    """Return the packages that requirements name, with those of our own extras that they name."""
    for text in texts:
        package, inside = re.fullmatch(r"([\w-]+)(?:\[([\w,]+)\])?.*", text).groups()
        yield package
        for extra in inside.split(",") if package == "dygcn" and inside else ():
            yield extra
            yield from named(extras[extra], extras)


def test_the_extra_of_the_documentation_has_what_tutorials_install():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    there = {*named(extras["docs"], extras), "torch"}  # which is installed separately, as docs/conf.py says
    pages = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
    lines = [re.search(r"(?m)^\$ pip install (.*)$", page.read_text()) for page in pages]
    wanted = [one.strip('"') for line in lines if line for one in line[1].split()]
    assert len(wanted) > 5
    assert set(named(wanted, extras)) - there == set()
    assert set(extras["client"][0].split(">")[:1]) <= there  # the page of the API shows it


def test_every_extra_is_listed():
    assert faults(*pages()) == set()


@pytest.mark.parametrize(("page", "old", "new"), [(0, "| `sklearn` |", "| |"), (1, "`sklearn`", "`sklern`")])
def test_an_extra_that_is_not_would_be_noticed(page, old, new):
    texts = list(pages())
    assert old in texts[page]
    texts[page] = texts[page].replace(old, new)
    assert len(faults(*texts)) == 1
