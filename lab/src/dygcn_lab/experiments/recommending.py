"""How well are new items recommended? Ours beside rivals, with the same budget of search.

``python -m dygcn_lab.experiments.recommending OUT.json QUESTION...`` takes the folder of the data sets from
``DYGCN_DATA``; `evaluation.recommending_sets` says what the questions are. Ours is fitted once, follows what
comes between the fit and the question, and is asked by `live.recommend`. Rivals are fitted on all that is
known at the question, with settings that the fitted part chose; where something was followed, also as they
were at the fit. Recall and NDCG of every user are in ``OUT.npz``: ``--rivals`` and ``--ours`` measure one
side and compare it with what is there. ``--name`` gives a row of ours another name, ``--option dim=256`` is
for `dygcn.fit`. A recommendation of a rival is timed from the profile, with nothing prepared: ALS solves for
the user, and EASE with a clock multiplies two matrices where it could keep their product. Where a rival is
not rerun, items that it has not seen share one score.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import click
import numpy as np

import dygcn
from dygcn.engine.records import Int64
from dygcn_lab.baselines.ease import Ease
from dygcn_lab.baselines.recommenders import RIVALS
from dygcn_lab.baselines.recommending import Rival
from dygcn_lab.evaluation.held_out import choose, held_out
from dygcn_lab.evaluation.recommending import Events, Past, Quality, Question, quality, rank
from dygcn_lab.evaluation.recommending_sets import QUESTIONS, question_of
from dygcn_lab.experiments.recommending_results import Results, Row, table

OURS, STALE = "dygcn", "not rerun"
KINDS = "user", "item"
_TIMED = 200  # users who are asked for alone


# ---- rivals ----------------------------------------------------------------------------------------------


def rivals_of(question: Question, only: Collection[str] = ()) -> dict[str, Rival]:
    """Return all rivals, or some; where there are no times, those that make sense without them."""
    wanted = {name: one for name, one in RIVALS.items() if name in (only or RIVALS)}
    if question.fitted.t is not None:
        return wanted
    return {name: one.timeless() for name, one in wanted.items() if not one.times}


def settings_of(rival: Rival, question: Question) -> Row:
    """Choose settings on the last quarter of what is fitted."""
    begun = time.process_time()
    asked = held_out(question)
    past = Past(asked.known)
    model = rival.model(past)

    def value(settings: dict[str, Any]) -> float:
        lists = rank(model.scorer(**settings), past, asked.users, asked.k)
        return quality(lists, asked.truth, asked.official).sum

    if not rival.grid:
        return {"settings": {}, "tried": 0, "cpu s of search": 0.0}
    chosen = choose(rival.start, rival.grid, value)
    spent = round(time.process_time() - begun, 1)
    return {"settings": chosen.settings, "tried": chosen.tried, "cpu s of search": spent}


def ask_rival(
    rival: Rival, settings: dict[str, Any], question: Question, fitted: Events
) -> tuple[Row, Quality]:
    """Fit on some events, and ask with the profiles of the question."""
    past, begun = Past(question.known), time.process_time()
    model = rival.model(Past(fitted))
    score = model.scorer(**settings)
    spent = time.process_time() - begun
    took = _each(lambda user: rank(score, past, np.array([user]), question.k, question.among), question.users)
    lists = rank(score, past, question.users, question.k, question.among)
    row: Row = {"cpu s of fit": round(spent, 2), "us a recommendation": took}
    if isinstance(model, Ease):
        row["items"] = len(model.items)
    return row, quality(lists, question.truth, question.official)


def _each(call: Callable[[int], object], users: Int64) -> float:
    """Return the median of the microseconds that a call takes, for some users, drawn with a fixed seed."""
    drawn = np.random.default_rng(0).permutation(users)[:_TIMED].tolist()
    took = []
    for user in drawn:
        begun = time.perf_counter()
        call(user)
        took.append(time.perf_counter() - begun)
    return round(1e6 * float(np.median(took)), 1)


# ---- ours ------------------------------------------------------------------------------------------------


def table_of(events: Events) -> dict[str, Any]:
    """Return events as `dygcn.fit` and `live.update` take them."""
    t = {} if events.t is None else {"t": events.t.astype(np.int64)}
    return {"src": events.user, "dst": events.item, **t}


def fit(events: Events, **options: Any) -> dygcn.LiveEmbedding:
    """Fit ours."""
    return dygcn.fit(table_of(events), kinds=KINDS, progress=False, **options)


def recommended(live: dygcn.LiveEmbedding, user: int, k: int, among: list[Any] | None = None) -> Int64:
    """Return the items that ours recommends to a user, -1 where there are fewer; none to an unknown user."""
    found = np.full(k, -1, np.int64)
    if (KINDS[0], user) in live:
        items: list[Any] = [item for item, _ in live.recommend((KINDS[0], user), k, among=among)]
        found[: len(items)] = [number for _, number in items]
    return found


def ask_ours(question: Question, options: dict[str, Any], refit: bool = False) -> tuple[Row, Quality]:
    """Fit, follow and ask ours; `refit`: its rows are made anew before the question."""
    begun = time.process_time()
    live = fit(question.fitted, **options)
    row: Row = {"settings": options, "cpu s of fit": round(time.process_time() - begun, 2)}
    after = len(question.known) - len(question.fitted)
    if after:
        begun = time.process_time()
        live.update(table_of(question.known.part(slice(-after, None))))
        row["us an event"] = round(1e6 * (time.process_time() - begun) / after, 1)
    if refit:
        begun = time.process_time()
        live = live.refit().embedding
        row["cpu s of refit"] = round(time.process_time() - begun, 2)
    items = None if question.among is None else np.flatnonzero(question.among).tolist()
    among: list[Any] | None = None if items is None else [(KINDS[1], item) for item in items]
    lists = np.array([recommended(live, user, question.k, among) for user in question.users.tolist()])
    row["us a recommendation"] = _each(
        lambda user: recommended(live, user, question.k, among), question.users
    )
    return row, quality(lists, question.truth, question.official)


def beside_implicit(question: Question, options: dict[str, Any]) -> dict[str, float]:
    """Return the median of the microseconds of a recommendation, ours and implicit's, by turns."""
    from dygcn_lab.baselines.als import Als  # noqa: PLC0415  # needs the extra

    live, past = fit(question.known, **options), Past(question.known)
    model = Als(past).fitted(64, 1.0, 10.0, None)
    took: list[tuple[float, float]] = []
    for user in np.random.default_rng(1).permutation(question.users)[:_TIMED].tolist():
        begun = time.perf_counter()
        live.recommend((KINDS[0], user), question.k)
        between = time.perf_counter()
        model.recommend(user, past.pairs[user], N=question.k)
        took.append((between - begun, time.perf_counter() - between))
    ours, theirs = np.median(1e6 * np.array(took), axis=0).round(1).tolist()
    return {"ours": ours, "implicit, 64 factors": theirs}


