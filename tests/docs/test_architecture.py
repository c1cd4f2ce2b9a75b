import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "ARCHITECTURE.md").read_text()
PARTS = {
    "src/dygcn": TEXT.partition("## The product")[2].partition("## The laboratory")[0],
    "lab/src/dygcn_lab": TEXT.partition("## The laboratory")[2],
}
NO_MODULE = {
    "launch",
    "spectral",
    "fit",
    "refit",
    "evaluate",
    "judge",
    "reproduce",
    "bench",
    "soak",
}  # functions


def modules(root):
    """Return the modules below a folder: what the map has to name, and what it may name besides."""
    files = [path.relative_to(ROOT / root) for path in (ROOT / root).rglob("*.py")]
    there = {path.stem for path in files} | {part for path in files for part in path.parts[:-1]}
    return {path.stem for path in files} - {"__init__", "__main__"}, there


@pytest.mark.parametrize("root", ["src/dygcn"])
def test_the_map_names_every_module(root):
    named = {name.rpartition("/")[2] for name in re.findall(r"`([\w/]+)(?:\.py)?`", PARTS[root])}
    assert modules(root)[0] - named == set()


@pytest.mark.parametrize("root", PARTS)
def test_every_module_that_the_map_names_is_there(root):
    named = set(re.findall(r"[|,;] `([a-z]\w*)`(?=[:,;( |])", PARTS[root]))
    assert named - modules(root)[1] - NO_MODULE == set()
