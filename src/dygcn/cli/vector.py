"""`dygcn vector`: read vectors, a few to the screen or all to a file."""

from __future__ import annotations

import click
import numpy as np
import pyarrow.parquet

from dygcn.cli.printing import (
    folder_argument,
    json_option,
    negative_ids,
    node_id,
    print_json,
    progress_bar,
    show,
)
from dygcn.live import load


@click.command("vector", context_settings=negative_ids)
@folder_argument
@click.argument("ids", nargs=-1)
@click.option(
    "--out", type=click.Path(), metavar="FILE", help="Write Parquet (id, vector); all nodes if no ID."
)
@json_option
def command(folder: str, ids: tuple[str, ...], out: str | None, as_json: bool) -> None:
    """Print the vectors of IDS, or write vectors to a Parquet file."""
    if not ids and out is None:
        raise click.UsageError("name at least one id, or --out FILE for all of them")
    with progress_bar() as notify:
        notify(0, 1, "loading")
        live = load(folder)
        wanted = [node_id(text, live.model.kind) for text in ids] if ids else None
        table = live.to_arrow(wanted)
        if out is not None:
            pyarrow.parquet.write_table(table, out)
    if out is not None:
        show({"file": out, "vectors": len(table), "dim": live.model.dim}, as_json)
        return
    names, vectors = table.column("id").to_pylist(), live.vectors(wanted)
    if as_json:
        print_json([{"id": name, "vector": row.tolist()} for name, row in zip(names, vectors, strict=True)])
        return
    for name, row in zip(names, vectors, strict=True):
        click.echo(f"{name}\t{np.array2string(row, precision=4, max_line_width=100, threshold=16)}")