def run_rivals(question: Question, results: Results, only: Collection[str] = ()) -> None:
    """Choose the settings of rivals, and measure them: rerun, and as they were at the fit."""
    for name, rival in rivals_of(question, only).items():
        chosen = settings_of(rival, question)
        row, found = ask_rival(rival, chosen["settings"], question, question.known)
        results.add(question, name, chosen | row, found)
        click.echo(f"{question.name}, {name}: {results.found[question.name]['rows'][name]}")
        if len(question.known) > len(question.fitted):
            row, found = ask_rival(rival, chosen["settings"], question, question.fitted)
            results.add(question, f"{name}, {STALE}", chosen | row, found)


def run_ours(
    question: Question, results: Results, name: str, options: dict[str, Any], refit: bool = False
) -> None:
    """Measure ours, and the time of a recommendation beside implicit."""
    results.add(question, name, *ask_ours(question, options, refit), ours=True)
    turns = results.found[question.name].setdefault("us beside implicit", {})
    turns[name] = beside_implicit(question, options)
    results.write()


def parsed(options: tuple[str, ...]) -> dict[str, Any]:
    """Return options of fit: JSON, or text.

    Examples
    --------
    >>> parsed(("dim=256", "links=new"))
    {'dim': 256, 'links': 'new'}
    """
    found: dict[str, Any] = {}
    for name, value in (one.split("=", 1) for one in options):
        try:
            found[name] = json.loads(value)
        except json.JSONDecodeError:
            found[name] = value
    return found


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.argument("questions", nargs=-1, required=True, type=click.Choice(list(QUESTIONS)))
@click.option("--rivals/--ours", "rivals", default=None, help="One side only.")
@click.option("--only", multiple=True, type=click.Choice(list(RIVALS)), help="Of the rivals.")
@click.option("--name", default=OURS, help="Of the row of ours.")
@click.option("--option", "options", multiple=True, help="Of dygcn.fit: NAME=VALUE.")
@click.option("--refit", is_flag=True, help="Make the rows of ours anew before the question.")
@click.option("--unsealed", is_flag=True, help="Read questions that are read once.")
def main(
    out: Path,
    questions: tuple[str, ...],
    rivals: bool | None,
    only: tuple[str, ...],
    name: str,
    options: tuple[str, ...],
    refit: bool,
    unsealed: bool,
) -> None:
    """Write how well each method recommends to a file, and print the table."""
    results = Results(out)
    for asked in questions:
        question = question_of(asked, Path(os.environ["DYGCN_DATA"]), unsealed=unsealed)
        if rivals is not False:
            run_rivals(question, results, only)
        if rivals is not True:
            run_ours(question, results, name, parsed(options), refit)
    click.echo(table({asked: results.found[asked] for asked in questions}))


if __name__ == "__main__":
    main()
