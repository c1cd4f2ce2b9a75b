"""`dygcn vector`: read vectors, a few to the screen or all to a file."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from dygcn.cli.as_of import as_of_option, load_as_of
from dygcn.cli.printing import (
    IdsCommand,
    folder_argument,
    json_option,
    negative_ids,
    node_id,
    print_json,
    progress_bar,
    show,
)
from dygcn.errors import OptionError
from dygcn.live import EmbeddingView


@click.command("vector", cls=IdsCommand, context_settings=negative_ids)
@folder_argument
@click.argument("ids", nargs=-1)
@click.option(
    "--out",
    metavar="FILE",
    help="Write .parquet or .arrow (id, vector), .csv or .tsv (id, v0, v1, ...) or .txt (word2vec); "
    "- is CSV to standard output. All nodes if no ID.",
)
@as_of_option
@json_option
def command(folder: str, ids: tuple[str, ...], out: str | None, as_of: str | None, as_json: bool) -> None:
    """Print the vectors of IDS, or write vectors to a file."""
    if not ids and out is None:
        raise click.UsageError("name at least one id, or --out FILE for all of them")
    with progress_bar() as notify:
        notify(0, 1, "loading")
        live = load_as_of(folder, as_of)
        wanted = [node_id(text, live.model.ids) for text in ids] if ids else None
        table = live.to_arrow(wanted)
        if out is not None:
            _writer(out)(live, wanted, out)
    if out == "-":
        return
    if out is not None:
        show({"file": out, "vectors": len(table), "dim": live.model.dim}, as_json)
        return
    names, vectors = _names(table), live.vectors(wanted)
    if as_json:
        print_json([{"id": name, "vector": row.tolist()} for name, row in zip(names, vectors, strict=True)])
        return
    for name, row in zip(names, vectors, strict=True):
        click.echo(f"{name}\t{np.array2string(row, precision=4, max_line_width=100, threshold=16)}")


def _names(table: pa.Table) -> list[int | str]:
    ids: list[int | str] = table.column("id").to_pylist()
    if "kind" not in table.column_names:
        return ids
    return [f"{kind}:{one}" for kind, one in zip(table.column("kind").to_pylist(), ids, strict=True)]


Writer = Callable[[EmbeddingView, list[int | str] | None, str], None]


def _writer(out: str) -> Writer:
    """Return what writes a file, by its suffix."""
    suffix = Path(out).suffix.lower()
    if out != "-" and suffix not in _WRITERS:
        allowed = ", ".join(_WRITERS)
        raise OptionError(
            f"{out} ends in {suffix!r}; allowed are {allowed}, and - for CSV to standard output"
        )
    return _WRITERS.get(suffix, _write_csv)


def _write_parquet(live: EmbeddingView, ids: list[int | str] | None, out: str) -> None:
    pyarrow.parquet.write_table(live.to_arrow(ids), out)


def _write_arrow(live: EmbeddingView, ids: list[int | str] | None, out: str) -> None:
    table = live.to_arrow(ids)
    with pa.OSFile(out, "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def _write_csv(live: EmbeddingView, ids: list[int | str] | None, out: str) -> None:
    table, vectors = live.to_arrow(ids), live.vectors(ids)
    columns = {name: table.column(name) for name in table.column_names[:-1]}
    columns |= {f"v{i}": vectors[:, i] for i in range(vectors.shape[1])}
    options = pyarrow.csv.WriteOptions(delimiter="\t" if out.lower().endswith(".tsv") else ",")
    pyarrow.csv.write_csv(pa.table(columns), sys.stdout.buffer if out == "-" else out, options)


def _write_word2vec(live: EmbeddingView, ids: list[int | str] | None, out: str) -> None:
    live.to_word2vec(out, ids)


_WRITERS: dict[str, Writer] = {
    ".parquet": _write_parquet,
    ".arrow": _write_arrow,
    ".csv": _write_csv,
    ".tsv": _write_csv,
    ".txt": _write_word2vec,
}
