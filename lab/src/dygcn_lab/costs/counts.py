"""What the product weighs, in counts that a loaded machine does not change.

``python counts.py`` prints lines, files, circles of imports and names. ``--out FILE`` writes these, rows
and bytes of a fixed stream of events, and the calls, functions and files on the way of requests
(`calls`). ``--page`` writes the page of counts from results/counts. A line counts if it is neither blank
nor a comment; docstrings count. The module imports nothing of the laboratory but `calls`, so it runs as
a file on any version of dygcn that the path names first.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

import dygcn

PRODUCT = Path(dygcn.__file__).parent
DEEP = ("engine", "live", "serving")  # wings whose folders are counted one by one
PAGE = "docs/maintainers/counts.md"
_COUNTED = re.compile(r"^\s*[^#\s]", re.MULTILINE)
_WRITTEN = "<!-- counts: written by python -m dygcn_lab.costs.counts --page -->\n"


def count_lines(path: Path) -> int:
    """Return how many lines of a file are neither blank nor a comment."""
    return len(_COUNTED.findall(path.read_text(encoding="utf-8")))


def product_files() -> list[Path]:
    """Return the Python files of the product, sorted."""
    return sorted(PRODUCT.rglob("*.py"))


def count_wings() -> dict[str, list[int]]:
    """Return {wing: [lines, files]} of the product."""
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for path in product_files():
        folders = path.relative_to(PRODUCT).parts[:-1]
        wing = found["/".join(folders[: 2 if folders[:1] and folders[0] in DEEP else 1]) or "dygcn"]
        wing[0] += count_lines(path)
        wing[1] += 1
    return dict(sorted(found.items()))


def find_circles() -> list[list[str]]:
    """Return the circles of imports of the product, those for type checkers included."""
    import grimp  # noqa: PLC0415, both come with the environment of developers
    import networkx as nx  # noqa: PLC0415

    graph = grimp.build_graph("dygcn", cache_dir=None)
    arrows = nx.DiGraph(
        (one, other) for one in graph.modules for other in graph.find_modules_directly_imported_by(one)
    )
    return [sorted(circle) for circle in nx.strongly_connected_components(arrows) if len(circle) > 1]


def find_double_names() -> dict[str, list[str]]:
    """Return {name: files} of public classes whose name several files of the product define."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in product_files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].add(path.relative_to(PRODUCT).as_posix())
    return {name: sorted(files) for name, files in sorted(found.items()) if len(files) > 1}


def public_names() -> dict[str, list[str]]:
    """Return the public names of the two objects that users hold."""
    live = dygcn.fit([(1, 2), (2, 3)], dim=4)
    with tempfile.TemporaryDirectory() as folder:
        live.save(f"{folder}/live")
        with dygcn.open(f"{folder}/live") as durable:
            held = (live, durable)
            return {type(one).__name__: [name for name in dir(one) if name[0] != "_"] for one in held}


def count_stream() -> dict[str, int]:
    """Return rows and vectors that 1,000 events at skewed nodes change, and bytes of a saved folder."""
    random = np.random.default_rng(7)
    ends = random.zipf(1.5, (4_000, 2)) % 2_000
    live = dygcn.fit([tuple(pair) for pair in ends[:3_000].tolist() if pair[0] != pair[1]], dim=16)
    rows = moved = 0
    for one, other in ends[3_000:].tolist():
        if one != other:
            change = live.update(add=[(one, other)])
            rows, moved = rows + change.rows, moved + len(change.ids)
    with tempfile.TemporaryDirectory() as folder:
        live.save(f"{folder}/live")
        saved = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    return {"rows": rows, "moved vectors": moved, "saved bytes": saved}


def count_house() -> dict[str, Any]:
    """Return everything that is counted without running an update."""
    wings = count_wings()
    return {
        "lines": sum(lines for lines, _ in wings.values()),
        "files": sum(files for _, files in wings.values()),
        "wings": wings,
        "circles": find_circles(),
        "double names": find_double_names(),
        "public names": {name: len(names) for name, names in public_names().items()},
    }


def count_all() -> dict[str, Any]:
    """Return all counts of the version that is imported, and which commit it is."""
    sys.path.append(os.path.dirname(__file__))
    measure_ways = importlib.import_module(
        "calls"
    ).measure_ways  # beside this file, whatever dygcn is imported
    commit = subprocess.run(
        ["git", "-C", str(PRODUCT), "log", "-1", "--format=%as|%s"],
        capture_output=True,
        text=True,
        check=True,
    )
    date, _, subject = commit.stdout.strip().partition("|")
    ways = {name: [way.calls, way.functions, way.files] for name, way in measure_ways()}
    return {"date": date, "commit": subject, **count_house(), "stream": count_stream(), "ways": ways}


def print_house(found: dict[str, Any]) -> None:
    """Print what `count_house` found, for people."""
    write = sys.stdout.write
    write(f"{found['lines']:,} lines in {found['files']} files\n")
    for name, (lines, files) in found["wings"].items():
        write(f"{lines:8,} {files:4} {name}\n")
    write(f"{len(found['circles'])} circles of imports\n")
    for circle in found["circles"]:
        write(f"    {' '.join(circle)}\n")
    write(f"{len(found['double names'])} names of several classes\n")
    for name, files in found["double names"].items():
        write(f"    {name}: {' '.join(files)}\n")
    for name, count in found["public names"].items():
        write(f"{count} public names of {name}\n")


def write_tables(results: list[dict[str, Any]]) -> str:
    """Return the tables of the page: a row for each commit that was counted, the newest first."""
    ways = list(results[-1]["ways"])
    rows = [
        ["date", "commit", "lines", "files", "circles", "public names", "rows", "moved", "saved bytes", *ways]
    ]
    for one in sorted(results, key=lambda one: (one["date"], -one["lines"]), reverse=True):
        stream, names = one.get("stream", {}), one.get("public names", {})
        sizes = [one["lines"], one["files"], len(one["circles"]), "/".join(map(str, names.values()))]
        counted = [stream.get(name, "") for name in ("rows", "moved vectors", "saved bytes")]
        taken = ["/".join(map(str, one.get("ways", {}).get(name, ()))) for name in ways]
        rows.append([one["date"], one["commit"].replace("|", "/"), *sizes, *counted, *taken])
    rows.insert(1, ["---"] * len(rows[0]))
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in rows)


def main() -> None:
    """Count, print, and write what was asked for."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--all", action="store_true", help="rows, bytes and calls, too")
    options.add_argument("--json", action="store_true")
    options.add_argument("--out", type=Path, help="a file of results/counts")
    options.add_argument("--page", action="store_true", help=f"write {PAGE} from results/counts")
    asked = options.parse_args()
    if asked.page:
        page = Path(PAGE)
        results = [json.loads(path.read_text()) for path in sorted(Path("results/counts").glob("*.json"))]
        head = page.read_text().partition(_WRITTEN)[0]
        page.write_text(f"{head}{_WRITTEN}\n{write_tables(results)}\n")
        return
    found = count_all() if asked.all or asked.out else count_house()
    if asked.out:
        asked.out.write_text(json.dumps(found, indent=1) + "\n")
    if asked.json:
        sys.stdout.write(json.dumps(found, indent=1) + "\n")
    elif not asked.out:
        print_house(found)


if __name__ == "__main__":
    main()
