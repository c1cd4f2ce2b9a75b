"""How much memory and disk a graph needs, from measured bytes: the table of the page on sizing.

`python -m dygcn_lab.costs.sizing measure` writes results/sizing/disk.json,
`python -m dygcn_lab.costs.sizing page` the table into docs/how-to/sizing.md. Both run in the root of the
repository.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import dygcn
from dygcn.errors import OptionError
from dygcn.live.durable.storage.layout import KEPT
from dygcn_lab.report.blocks import with_blocks, write_json
from dygcn_lab.report.tables import rows_table

DISK = Path("results/sizing/disk.json")
MEMORY, SCALE, KINDS = (Path(f"results/costs/{name}.json") for name in ("memory", "scale", "kinds"))
PAGE = Path("docs/how-to/sizing.md")
_SIZES = ((100_000, 1_000_000), (1_000_000, 10_000_000), (10_000_000, 100_000_000))
_GRAPHS = ((20_000, 60_000), (20_000, 240_000), (60_000, 120_000))  # nodes, edges: three for three unknowns
_WIDTH = 64


def measure_disk() -> dict[str, Any]:
    """Save graphs of several sizes, and solve for the bytes of a node and an edge in a snapshot."""
    random, sizes, folders, per_event = np.random.default_rng(0), [], [], 0.0
    for nodes, edges in _GRAPHS:
        pairs = random.integers(0, nodes, (edges, 2))
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        with tempfile.TemporaryDirectory() as folder:
            live = dygcn.open(f"{folder}/graph", dygcn.fit(pairs[:1000], dim=_WIDTH, features="hashed"))
            before = _bytes(Path(folder), "log")
            live.update(add=pairs)
            per_event = (_bytes(Path(folder), "log") - before) / len(pairs)
            live.close()
            sizes.append(
                (1.0, float(len(np.unique(pairs))), float(len(np.unique(np.sort(pairs, 1), axis=0))))
            )
            newest = max(
                Path(folder, "graph").rglob("graph.safetensors"), key=lambda file: file.stat().st_mtime
            )
            folders.append(float(sum(one.stat().st_size for one in newest.parent.iterdir() if one.is_file())))
    solved = np.linalg.lstsq(np.array(sizes), np.array(folders), rcond=None)[0]
    found = dict(zip(("bytes_fixed", "bytes_per_node", "bytes_per_edge"), solved.tolist(), strict=True))
    return {"kind": "disk", "width": _WIDTH, **found, "log_bytes_per_event": per_event, "graphs": sizes}


def _bytes(folder: Path, name: str) -> int:
    return sum(one.stat().st_size for one in folder.rglob(f"{name}*") if one.is_file())


def table(memory: dict[str, Any], scale: dict[str, Any], kinds: dict[str, Any], disk: dict[str, Any]) -> str:
    """Return what is measured a node and an edge, and what follows for graphs of some sizes."""
    rows = memory["rows"]
    measured = [
        (
            *(row["graph"], f"{row['nodes']:,}", f"{row['edges']:,}", _gigabytes(row["measured_bytes"])),
            *(f"{row['bytes_per_node']:.0f}", f"{row['bytes_per_edge']:.0f}"),
        )
        for row in rows
    ]
    nodes = max(row["bytes_per_node"] for row in rows)
    edges = min(row["bytes_per_edge"] for row in rows), max(row["bytes_per_edge"] for row in rows)
    above = max(row["peak_bytes"] for row in scale["rows"]) / max(row["measured_bytes"] for row in rows)
    beside = max(
        row["measured_bytes"] - row["predicted_bytes"] for row in rows
    )  # buffers, and the allocator's
    walks = max(row["table_bytes"] for row in kinds["rows"])
    lines, by_nodes = [], {row["nodes"]: row for row in scale["rows"]}
    for count, links in _SIZES:
        least, most = (beside + count * nodes + links * one for one in edges)
        snapshot = disk["bytes_fixed"] + count * disk["bytes_per_node"] + links * disk["bytes_per_edge"]
        near = by_nodes[min(by_nodes, key=lambda one: abs(one - count))]
        lines.append(
            (
                *(f"{count:,}", f"{links:,}", f"{_gigabytes(least)} to {_gigabytes(most)}"),
                *(_gigabytes(most * above), f"{_gigabytes((KEPT + 1) * snapshot)} + `keep_log`"),
                *(f"{near['events_per_second']:,.0f}", f"{near['rows_per_event']:.0f}"),
            )
        )
    said = (
        f"Width {memory['width']}, {memory['orders']} orders. In a snapshot a node takes "
        f"{disk['bytes_per_node']:.0f} bytes and an edge {disk['bytes_per_edge']:.0f}; an event in the log "
        f"takes {disk['log_bytes_per_event']:.0f}. Memory includes {_gigabytes(beside)} that no array "
        "accounts for, the most that was seen; rows of a walk model (the default) add up to "
        f"{walks} bytes a node, in memory and once on disk. Batches of {scale['rows'][0]['events']:,} "
        "events, one thread, the engine alone: disk and HTTP come on top."
    )
    needs = "nodes", "edges", "memory", "at the start", "disk", "events a second", "rows an event"
    found = "graph", "nodes", "edges", "of the process", "arrays, a node", "arrays, an edge"
    text = "\n\n".join([rows_table(needs, lines), said, rows_table(found, measured)])
    return f"\n{text}\n"


def _gigabytes(count: float) -> str:
    """Return bytes as a number that is easily compared.

    Examples
    --------
    >>> _gigabytes(1.234e9), _gigabytes(56e6)
    ('1.2 GB', '0.06 GB')
    """
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e9:.2f} GB"


def page(root: Path = Path()) -> str:
    """Return the page with a fresh table."""
    results = [msgspec.json.decode((root / one).read_bytes()) for one in (MEMORY, SCALE, KINDS, DISK)]
    return with_blocks(root / PAGE, {"sizing": table(*results)})


def main(what: str) -> None:
    """Measure, or write the page."""
    if what == "measure":
        write_json(measure_disk(), DISK)
    elif what == "page":
        PAGE.write_text(page(), encoding="utf-8")
    else:
        raise OptionError(f"{what!r} is not known; allowed is measure or page")


if __name__ == "__main__":
    main(*sys.argv[1:])
