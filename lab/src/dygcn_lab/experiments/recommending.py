"""How well are new items recommended? Ours beside rivals, with the same budget of search, on the same questions.

``python -m dygcn_lab.experiments.recommending OUT.json QUESTION...`` takes the folder of the data sets from
``DYGCN_DATA``; `evaluation.recommending_sets` says what the questions are. Ours is fitted once, follows what comes
between the fit and the question, and is asked by `live.recommend`. Rivals are fitted on all that is known at the
question, with settings that the fitted part chose; where something was followed, also as they were at the fit.
Recall and NDCG of every user are in ``OUT.npz``: ``--rivals`` and ``--ours`` measure one side and compare it with
what is there. ``--name`` gives a row of ours another name, ``--option dim=256`` is for `dygcn.fit`.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

import dygcn
from dygcn_lab.baselines.recommenders import RIVALS
from dygcn_lab.evaluation.held_out import choose, held_out
from dygcn_lab.evaluation.paired import compare
from dygcn_lab.evaluation.recommending import Past, Quality, quality, rank
from dygcn_lab.evaluation.recommending_sets import QUESTIONS, question_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from dygcn.engine.records import Int64
    from dygcn_lab.baselines.recommending import Rival
    from dygcn_lab.evaluation.recommending import Events, Question

OURS, STALE = "dygcn", "not rerun"
KINDS = "user", "item"
_TIMED = 200  # users who are asked for alone
Row = dict[str, Any]


# ---- rivals ----------------------------------------------------------------------------------------------


def rivals_of(question: Question) -> dict[str, Rival]:
    """Return the rivals that make sense without times, or all."""
    if question.fitted.t is not None:
        return RIVALS
    return {name: one.timeless() for name, one in RIVALS.items() if not one.times}


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


def ask_rival(rival: Rival, settings: dict[str, Any], question: Question, fitted: Events) -> tuple[Row, Quality]:
    """Fit on some events, and ask with the profiles of the question."""
    past, begun = Past(question.known), time.process_time()
    score = rival.model(Past(fitted)).scorer(**settings)
    spent = time.process_time() - begun
    took = _each(lambda user: rank(score, past, np.array([user]), question.k), question.users)
    lists = rank(score, past, question.users, question.k)
    row = {"cpu s of fit": round(spent, 2), "us a recommendation": took}
    return row, quality(lists, question.truth, question.official)


def _each(call: Callable[[int], object], users: Int64) -> float:
    """Return the median of the microseconds that a call takes for each of some users, drawn with a fixed seed."""
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


def recommended(live: dygcn.LiveEmbedding, user: int, k: int) -> Int64:
    """Return the items that ours recommends to a user, -1 where there are fewer; none to one that it does not know."""
    found = np.full(k, -1, np.int64)
    if (KINDS[0], user) in live:
        items = [id[1] for id, _ in live.recommend((KINDS[0], user), k)]
        found[: len(items)] = items
    return found


def ask_ours(question: Question, options: dict[str, Any]) -> tuple[Row, Quality]:
    """Fit, follow and ask ours."""
    begun = time.process_time()
    live = fit(question.fitted, **options)
    row: Row = {"settings": options, "cpu s of fit": round(time.process_time() - begun, 2)}
    after = len(question.known) - len(question.fitted)
    if after:
        begun = time.process_time()
        live.update(table_of(question.known.part(slice(-after, None))))
        row["us an event"] = round(1e6 * (time.process_time() - begun) / after, 1)
    lists = np.array([recommended(live, user, question.k) for user in question.users.tolist()])
    row["us a recommendation"] = _each(lambda user: recommended(live, user, question.k), question.users)
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
    return {OURS: ours, "implicit, 64 factors": theirs}


# ---- what is written -------------------------------------------------------------------------------------


class Results:
    """Rows in a JSON file, and recall and NDCG of every user in a file beside it."""

    def __init__(self, out: Path) -> None:
        self._out, self._users = out, out.with_suffix(".npz")
        self.found: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
        self._values = dict(np.load(self._users)) if self._users.exists() else {}

    def add(self, question: Question, name: str, row: Row, found: Quality, ours: bool = False) -> None:
        """Take a row, compare it with those of the other side, and write both files."""
        about = self.found.setdefault(question.name, {"rows": {}, "ours minus": {}})
        sizes = {"fitted": len(question.fitted), "known": len(question.known)}
        about |= {**sizes, "users": len(question.users), "k": question.k}
        means = {"recall": round(float(found.recall.mean()), 4), "ndcg": round(float(found.ndcg.mean()), 4)}
        about["rows"][name] = means | {"ours": ours} | row
        self._values[f"{question.name}/{name}/recall"] = found.recall.astype(np.float32)
        self._values[f"{question.name}/{name}/ndcg"] = found.ndcg.astype(np.float32)
        self._compare(question.name, about)
        self.write()

    def _compare(self, question: str, about: dict[str, Any]) -> None:
        sides: dict[bool, list[str]] = {True: [], False: []}
        for name, row in about["rows"].items():
            if f"{question}/{name}/recall" in self._values:
                sides[row["ours"]].append(name)
        for ours in sides[True]:
            against = about["ours minus"].setdefault(ours, {})
            for theirs in sides[False]:
                against[theirs] = {
                    figure: self._paired(*(f"{question}/{name}/{figure}" for name in (ours, theirs)))
                    for figure in ("recall", "ndcg")
                }

    def _paired(self, ours: str, theirs: str) -> list[float]:
        found = compare(self._values[ours], self._values[theirs])
        return [round(number, 4) for number in (found.difference, found.low, found.high)]

    def write(self) -> None:
        """Write both files."""
        self._out.parent.mkdir(parents=True, exist_ok=True)
        self._out.write_text(json.dumps(self.found, indent=1) + "\n")
        np.savez_compressed(self._users, **self._values)


def table(results: dict[str, Any]) -> str:
    """Return the rows of all questions in Markdown.

    Examples
    --------
    >>> row = {"recall": 0.1, "ndcg": 0.2, "cpu s of fit": 3.0, "us a recommendation": 50.0}
    >>> print(table({"few": {"k": 10, "users": 9, "rows": {"EASE": row}, "ours minus": {}}}))
    | question | row | recall | NDCG | ours minus it, recall | CPU s of search | of fit | us a recommendation |
    |---|---|---|---|---|---|---|---|
    | few, at 10, 9 users | EASE | .1000 | .2000 |  | 0 | 3.0 | 50.0 |
    """
    head = "question | row | recall | NDCG | ours minus it, recall | CPU s of search | of fit | us a recommendation"
    lines = [f"| {head} |", "|---|---|---|---|---|---|---|---|"]
    for question, about in results.items():
        asked = f"{question}, at {about['k']}, {about['users']} users"
        for name, row in about["rows"].items():
            apart = "; ".join(
                f"{ours}: {one[name]['recall'][0]:+.4f} ({one[name]['recall'][1]:+.4f} to {one[name]['recall'][2]:+.4f})"
                for ours, one in about["ours minus"].items()
                if name in one
            )
            figures = (f"{row[figure]:.4f}".lstrip("0") for figure in ("recall", "ndcg"))
            costs = row.get("cpu s of search", 0), row["cpu s of fit"], row["us a recommendation"]
            lines.append(f"| {' | '.join([asked, name, *figures, apart, *map(str, costs)])} |")
    return "\n".join(lines)


def run(question: Question, results: Results, name: str, rivals: bool | None, options: dict[str, Any]) -> None:
    """Measure all rows of a question, or those of one side."""
    for rival_name, rival in rivals_of(question).items() if rivals is not False else ():
        chosen = settings_of(rival, question)
        row, found = ask_rival(rival, chosen["settings"], question, question.known)
        results.add(question, rival_name, chosen | row, found)
        click.echo(f"{question.name}, {rival_name}: {results.found[question.name]['rows'][rival_name]}")
        if len(question.known) > len(question.fitted):
            row, found = ask_rival(rival, chosen["settings"], question, question.fitted)
            results.add(question, f"{rival_name}, {STALE}", chosen | row, found)
    if rivals is not True:
        results.add(question, name, *ask_ours(question, options), ours=True)
        results.found[question.name]["us beside implicit"] = {name: beside_implicit(question, options)}
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
@click.option("--name", default=OURS, help="Of the row of ours.")
@click.option("--option", "options", multiple=True, help="Of dygcn.fit: NAME=VALUE.")
@click.option("--unsealed", is_flag=True, help="Read questions that are read once.")
def main(
    out: Path, questions: tuple[str, ...], rivals: bool | None, name: str, options: Any, unsealed: bool
) -> None:
    """Write how well each method recommends to a file, and print the table."""
    results = Results(out)
    for asked in questions:
        question = question_of(asked, Path(os.environ["DYGCN_DATA"]), unsealed=unsealed)
        run(question, results, name, rivals, parsed(options))
    click.echo(table({asked: results.found[asked] for asked in questions}))


if __name__ == "__main__":
    main()
