"""`dygcn bench`: what an update costs, on your machine and your graph."""

from __future__ import annotations

import click

from dygcn.cli.printing import json_option, progress_bar, show, show_table
from dygcn.experiments.update_cost import measure_updates, power_law_events


@click.group("bench")
def command() -> None:
    """Measure costs. Compare ratios of one run; seconds depend on the machine and its load."""


@command.command("update")
@click.argument("events", required=False, type=click.Path())
@click.option(
    "--nodes",
    default=50_000,
    type=click.IntRange(10),
    show_default=True,
    help="Nodes of the random graph without EVENTS.",
)
@click.option("--edges", default=300_000, type=click.IntRange(10), show_default=True, help="Its edges.")
@click.option("--width", default=256, show_default=True)
@click.option("--orders", default=2, show_default=True)
@click.option("--repeats", default=30, type=click.IntRange(1), show_default=True)
@json_option
def update(
    events: str | None, nodes: int, edges: int, width: int, orders: int, repeats: int, as_json: bool
) -> None:
    """Time single edges and batches of 1,000 against a full recompute, in one run."""
    with progress_bar() as notify:
        graph = events if events is not None else power_law_events(nodes, edges)
        result = measure_updates(graph, width=width, orders=orders, repeats=repeats, notify=notify)
    batches = result["batches"]
    if not as_json:
        show({name: value for name, value in result.items() if name != "batches"}, as_json=False)
        click.echo()
    names = {
        "events": "batch",
        "median_us": "median us",
        "p99_us": "p99 us",
        "events_per_second": "events/s",
        "rows_per_event": "rows/event",
        "vectors_per_event": "vectors/event",
        "times_cheaper_than_recompute": "cheaper than recompute",
    }
    rows = [[batch[name] for name in names] for batch in batches]
    show_table(list(names.values()), rows, as_json, result)
