"""Commands that read a folder: `info`, `nearest`, `recommend`, `score`, `explain`, `vector`, `what-if`."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import click
import numpy as np

from dygcn.cli import options
from dygcn.cli.printing import json_option, print_json, progress_bar, show, show_table
from dygcn.engine.events import read_events
from dygcn.engine.events.kinds import as_text
from dygcn.engine.models.links import KINDS
from dygcn.engine.records import DEFAULT_K
from dygcn.errors import MissingFolder, OptionError
from dygcn.live.change import TrialMoves
from dygcn.live.embedding import LiveEmbedding
from dygcn.live.finding import Scored
from dygcn.live.recommending import links_for
from dygcn.live.view import EmbeddingView

if TYPE_CHECKING:
    import pyarrow as pa

    from dygcn.engine.models.explaining import Movement
    from dygcn.live.durable.past import PastEmbedding
    from dygcn.live.explaining import Explanation

_k_option = click.option("-k", default=DEFAULT_K, show_default=True, help="How many.")


class Table(NamedTuple):
    """An answer as rows for people and as a JSON value for programs."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    value: Any
    empty: str = ""  # what people read where there are no rows


Answer: TypeAlias = Table | dict[str, Any] | Callable[[], None] | None


def question(
    name: str, *decorators: options.Decorator, cls: type[click.Command] = options.IdsCommand
) -> Callable[[Callable[..., Any]], click.Command]:
    """Return a decorator that makes a command of a function (embedding, options) -> answer to print.

    An answer is a table, named values, or a function that prints; None where it was written already.
    """

    def made(ask: Callable[..., Answer]) -> click.Command:
        def command(folder: str, as_of: str | None, as_json: bool, **given: Any) -> None:
            with progress_bar() as notify:
                notify(0, 1, "loading")
                answer = ask(options.load_as_of(folder, as_of), as_json=as_json, **given)
            if isinstance(answer, dict):
                show(answer, as_json)
            elif isinstance(answer, Table) and answer.empty and not answer.rows and not as_json:
                click.echo(answer.empty)
            elif isinstance(answer, Table):
                show_table(answer.columns, answer.rows, as_json, answer.value)
            elif answer is not None:
                answer()

        command.__doc__ = ask.__doc__
        decorated = options.together(options.folder_argument, *decorators, options.as_of_option, json_option)(
            command
        )
        return click.command(name, cls=cls)(decorated)

    return made


def _ids(live: EmbeddingView, texts: Sequence[str]) -> list[int | str]:
    return [options.node_id(text, live.model.ids) for text in texts]


@question("info", cls=click.Command)
def info(live: EmbeddingView, as_json: bool) -> dict[str, Any]:
    """Check the folder DIR and print its settings, counts and digest."""
    model, table = live.model, live.model.table
    past: dict[str, Any] = {}
    if not isinstance(live, LiveEmbedding):
        then = cast("PastEmbedding", live)
        logged = then.logged.isoformat().replace("+00:00", "Z")
        past = {"sequence": then.sequence, "logged": logged, "keep_log": then.keep_log}
    walks: dict[str, Any] = {}
    if table is not None:
        walks = {"rows": len(table), "window": table.window, "unreached": live.unreached}
    return {
        "rule": model.rule,
        "nodes": len(live),
        "edges": live.edge_count,
        "ids": model.ids,
        "directed": model.directed,
        "dim": model.dim,
        "width": model.width,
        "orders": model.orders,
        "features": model.features,
        **walks,
        **model.spec.describe(),
        "memory": model.half_life,
        **({} if model.expire is None else {"expire": model.expire}),
        **({"whole_weights": True} if model.whole else {}),
        "clock": live._state.graph.clock,
        "version": live.version,
        **past,
        "digest": live.digest(),
    }


