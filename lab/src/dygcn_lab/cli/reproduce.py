"""`dygcn reproduce`: the paper's tables and figures, rerun."""

from __future__ import annotations

from pathlib import Path

import click

from dygcn.cli.printing import json_option, print_json, progress_bar
from dygcn.errors import OptionError
from dygcn_lab.experiments.plan import experiment_names
from dygcn_lab.experiments.reproduce import reproduce, write_markdown
from dygcn_lab.experiments.results_page import with_headline, with_history


@click.command("reproduce", epilog="Data sets that do not ship are looked for in the folder DYGCN_DATA.")
@click.argument("names", nargs=-1, metavar="NAME...")
@click.option("--out", default="reproduced", show_default=True, type=click.Path(), help="Folder to write.")
@click.option("--cells", type=click.Path(), help="Folder of finished cells.  [default: cells inside --out]")
@click.option(
    "--quick", is_flag=True, help="Eight steps, one seed, little training: does it run, not what it finds."
)
@click.option("--dataset", "datasets", multiple=True, help="Only this data set; can be given again.")
@click.option("--group", "groups", multiple=True, help="Only this group of methods; can be given again.")
@click.option("--minutes", type=float, help="Begin no cell after so many minutes; 0: show what is there.")
@click.option("--markdown", type=click.Path(), help="Also write a Markdown page, its pictures beside it.")
@click.option("--readme", type=click.Path(), help="Also put the table of results into this README.")
@click.option("--history", type=click.Path(), help="Also put the tables of harder questions into this page.")
@json_option
def command(
    names: tuple[str, ...],
    out: str,
    cells: str | None,
    quick: bool,
    datasets: tuple[str, ...],
    groups: tuple[str, ...],
    minutes: float | None,
    markdown: str | None,
    readme: str | None,
    history: str | None,
    as_json: bool,
) -> None:
    """Rerun tables and figures of the paper (NAME: table2, figure-nc, ..., or all).

    Writes CSV, PNG and one HTML page with the paper's numbers beside. What was finished is not run again.
    """
    if not names:
        raise OptionError(f"name what to reproduce: all, or any of {', '.join(experiment_names())}")
    chosen = experiment_names() if "all" in names else list(dict.fromkeys(names))
    with progress_bar() as notify:
        done = reproduce(
            chosen,
            Path(out),
            cells=None if cells is None else Path(cells),
            quick=quick,
            datasets=datasets,
            groups=groups,
            minutes=minutes,
            notify=notify,
        )
    if markdown is not None:
        write_markdown(done, Path(markdown))
    if readme is not None:
        file = Path(readme)
        file.write_text(with_headline(file.read_text(encoding="utf-8"), done.store), encoding="utf-8")
    if history is not None:
        file = Path(history)
        file.write_text(with_history(file.read_text(encoding="utf-8"), done.store), encoding="utf-8")
    if as_json:
        lines = {section.experiment.name: section.lines for section in done.sections}
        print_json(
            {"page": str(done.page), "missing": done.missing, "unfinished": done.unfinished, "lines": lines}
        )
        return
    for name, why in done.missing.items():
        click.echo(f"left out: {name}. {why}")
    if done.unfinished:
        click.echo(f"{done.unfinished} cells are still to run; the same command goes on")
    click.echo(f"open {done.page}")
