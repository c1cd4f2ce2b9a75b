"""`dygcn what-if`: what a change would move, and what vectors and neighbours would be after it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import click

from dygcn.cli.options import column_options, node_id, now_option
from dygcn.cli.printing import print_json, show_table
from dygcn.cli.reads import Answer, question
from dygcn.engine.events import read_events
from dygcn.engine.events.kinds import as_text
from dygcn.engine.records import DEFAULT_K
from dygcn.errors import OptionError
from dygcn.live.change import TrialMoves
from dygcn.live.finding import Scored
from dygcn.live.view import EmbeddingView


@question(
    "what-if",
    click.option("--add", multiple=True, metavar="A,B", help="An edge to add; may be repeated."),
    click.option("--remove", multiple=True, metavar="A,B", help="An edge to remove; may be repeated."),
    click.option(
        "--remove-node", "nodes", multiple=True, metavar="ID", help="A node to remove; may be repeated."
    ),
    click.option("--events", metavar="FILE", help="A file of events instead of --add and --remove."),
    column_options,
    now_option,
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
        "remove_nodes": [node_id(text, kind) for text in nodes] or None,
        "events": read,
    }
    asked = [node_id(text, kind) for text in ask]
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
    return node_id(first, kind), node_id(second, kind)