@question(
    "nearest", click.argument("ids", metavar="ID...", nargs=-1, required=True), _k_option, options.kind_option
)
def nearest(live: EmbeddingView, ids: Sequence[str], k: int, kind: str | None, as_json: bool) -> Table:
    """Print the k nodes nearest to each ID, by cosine."""
    asked = _ids(live, ids)
    found = [[(as_text(name), score) for name, score in near] for near in live.nearest(asked, k, kind=kind)]
    values = [[{"id": name, "score": score} for name, score in near] for near in found]
    if len(asked) == 1:
        return Table(("id", "score"), [(str(name), f"{score:.4f}") for name, score in found[0]], values[0])
    of_each = zip(asked, found, strict=True)
    rows = [(str(one), str(name), f"{score:.4f}") for one, near in of_each for name, score in near]
    value = [{"of": one, "nearest": near} for one, near in zip(asked, values, strict=True)]
    return Table(("of", "id", "score"), rows, value)


@question(
    "recommend",
    click.argument("node", metavar="ID"),
    _k_option,
    click.option("--linked", is_flag=True, help="Recommend nodes that ID is linked with, too."),
    click.option("--links", default=None, type=click.Choice(KINDS), help="The score, as in `dygcn score`."),
    options.kind_option,
)
def recommend(
    live: EmbeddingView, node: str, k: int, linked: bool, links: str | None, kind: str | None, as_json: bool
) -> Table:
    """Print the k nodes that ID is likeliest to link with, by the learned score."""
    me = options.node_id(node, live.model.ids)
    found = live.recommend(me, k, exclude_linked=not linked, links=links, kind=kind)
    found = [(as_text(name), score) for name, score in found]
    score_kind = live.model.score_kind(links_for(live._state, me, links, not linked, kind))
    value = {"score_kind": score_kind, "nodes": [{"id": name, "score": score} for name, score in found]}
    rows = [(str(name), f"{score:.4f}") for name, score in found]
    return Table(("id", f"score ({score_kind})"), rows, value, "no node is left to recommend")


@question(
    "score",
    click.argument("a", metavar="ID"),
    click.argument("b", metavar="ID"),
    click.option(
        "--links",
        default="new",
        show_default=True,
        type=click.Choice(KINDS),
        help="Links not there yet; all links; or ranks of the next events.",
    ),
)
def score(live: EmbeddingView, a: str, b: str, links: str, as_json: bool) -> dict[str, Any]:
    """Print how likely two nodes are linked next: log-odds, or the cosine if no score was learned."""
    first, second = _ids(live, (a, b))
    named = {"a": first, "b": second} if as_json else {"a": str(first), "b": str(second)}
    return {**named, "score": live.score(first, second, links), "score_kind": live.model.score_kind(links)}


@question(
    "explain",
    click.argument("node", metavar="ID"),
    click.option("-k", default=DEFAULT_K, show_default=True, help="How many neighbours, or events."),
    click.option("--events", metavar="FILE", help="Print which of these events would move it instead."),
    options.column_options,
    options.now_option,
)
def explain(
    live: EmbeddingView, node: str, k: int, events: str | None, now: float | None, as_json: bool, **names: Any
) -> Table:
    """Print what each neighbour of ID adds to its vector, order by order."""
    one = options.node_id(node, live.model.ids)
    if events is None:
        return _neighbours(live.explain(one), k)
    return _movement(live.explain_change(one, read_events(events, live.model.ids, **names), now=now), k)


def _movement(found: Movement, k: int) -> Table:
    far, shares = np.linalg.norm(found.by_event, axis=1), found.projections
    most = [row for row in np.argsort(-far, kind="stable")[:k].tolist() if far[row] > 0]
    events = [{"event": row, "distance": float(far[row]), "share": float(shares[row])} for row in most]
    whole = np.linalg.norm(found.after.astype(np.float64) - found.before)
    rows = [(str(row), f"{far[row]:.4f}", f"{shares[row]:.4f}") for row in most]
    return Table(("event", "distance", "share"), rows, {"distance": float(whole), "events": events})


