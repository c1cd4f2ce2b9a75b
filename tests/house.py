"""What the product weighs: lines, files, circles of imports, names: ``python -m tests.house``.

A line counts if it is neither blank nor a comment; docstrings count. `tests/test_house.py` holds the tree to
the budget below, so whoever adds lines removes others, or raises the budget in a commit that says why.
"""

import argparse
import ast
import json
import re
from collections import defaultdict
from pathlib import Path

import grimp
import networkx as nx

ROOT = Path(__file__).parent.parent
PRODUCT = ROOT / "src" / "dygcn"
LINES, FILES = 54_111, 418  # the budget
_COUNTED = re.compile(r"^\s*[^#\s]", re.MULTILINE)


def count_lines(path):
    """Return how many lines of a file are neither blank nor a comment."""
    return len(_COUNTED.findall(path.read_text()))


def modules(folder=PRODUCT):
    """Return the Python files below a folder, sorted."""
    return sorted(folder.rglob("*.py"))


def wings(paths):
    """Return {wing: (lines, files)}: folders below the package, those of the large wings one level deeper."""
    found = defaultdict(lambda: [0, 0])
    for path in paths:
        parts = path.relative_to(PRODUCT).parts[:-1]
        deep = parts[0] in ("engine", "live", "serving") if parts else False
        wing = found["/".join(parts[: 2 if deep else 1]) or "dygcn"]
        wing[0] += count_lines(path)
        wing[1] += 1
    return {name: tuple(sizes) for name, sizes in sorted(found.items())}


def circles():
    """Return the circles of imports in the product, those for type checkers included."""
    graph = grimp.build_graph("dygcn", cache_dir=None)
    arrows = nx.DiGraph(
        (one, other) for one in graph.modules for other in graph.find_modules_directly_imported_by(one)
    )
    return [sorted(circle) for circle in nx.strongly_connected_components(arrows) if len(circle) > 1]


def double_names():
    """Return {name: files} of the classes whose name more than one file of the product defines."""
    found = defaultdict(set)
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].add(path.relative_to(PRODUCT).as_posix())
    return {name: sorted(files) for name, files in sorted(found.items()) if len(files) > 1}


def public_names():
    """Return {class: its public names} of the two objects that users hold."""
    from dygcn.live import DurableEmbedding, LiveEmbedding  # noqa: PLC0415

    return {
        one.__name__: [name for name in dir(one) if not name.startswith("_")]
        for one in (LiveEmbedding, DurableEmbedding)
    }


def main():
    """Print what the product weighs."""
    options = argparse.ArgumentParser(description=main.__doc__)
    options.add_argument("--json", action="store_true")
    asked = options.parse_args()
    paths = modules()
    others = {
        name: (sum(map(count_lines, modules(ROOT / folder))), len(modules(ROOT / folder)))
        for name, folder in {"laboratory": "lab/src", "tests": "tests", "tests of it": "lab/tests"}.items()
    }
    found = {
        "lines": sum(map(count_lines, paths)),
        "files": len(paths),
        "wings": wings(paths),
        "beside the product": others,
        "circles": circles(),
        "names of several classes": double_names(),
        "public names": {name: len(names) for name, names in public_names().items()},
    }
    if asked.json:
        print(json.dumps(found, indent=1))
        return
    print(f"{found['lines']:,} lines in {found['files']} files (budget {LINES:,} in {FILES})")
    for name, (lines, files) in {**found["wings"], **others}.items():
        print(f"{lines:8,} {files:4} {name}")
    print(f"{len(found['circles'])} circles of imports")
    for circle in found["circles"]:
        print("    " + " ".join(circle))
    print(f"{len(found['names of several classes'])} names of several classes")
    for name, files in found["names of several classes"].items():
        print(f"    {name}: {' '.join(files)}")
    for name, count in found["public names"].items():
        print(f"{count} public names of {name}")


if __name__ == "__main__":
    main()
