import ast
import re
import sys
from pathlib import Path

import dygcn

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "dygcn"
PAGE = (ROOT / "docs" / "maintainers" / "how-an-update-works.md").read_text()
THIS = "tests/docs/test_how_an_update_works.py"
NAMED = re.findall(r"`([\w/]+\.py)(?:::([\w.]+))?`", PAGE.replace(THIS, ""))
CALLED = re.findall(r"▶ `([\w/]+\.py)::([\w.]+)`", PAGE)


def definitions(path):
    """Return the names that a file defines, methods by their classes."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)}
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
    return found


def test_every_function_that_is_named_exists():
    assert len(NAMED) > 20
    for file, name in NAMED:
        assert (PACKAGE / file).is_file(), file
        assert not name or name in definitions(PACKAGE / file), f"{file}::{name}"


def test_an_update_calls_what_is_marked_in_this_order(tmp_path):
    dygcn.fit([("ann", "jam"), ("bob", "tea"), ("bob", "jam")], dim=8).save(tmp_path / "live")
    calls = []

    def see(frame, event, _):
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(str(PACKAGE)):
            calls.append((Path(file).relative_to(PACKAGE).as_posix(), frame.f_code.co_name))

    with dygcn.open(tmp_path / "live") as live:
        live.update(add=[("cat", "jam")])
        before = sys.getprofile()
        sys.setprofile(see)
        try:
            live.update(add=[("ann", "tea")])
        finally:
            sys.setprofile(before)
    marked = [(file, name.rpartition(".")[2]) for file, name in CALLED]
    assert [one for one in marked if one not in calls] == []
    places = [calls.index(one) for one in marked]
    assert places == sorted(places)