def _neighbours(found: Explanation, k: int) -> Table:
    orders = [f"order {order}" for order in range(1, found.by_order.shape[1] + 1)]
    names = list(map(as_text, found.neighbors[:k].tolist()))
    ranked = list(zip(names, found.by_neighbor.tolist(), found.by_order.tolist(), strict=False))
    value = {
        "own": found.own,
        "rounding": found.rounding,
        "neighbors": [{"id": name, "share": share, "by_order": each} for name, share, each in ranked],
    }
    rows = [(str(name), f"{share:.4f}", *(f"{one:.4f}" for one in each)) for name, share, each in ranked]
    itself = [("(itself)", f"{found.own:.4f}", *("" for _ in orders))]
    return Table(("neighbour", "share", *orders), [*itself, *rows], value)


@question(
    "vector",
    click.argument("ids", nargs=-1),
    click.option(
        "--out",
        metavar="FILE",
        help="Write .parquet or .arrow (id, vector), .csv or .tsv (id, v0, v1, ...); "
        "- is CSV to standard output. All nodes if no ID.",
    ),
)
def vector(live: EmbeddingView, ids: Sequence[str], out: str | None, as_json: bool) -> Answer:
    """Print the vectors of IDS, or write vectors to a file."""
    if not ids and out is None:
        raise click.UsageError("name at least one id, or --out FILE for all of them")
    wanted = _ids(live, ids) if ids else None
    table = live.to_arrow(wanted)
    if out is not None:
        _write(live, wanted, table, out)
        return None if out == "-" else {"file": out, "vectors": len(table), "dim": live.model.dim}
    names, vectors = _names(table), live.vectors(wanted)
    if not as_json:
        shown = [np.array2string(row, precision=4, max_line_width=100, threshold=16) for row in vectors]
        lines = [f"{name}\t{row}" for name, row in zip(names, shown, strict=True)]
        return lambda: click.echo("\n".join(lines))
    value = [{"id": name, "vector": row.tolist()} for name, row in zip(names, vectors, strict=True)]
    return Table((), (), value)


def _names(table: pa.Table) -> list[int | str]:
    ids: list[int | str] = table.column("id").to_pylist()
    if "kind" not in table.column_names:
        return ids
    return [f"{kind}:{one}" for kind, one in zip(table.column("kind").to_pylist(), ids, strict=True)]


