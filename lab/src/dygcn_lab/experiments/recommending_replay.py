"""The last ten weeks of a shop, by day: ours follows every event, rivals are rerun nightly or fortnightly.

``python -m dygcn_lab.experiments.recommending_replay OUT.json`` takes `online-retail` from the folder of
``DYGCN_DATA``, and has the options and the two files of `recommending`. A day's questions are its users who
had an event before the day and take something new on it; the answers are all their new items of that day.
Rivals are asked with the state of midnight: the profiles of the users are that old, what was fitted is up to
a fortnight older. Ours is asked at midnight, and at the moment before the user's first event of the day.
Settings of rivals are chosen once, at the start.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np

from dygcn_lab.baselines.recommenders import RIVALS
from dygcn_lab.baselines.recommending import Rival
from dygcn_lab.evaluation.recommending import DAY, Events, Past, Quality, Question, Scorer, ask, quality, rank
from dygcn_lab.evaluation.recommending_sets import K, read
from dygcn_lab.experiments.recommending import OURS, fit, parsed, recommended, settings_of, table_of
from dygcn_lab.experiments.recommending_results import Results, table

SET, WEEKS = "online-retail", 10
RERUN = {"nightly": 1, "fortnightly": 14}  # days
ASKED = "recent popularity", "EASE", "ALS", "EASE, clock"


@dataclass(frozen=True, slots=True, eq=False)
class Day:
    """One day with events, and its question, with the state of midnight."""

    number: int  # from the start
    events: Events
    question: Question


def days_of(events: Events, weeks: int = WEEKS) -> tuple[Events, list[Day]]:
    """Return the events before the last weeks, and the days of these."""
    number = (events.times // DAY).astype(np.int64)
    start = int(number[-1]) + 1 - 7 * weeks
    days = []
    for day in np.unique(number[number >= start]).tolist():
        begin, end = np.searchsorted(number, (day, day + 1))
        known, today = events.part(slice(0, begin)), events.part(slice(begin, end))
        days.append(Day(day - start, today, ask(f"{SET}, day {day - start}", known, known, today, K)))
    return events.part(slice(0, int(np.searchsorted(number, start)))), days


def whole(fitted: Events, events: Events, days: list[Day]) -> Question:
    """Return all questions of all days as one."""
    users = np.concatenate([day.question.users for day in days])
    truth = tuple(taken for day in days for taken in day.question.truth)
    return Question(f"{SET}, replay", fitted, events, users, truth, K)


@dataclass(slots=True)
class Answers:
    """What one method listed over the days, and the seconds of the processor that it took."""

    fitting: float = 0.0
    asking: float = 0.0
    lists: list[Any] = field(default_factory=list)

    def judged(self, question: Question) -> tuple[dict[str, Any], Quality]:
        """Return a row, and the quality of all lists."""
        row = {
            "cpu s of fit": round(self.fitting, 1),  # and of all reruns, or of all updates
            "us a recommendation": round(1e6 * self.asking / len(question.users), 1),
        }
        return row, quality(np.concatenate(self.lists), question.truth)


def replay_rival(rival: Rival, settings: dict[str, Any], days: Iterable[Day]) -> dict[str, Answers]:
    """Rerun a rival after every so many days, and ask it at every midnight."""
    found: dict[str, Answers] = defaultdict(Answers)
    made: dict[str, tuple[int, Scorer]] = {}
    for day in days:
        begun = time.process_time()
        past = Past(day.question.known)
        score = rival.model(past).scorer(**settings)
        spent = time.process_time() - begun
        for name, every in RERUN.items():
            if name not in made or made[name][0] != day.number // every:
                made[name] = day.number // every, score
                found[name].fitting += spent
            begun = time.process_time()
            found[name].lists.append(rank(made[name][1], past, day.question.users, K))
            found[name].asking += time.process_time() - begun
    return found


def replay_ours(fitted: Events, days: Iterable[Day], options: dict[str, Any]) -> dict[str, Answers]:
    """Fit once, and follow every event; ask at midnight and at the moment."""
    midnight, moment = Answers(), Answers()
    begun = time.process_time()
    live = fit(fitted, **options)
    spent = time.process_time() - begun

    def follow(day: Day, begin: int, end: int) -> None:
        nonlocal spent
        begun = time.process_time()
        if end > begin:
            live.update(table_of(day.events.part(slice(begin, end))))
        spent += time.process_time() - begun

    def answer(answers: Answers, user: int) -> Any:
        begun = time.process_time()
        found = recommended(live, user, K)
        answers.asking += time.process_time() - begun
        return found

    for day in days:
        users = day.question.users.tolist()
        midnight.lists.append(np.array([answer(midnight, user) for user in users]).reshape(-1, K))
        lists, seen = np.full((len(users), K), -1, np.int64), 0
        for at, begin in first_events(day):
            follow(day, seen, begin)
            lists[at], seen = answer(moment, users[at]), begin
        follow(day, seen, len(day.events))
        moment.lists.append(lists)
    midnight.fitting = moment.fitting = spent
    return {"midnight": midnight, "moment": moment}


def first_events(day: Day) -> Iterator[tuple[int, int]]:
    """Yield each user of the question, by its place, and how many events of the day precede its first one.

    Events of the very same time are not before it. Users come in the order of these numbers.
    """
    users, first = np.unique(day.events.user, return_index=True)
    t = day.events.times
    begins = np.searchsorted(t, t[first[np.searchsorted(users, day.question.users)]])
    for at in np.argsort(begins, kind="stable").tolist():
        yield at, int(begins[at])


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--rivals/--ours", "rivals", default=None, help="One side only.")
@click.option("--name", default=OURS, help="Of the rows of ours.")
@click.option("--option", "options", multiple=True, help="Of dygcn.fit: NAME=VALUE.")
@click.option("--weeks", default=WEEKS, help="How many are replayed.")
def main(out: Path, rivals: bool | None, name: str, options: Any, weeks: int) -> None:
    """Write how well each method recommends, day by day, to a file, and print the table."""
    events = read(Path(os.environ["DYGCN_DATA"]) / SET)[0]
    fitted, days = days_of(events, weeks)
    results, question = Results(out), whole(fitted, events, days)
    if rivals is not True:
        for state, answers in replay_ours(fitted, days, parsed(options)).items():
            results.add(question, f"{name}, {state}", *answers.judged(question), ours=True)
    for rival in ASKED if rivals is not False else ():
        chosen = settings_of(RIVALS[rival], Question(SET, fitted, fitted, *_nobody(), K))
        for often, answers in replay_rival(RIVALS[rival], chosen["settings"], days).items():
            row, found = answers.judged(question)
            results.add(question, f"{rival}, {often}", chosen | row, found)
    click.echo(table(results.found))


def _nobody() -> tuple[Any, tuple[Any, ...]]:
    return np.zeros(0, np.int64), ()


if __name__ == "__main__":
    main()
