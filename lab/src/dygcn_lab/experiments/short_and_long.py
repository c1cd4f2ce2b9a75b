"""Whether the sentence of `dygcn.evaluate` names the method that the long benchmark names.

``python -m dygcn_lab.experiments.short_and_long OUT.json LONG.json SET...`` takes the folder of the data sets
from ``DYGCN_DATA``, and what `following` measured from LONG.json. The two name the same if both say that ours
is surely better, both that another is, or both that nobody surely is. The logit on heuristics, which the
short one does not know, is left out of the long one.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import click

import dygcn
from dygcn_lab.experiments.following import LOGIT, OURS, read


def named(low: float, high: float, rival: str) -> str:
    """Return who is surely better by the interval of a difference, ours minus the rival.

    Examples
    --------
    >>> named(0.01, 0.03, "recency"), named(-0.01, 0.03, "recency"), named(-0.03, -0.01, "recency")
    ('ours', 'nobody', 'recency')
    """
    return OURS if low > 0 else rival if high < 0 else "nobody"


def long_answer(row: dict[str, Any]) -> tuple[str, str]:
    """Return who is surely better by the long benchmark, and the best rival there."""
    rivals = {name: mean for name, mean in row["mrr"].items() if name not in (OURS, LOGIT)}
    best = max(rivals, key=lambda name: rivals[name])
    _, low, high = row["ours minus"][best]
    return named(low, high, best), best


def run(name: str, folder: Path, long: dict[str, Any]) -> dict[str, Any]:
    """Return both answers for one set."""
    stream = read(name, folder)
    begun = time.perf_counter()
    found = dygcn.evaluate(stream.part(0, len(stream)), progress=False)
    whole = next(iter(found.tables.values()))
    state = long["state 0 events old"]
    by_long, best = long_answer(state["all"] if "all" in state else state["random"])
    by_short = named(whole.difference.low, whole.difference.high, whole.rival)
    return {
        "sentence": found.sentence,
        "seconds": round(time.perf_counter() - begun, 1),
        "short": by_short,
        "short, best rival": whole.rival,
        "long": by_long,
        "long, best rival": best,
        "same": _kind(by_short) == _kind(by_long),
    }


def _kind(name: str) -> str:
    return name if name in (OURS, "nobody") else "another"


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.argument("long", type=click.Path(path_type=Path, exists=True))
@click.argument("sets", nargs=-1, required=True)
def main(out: Path, long: Path, sets: tuple[str, ...]) -> None:
    """Write both answers for each set to a file, and print them."""
    results, measured = {}, json.loads(long.read_text())
    for name in sets:
        results[name] = run(name, Path(os.environ["DYGCN_DATA"]), measured[name])
        out.write_text(json.dumps(results, indent=1) + "\n")
        click.echo(f"{name}: {results[name]}")


if __name__ == "__main__":
    main()
