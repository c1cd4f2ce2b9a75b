"""`dygcn bench`: what updates cost, on your machine and your graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from dygcn.cli.printing import json_option, print_json, progress_bar, show_table
from dygcn_lab.costs.base import RANK, measure_base
from dygcn_lab.costs.crossover import measure_crossovers
from dygcn_lab.costs.graphs import count_of
from dygcn_lab.costs.kinds import measure_kinds
from dygcn_lab.costs.memory import measure_memory
from dygcn_lab.costs.page import write_page
from dygcn_lab.costs.recommend import NODES, K, measure_recommend
from dygcn_lab.costs.results import KINDS, Result, command_of, read_results
from dygcn_lab.costs.scale import measure_scale
from dygcn_lab.costs.score import measure_score
from dygcn_lab.costs.service_reads import GRAPH as SERVED_GRAPH
from dygcn_lab.costs.service_reads import RATE, measure_service
from dygcn_lab.costs.start import GRAPH, measure_start
from dygcn_lab.costs.tables import tables_of
from dygcn_lab.costs.threads import measure_threads
from dygcn_lab.costs.tolerance import EVENTS, measure_tolerance
from dygcn_lab.costs.updates import measure_updates

Parameter = Callable[[Callable[..., Any]], Callable[..., Any]]

_WHOLE = click.IntRange(1)


def _number(name: str, default: int, about: str | None = None, least: int = 1) -> Parameter:
    return click.option(name, default=default, type=click.IntRange(least), show_default=True, help=about)


def _numbers(name: str, variable: str, default: Sequence[int], about: str) -> Parameter:
    options: dict[str, Any] = {"default": default, "show_default": True} if default else {}
    says = f"{about}; can be given again."
    if not default:
        says += "  [default: 1, 10, 100 ... and half of the edges]"
    return click.option(name, variable, multiple=True, type=_WHOLE, help=says, **options)


def _counts(_: click.Context, __: click.Parameter, value: str | tuple[str, ...]) -> Any:
    """Read numbers such as 300k."""
    return count_of(value) if isinstance(value, str) else [count_of(one) for one in value]


_GRAPHS = click.argument("graphs", nargs=-1, metavar="[GRAPH]...")
_WIDTH, _ORDERS = _number("--width", 256), _number("--orders", 2)
_OF_A_BATCH = "Changes in a batch"


def show_result(result: Result, as_json: bool) -> None:
    """Print a result: its tables, or all of it as JSON."""
    if as_json:
        print_json(result)
        return
    for table in tables_of(result):
        if table.caption:
            click.echo(f"\n{table.caption}")
        show_table(table.columns, table.rows, False, None)
    click.echo()
    for note in result.get("notes", ()):
        click.echo(note)
    click.echo(f"load average {result['load_average']}")


@click.group("bench")
def command() -> None:
    """Measure what updates cost. Compare ratios of one run; seconds depend on the machine and its load.

    A GRAPH is a data set, a file of events, or a random graph: power-law, power-law-50k-300k, rmat-1m-10m,
    steady-1m-10m, with so many nodes and edges. For `update`, stream:GRAPH changes as its edges came.
    """


def _measuring(measure: Callable[..., Result], name: str, about: str, *parameters: Parameter) -> None:
    """Add a command; its parameters are those of the function that measures."""

    def run(as_json: bool, **asked: Any) -> None:
        with progress_bar() as notify:
            result = measure(**asked, notify=notify)
        show_result(result, as_json)

    made: Callable[..., Any] = json_option(run)
    for add in reversed(parameters):
        made = add(made)
    command.command(name, help=about)(made)


_measuring(
    measure_updates,
    "update",
    "Time batches beside the bare additions and beside a full recompute, in one run.",
    _GRAPHS,
    _numbers("--width", "widths", (256,), "Of messages"),
    _ORDERS,
    _number("--repeats", 30),
    _numbers("--batch", "sizes", (1, 1000), _OF_A_BATCH),
)
_measuring(
    measure_crossovers,
    "crossover",
    "Find the batch from which on a recompute, Cleora or a GCN forward is cheaper.\n\n"
    "Without GRAPH: arxiv-coauthor, as-caida (in the folder DYGCN_DATA) and power-law.",
    _GRAPHS,
    _WIDTH,
    _number("--dim", 128),
    _ORDERS,
    _number("--repeats", 5),
    _numbers("--batch", "sizes", (), _OF_A_BATCH),
)
_measuring(
    measure_scale,
    "scale",
    "Time batches on random graphs that differ in their number of nodes alone.",
    click.option(
        "--nodes",
        multiple=True,
        default=("100k", "300k", "1m", "3m", "10m"),
        callback=_counts,
        show_default=True,
        help="Nodes of a graph; can be given again.",
    ),
    _number("--degree", 20, "Mean degree of all.", least=2),
    _number("--width", 64),
    _ORDERS,
    _number("--repeats", 20),
    _number("--batch", 1000, f"{_OF_A_BATCH}."),
)
_measuring(
    measure_memory,
    "memory",
    "Compare the bytes of graphs, predicted from their degrees, with what the process takes.",
    _GRAPHS,
    _number("--width", 64),
    _ORDERS,
    click.option(
        "--churn",
        default="0",
        callback=_counts,
        show_default=True,
        help="Events of ids that come and go, at the end.",
    ),
)
_measuring(
    measure_tolerance,
    "tolerance",
    "Count the rows that a tolerance keeps from a sink, and how far its vectors are then from exact ones.\n\n"
    "Without GRAPH: college-msg, sx-mathoverflow, as-caida and arxiv-coauthor (in the folder DYGCN_DATA).",
    _GRAPHS,
    _number("--events", EVENTS),
)
_measuring(
    measure_threads,
    "threads",
    "Time the same batches on one thread and on several, by turns.",
    _GRAPHS,
    _number("--width", 100),
    _ORDERS,
    _number("--repeats", 15),
    _number("--threads", 2),
    _numbers("--batch", "sizes", (1000, 10_000), _OF_A_BATCH),
)
_measuring(
    measure_base,
    "base",
    "Time the walk base of graphs, and its memory; without a graph, the cases of the page of costs.",
    _GRAPHS,
    _number("--rank", RANK),
    click.option("--window", type=_WHOLE, help="Steps of walks.  [default: as many as fit]"),
)
_measuring(
    measure_kinds,
    "kinds",
    "Compare kinds of features: bytes, updates, reads; without a graph, those of the page, and fits.",
    _GRAPHS,
)
_measuring(
    measure_score,
    "score",
    "Time the score of links beside the cosine, and updates with times and without; count their bytes.",
    _GRAPHS,
    click.option("--quick", is_flag=True, help="A small random graph and few repeats, for a trial."),
)
_measuring(
    measure_recommend,
    "recommend",
    "Compare recommendations with the best of everyone: recall, and time.",
    _GRAPHS,
    _number("--nodes", NODES),
    _number("-k", K),
)
_measuring(
    measure_service,
    "service",
    "Read vectors of a served GRAPH by wrk, beside a bare route and beside events.",
    click.argument("graph", default=SERVED_GRAPH),
    _number("--rate", RATE),
    _number("--seconds", 8),
    _number("--repeats", 3),
)
_measuring(
    measure_start,
    "start",
    "Time how commands and a service start, in fresh processes; several Pythons by turns.",
    click.option(
        "--python",
        "pythons",
        multiple=True,
        metavar="[NAME=]PATH",
        help="A Python to measure, with a name for tables; can be given again.  [default: this one]",
    ),
    _number("--repeats", 5),
    click.option("--graph", default=GRAPH, show_default=True, help="Of the service."),
    _number("--starts", 3, "Of the service.", least=0),
)


@command.command("page")
@click.argument("files", nargs=-1, metavar="RESULTS.json...", type=click.Path())
@click.option(
    "--markdown", default="docs/costs.md", show_default=True, type=click.Path(), help="Page to write."
)
@click.option("--out", type=click.Path(), help="Folder of pictures.  [default: images/costs beside the page]")
@json_option
def page(files: tuple[str, ...], markdown: str, out: str | None, as_json: bool) -> None:
    """Write the page of costs and its pictures from what other commands printed with --json."""
    results = read_results(map(Path, files))
    file = Path(markdown)
    folder = file.parent / "images" / "costs" if out is None else Path(out)
    pictures = write_page(results, file, folder)
    missing = [kind for kind in KINDS if kind not in results]
    if as_json:
        found = {kind: str(picture) for kind, picture in pictures.items()}
        print_json({"page": str(file), "pictures": found, "missing": missing})
        return
    for kind in missing:
        written = f". {wanted} writes it" if (wanted := command_of(kind)) else ""
        click.echo(f"not there: {kind}{written}")
    click.echo(f"open {file}")
