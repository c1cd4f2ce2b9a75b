"""`dygcn bench`: what updates cost, on your machine and your graphs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dygcn.cli.printing import json_option, print_json, progress_bar, show_table
from dygcn_lab.costs.base import CASES, RANK, Case, measure_base
from dygcn_lab.costs.crossover import measure_crossovers
from dygcn_lab.costs.engines import measure_engines, measure_reads
from dygcn_lab.costs.graphs import count_of
from dygcn_lab.costs.kinds import FITS, GRAPHS, measure_kinds
from dygcn_lab.costs.memory import measure_memory
from dygcn_lab.costs.page import write_page
from dygcn_lab.costs.pictures import draw
from dygcn_lab.costs.recommend import NODES, K, measure_recommend
from dygcn_lab.costs.results import KINDS, read_results, write_result
from dygcn_lab.costs.scale import measure_scale
from dygcn_lab.costs.score import measure_score
from dygcn_lab.costs.service_reads import GRAPH as SERVED_GRAPH
from dygcn_lab.costs.service_reads import RATE, measure_service
from dygcn_lab.costs.start import GRAPH, HERE, Environment, measure_start
from dygcn_lab.costs.tables import tables_of
from dygcn_lab.costs.threads import measure_threads
from dygcn_lab.costs.tolerance import EVENTS, measure_tolerance
from dygcn_lab.costs.updates import measure_updates
from dygcn_lab.report.panels import check

if TYPE_CHECKING:
    from collections.abc import Callable

    from dygcn_lab.costs.results import Result

graphs_argument = click.argument("graphs", nargs=-1, metavar="[GRAPH]...")
_Command = TypeVar("_Command", bound="Callable[..., Any] | click.Command")


def number_option(name: str, default: int) -> Callable[[_Command], _Command]:
    """Return an option for a whole number, 1 or more."""
    return click.option(name, default=default, type=click.IntRange(1), show_default=True)


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


@command.command("update")
@graphs_argument
@click.option(
    "--nodes",
    default=50_000,
    type=click.IntRange(10),
    show_default=True,
    help="Nodes of the random graph (power law) without GRAPH.",
)
@click.option("--edges", default=300_000, type=click.IntRange(10), show_default=True, help="Its edges.")
@click.option(
    "--width",
    "widths",
    multiple=True,
    default=(256,),
    type=click.IntRange(1),
    show_default=True,
    help="Of messages; can be given again.",
)
@number_option("--orders", 2)
@number_option("--repeats", 30)
@click.option(
    "--batch",
    "sizes",
    multiple=True,
    default=(1, 1000),
    type=click.IntRange(1),
    show_default=True,
    help="Changes in a batch; can be given again.",
)
@json_option
def update(
    graphs: tuple[str, ...],
    nodes: int,
    edges: int,
    widths: tuple[int, ...],
    orders: int,
    repeats: int,
    sizes: tuple[int, ...],
    as_json: bool,
) -> None:
    """Time batches beside the bare additions and beside a full recompute, in one run."""
    names = graphs or (f"power-law-{nodes}-{edges}",)
    with progress_bar() as notify:
        result = measure_updates(
            names, widths=widths, orders=orders, sizes=sizes, repeats=repeats, notify=notify
        )
    show_result(result, as_json)


@command.command("crossover")
@graphs_argument
@number_option("--width", 256)
@number_option("--dim", 128)
@number_option("--orders", 2)
@number_option("--repeats", 5)
@click.option(
    "--batch",
    "sizes",
    multiple=True,
    type=click.IntRange(1),
    help="Changes in a batch; can be given again.  [default: 1, 10, 100 ... and half of the edges]",
)
@click.option("--out", type=click.Path(), help="Also write crossover.json and crossover.png to this folder.")
@json_option
def crossover(
    graphs: tuple[str, ...],
    width: int,
    dim: int,
    orders: int,
    repeats: int,
    sizes: tuple[int, ...],
    out: str | None,
    as_json: bool,
) -> None:
    """Find the batch from which on a recompute, Cleora or a GCN forward is cheaper.

    Without GRAPH: arxiv-coauthor, as-caida (in the folder DYGCN_DATA) and power-law.
    """
    if out is not None:
        check()
    with progress_bar() as notify:
        result = measure_crossovers(
            graphs, width=width, dim=dim, orders=orders, sizes=sizes, repeats=repeats, notify=notify
        )
    if out is not None:
        folder = Path(out)
        write_result(result, folder / "crossover.json")
        draw(result, folder / "crossover.png")
    show_result(result, as_json)


@command.command("scale")
@click.option(
    "--nodes",
    multiple=True,
    default=("100k", "300k", "1m", "3m", "10m"),
    show_default=True,
    help="Nodes of a graph; can be given again.",
)
@click.option("--degree", default=20, type=click.IntRange(2), show_default=True, help="Mean degree of all.")
@number_option("--width", 64)
@number_option("--orders", 2)
@number_option("--repeats", 20)
@click.option("--batch", default=1000, type=click.IntRange(1), show_default=True, help="Changes in a batch.")
@json_option
def scale(
    nodes: tuple[str, ...], degree: int, width: int, orders: int, repeats: int, batch: int, as_json: bool
) -> None:
    """Time batches on random graphs that differ in their number of nodes alone."""
    with progress_bar() as notify:
        result = measure_scale(
            [count_of(text) for text in nodes],
            degree=degree,
            width=width,
            orders=orders,
            batch=batch,
            repeats=repeats,
            notify=notify,
        )
    show_result(result, as_json)


@command.command("memory")
@graphs_argument
@number_option("--width", 64)
@number_option("--orders", 2)
@click.option("--churn", default="0", show_default=True, help="Events of ids that come and go, at the end.")
@json_option
def memory(graphs: tuple[str, ...], width: int, orders: int, churn: str, as_json: bool) -> None:
    """Compare the bytes of graphs, predicted from their degrees, with what the process takes."""
    with progress_bar() as notify:
        result = measure_memory(
            graphs or ("power-law",), width=width, orders=orders, churn=count_of(churn), notify=notify
        )
    show_result(result, as_json)


@command.command("tolerance")
@graphs_argument
@number_option("--events", EVENTS)
@json_option
def tolerance(graphs: tuple[str, ...], events: int, as_json: bool) -> None:
    """Count the rows that a tolerance keeps from a sink, and how far its vectors are then from exact ones.

    Without GRAPH: college-msg, sx-mathoverflow, as-caida and arxiv-coauthor (in the folder DYGCN_DATA).
    """
    with progress_bar() as notify:
        result = measure_tolerance(graphs, events=events, notify=notify)
    show_result(result, as_json)


@command.command("threads")
@graphs_argument
@number_option("--width", 100)
@number_option("--orders", 2)
@number_option("--repeats", 15)
@number_option("--threads", 2)
@click.option(
    "--batch", "sizes", multiple=True, default=(1000, 10_000), type=click.IntRange(1), show_default=True
)
@json_option
def threads(
    graphs: tuple[str, ...],
    width: int,
    orders: int,
    repeats: int,
    threads: int,
    sizes: tuple[int, ...],
    as_json: bool,
) -> None:
    """Time the same batches on one thread and on several, by turns."""
    with progress_bar() as notify:
        result = measure_threads(
            graphs or ("power-law",),
            width=width,
            orders=orders,
            sizes=sizes,
            repeats=repeats,
            count=threads,
            notify=notify,
        )
    show_result(result, as_json)


@command.command("base")
@graphs_argument
@number_option("--rank", RANK)
@click.option("--window", type=click.IntRange(1), help="Steps of walks.  [default: as many as fit]")
@json_option
def base(graphs: tuple[str, ...], rank: int, window: int | None, as_json: bool) -> None:
    """Time the walk base of graphs, and its memory; without a graph, the cases of the page of costs."""
    cases = [Case(graph, window, rank=rank) for graph in graphs] or CASES
    with progress_bar() as notify:
        result = measure_base(cases, notify)
    show_result(result, as_json)


@command.command("kinds")
@graphs_argument
@json_option
def kinds(graphs: tuple[str, ...], as_json: bool) -> None:
    """Compare kinds of features: bytes, updates, reads; without a graph, those of the page, and fits."""
    with progress_bar() as notify:
        result = measure_kinds(graphs or GRAPHS, () if graphs else FITS, notify)
    show_result(result, as_json)


@command.command("score")
@graphs_argument
@click.option("--quick", is_flag=True, help="A small random graph and few repeats, for a trial.")
@json_option
def score(graphs: tuple[str, ...], quick: bool, as_json: bool) -> None:
    """Time the score of links beside the cosine, and updates with times and without; count their bytes."""
    with progress_bar() as notify:
        result = measure_score(graphs, quick=quick, notify=notify)
    show_result(result, as_json)


@command.command("recommend")
@graphs_argument
@number_option("--nodes", NODES)
@number_option("-k", K)
@json_option
def recommend(graphs: tuple[str, ...], nodes: int, k: int, as_json: bool) -> None:
    """Compare recommendations with the best of everyone: recall, and time."""
    with progress_bar() as notify:
        result = measure_recommend(graphs, nodes=nodes, k=k, notify=notify)
    show_result(result, as_json)


@command.command("engines")
@click.argument("other", metavar="PYTHON", type=click.Path(exists=True))
@graphs_argument
@number_option("--width", 256)
@number_option("--repeats", 10)
@number_option("--rounds", 3)
@json_option
def engines(
    other: str, graphs: tuple[str, ...], width: int, repeats: int, rounds: int, as_json: bool
) -> None:
    """Time updates with this build and with the build that another PYTHON interpreter has, by turns."""
    settings = {"width": width, "repeats": repeats, "rounds": rounds, "levels": ("avx2", "baseline")}
    with progress_bar() as notify:
        result = measure_engines(other, graphs or ("power-law",), **settings, notify=notify)  # type: ignore[arg-type]
    show_result(result, as_json)


@command.command("reads")
@click.argument("other", metavar="PYTHON", type=click.Path(exists=True))
@graphs_argument
@number_option("--rounds", 3)
@json_option
def reads(other: str, graphs: tuple[str, ...], rounds: int, as_json: bool) -> None:
    """Read 10,000 vectors with this build and with that of another PYTHON interpreter, by turns."""
    with progress_bar() as notify:
        result = measure_reads(other, graphs or ("arxiv-coauthor",), rounds=rounds, notify=notify)
    show_result(result, as_json)


@command.command("service")
@click.argument("graph", default=SERVED_GRAPH)
@number_option("--rate", RATE)
@number_option("--seconds", 8)
@number_option("--repeats", 3)
@json_option
def service(graph: str, rate: int, seconds: int, repeats: int, as_json: bool) -> None:
    """Read vectors of a served GRAPH by wrk, beside a bare route and beside events."""
    with progress_bar() as notify:
        result = measure_service(graph, rate=rate, seconds=seconds, repeats=repeats, notify=notify)
    show_result(result, as_json)


@command.command("start")
@click.option(
    "--python",
    "pythons",
    multiple=True,
    metavar="[NAME=]PATH",
    help="A Python to measure, with a name for tables; can be given again.  [default: this one]",
)
@number_option("--repeats", 5)
@click.option("--graph", default=GRAPH, show_default=True, help="Of the service.")
@click.option("--starts", default=3, type=click.IntRange(0), show_default=True, help="Of the service.")
@json_option
def start(pythons: tuple[str, ...], repeats: int, graph: str, starts: int, as_json: bool) -> None:
    """Time how commands and a service start, in fresh processes; several Pythons by turns."""
    environments = [Environment.read(python) for python in pythons] or [HERE]
    with progress_bar() as notify:
        result = measure_start(environments, repeats=repeats, graph=graph, starts=starts, notify=notify)
    show_result(result, as_json)


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
        click.echo(f"not there: {kind}. dygcn bench {kind} --json writes it")
    click.echo(f"open {file}")