def _write(live: EmbeddingView, ids: list[int | str] | None, table: pa.Table, out: str) -> None:
    # To import them takes longer than to read a small folder.
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.csv  # noqa: PLC0415
    import pyarrow.parquet  # noqa: PLC0415

    suffix = Path(out).suffix.lower()
    if not Path(out).parent.is_dir():
        raise MissingFolder(f"{out} cannot be written: there is no folder {Path(out).parent}")
    if suffix == ".parquet":
        pyarrow.parquet.write_table(table, out)
    elif suffix == ".arrow":
        with pa.OSFile(out, "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
    elif suffix in (".csv", ".tsv") or out == "-":
        vectors = live.vectors(ids)
        columns = {name: table.column(name) for name in table.column_names[:-1]}
        columns |= {f"v{i}": vectors[:, i] for i in range(vectors.shape[1])}
        options = pyarrow.csv.WriteOptions(delimiter="\t" if suffix == ".tsv" else ",")
        pyarrow.csv.write_csv(pa.table(columns), sys.stdout.buffer if out == "-" else out, options)
    else:
        raise OptionError(
            f"{out} ends in {suffix!r}; allowed are .parquet, .arrow, .csv, .tsv, and - for CSV to standard "
            "output"
        )


# ---- what if -----------------------------------------------------------------------------------------


@question(
    "what-if",
    click.option("--add", multiple=True, metavar="A,B", help="An edge to add; may be repeated."),
    click.option("--remove", multiple=True, metavar="A,B", help="An edge to remove; may be repeated."),
    click.option(
        "--remove-node", "nodes", multiple=True, metavar="ID", help="A node to remove; may be repeated."
    ),
    click.option("--events", metavar="FILE", help="A file of events instead of --add and --remove."),
    options.column_options,
    options.now_option,
    click.option("--ask", multiple=True, metavar="ID", help="Print its nearest nodes as they would be."),
    click.option("-k", default=DEFAULT_K, show_default=True, help="How many nodes are printed."),
    cls=click.Command,
)
def what_if(
    live: EmbeddingView,
    add: Sequence[str],
    remove: Sequence[str],
    nodes: Sequence[str],
    events: str | None,
    now: float | None,
    ask: Sequence[str],
    k: int,
    as_json: bool,
    **names: Any,
) -> Answer:
    """Print who would move, and how far, if edges were added or removed; DIR does not change."""
    if not (add or remove or nodes or events):
        raise click.UsageError("name a change: --add A,B, --remove A,B, --remove-node ID or --events FILE")
    if events and (add or remove):
        raise OptionError("pass either --events, or --add and --remove, not both")
    kind = live.model.ids
    read = None if events is None else read_events(events, kind, related=bool(live.model.relations), **names)
    change: dict[str, Any] = {
        "add": [_edge(text, kind) for text in add] or None,
        "remove": [_edge(text, kind) for text in remove] or None,
        "remove_nodes": [options.node_id(text, kind) for text in nodes] or None,
        "events": read,
    }
    asked = [options.node_id(text, kind) for text in ask]
    here = {one for one in asked if one in live}
    with live.what_if(**change, now=now) as trial:
        moves = TrialMoves(trial)
        gone = {one for one in here if one not in trial}
        found: Found = {
            one: None if one in gone else (trial.vector(one).tolist(), trial.nearest(one, k)) for one in asked
        }
    furthest, left = _furthest(moves, live, k), moves.left(live)
    if as_json:
        return lambda: _print_for_machines(moves, furthest, left, found)
    return lambda: _print_for_people(moves, furthest, left[:k], found)


Found = dict[int | str, tuple[list[float], Scored] | None]
"""The vector and the nearest nodes of each id; None for one that would be gone."""
Furthest = list[tuple[int | str, float | None]]


def _furthest(moves: TrialMoves, live: EmbeddingView, k: int) -> Furthest:
    ids, distance = moves.measure(live)
    named = zip(ids[:k].tolist(), distance[:k].tolist(), strict=True)
    return [(one, None if math.isnan(far) else far) for one, far in named]


def _print_for_machines(moves: TrialMoves, furthest: Furthest, left: list[int | str], found: Found) -> None:
    asked = [
        {
            "id": one,
            "vector": answer and answer[0],
            "nearest": answer and [{"id": as_text(name), "score": score} for name, score in answer[1]],
        }
        for one, answer in found.items()
    ]
    moved = [{"id": one, "distance": far} for one, far in furthest]
    without = {"unchanged": moves.unchanged, "missing": moves.missing}
    about = {"moved": len(moves), "furthest": moved, "left": left, "rows": moves.rows}
    print_json({**about, **without, "asked": asked})


def _print_for_people(moves: TrialMoves, furthest: Furthest, left: list[int | str], found: Found) -> None:
    rows = [(str(one), "new" if far is None else f"{far:.4f}") for one, far in furthest]
    rows += [(str(one), "gone") for one in left]
    if rows:
        show_table(("would move", "distance"), rows, False, None)
    else:
        click.echo("nobody would move")
    for count, what in ((moves.missing, "not there to be removed"), (moves.unchanged, "there already")):
        if count:
            click.echo(f"edges that are {what}: {count}")
    for one, answer in found.items():
        click.echo()
        if answer is None:
            click.echo(f"{one} would be gone")
            continue
        near = [(str(name), f"{score:.4f}") for name, score in answer[1]]
        show_table((f"nearest to {one}", "score"), near, False, None)


def _edge(text: str, kind: str) -> tuple[int | str, int | str]:
    first, comma, second = text.partition(",")
    if not comma:
        raise click.BadParameter(f"{text!r} is no edge; allowed is A,B")
    return options.node_id(first, kind), options.node_id(second, kind)
