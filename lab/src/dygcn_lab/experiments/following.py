"""How well is it said what comes next? Ours beside rows that learn nothing, with states of several ages.

``python -m dygcn_lab.experiments.following OUT.json SET...`` takes the folder of the data sets from
``DYGCN_DATA``. Everything is fitted on the first 70 % of the events of a set and follows the rest; questions
(see `evaluation.following`) are about the rest, or about a part of it. Real times are the clock; with
``--positions``, the number of each event.
"""

from __future__ import annotations

import copy
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow.parquet as pq

import dygcn
from dygcn.engine.records import Float64, Int64
from dygcn_lab.baselines.following import HALF_LIVES, Heuristics, Past
from dygcn_lab.evaluation.following import Answers, Question, Score, Stream, ask, reciprocal_ranks
from dygcn_lab.evaluation.paired import compare

OURS, LOGIT = "ours", "logistic on heuristics"
AGES = (0, 200)
_TUNED, _LISTS = 0.85, 400  # rivals are tuned on events after this share of the fitted part, so many


def read(name: str, folder: Path) -> Stream:
    """Return the events of a set, without self loops, in the order of their times."""
    table = pq.read_table(folder / name / "edges.parquet")
    src, dst, t = (table[column].to_numpy() for column in ("src", "dst", "t"))
    op = table["op"].to_numpy() if "op" in table.column_names else np.ones(len(t), np.int8)
    order = np.flatnonzero(src != dst)
    order = order[np.argsort(t[order], kind="stable")]
    ends = src[order].astype(np.int64), dst[order].astype(np.int64)
    return Stream(name, *ends, t[order].astype(np.float64), op[order].astype(np.int64))


def fit(stream: Stream, seed: int) -> dygcn.LiveEmbedding:
    """Fit ours, with all defaults."""
    return dygcn.fit(stream.part(0, stream.fitted), seed=seed, progress=False)


def ask_ours(stream: Stream, questions: list[Question], live: dygcn.LiveEmbedding, age: int | str) -> Answers:
    """Ask ours; of all candidates by the score of everybody, else by the one of lists."""
    live = copy.deepcopy(live)
    links = "next" if "all" in questions[0].candidates else "listed"

    def follow(begin: int, end: int) -> None:
        live.update(stream.part(begin, end))

    def score(asker: int, candidates: Int64, now: float) -> Float64:
        live.update(now=now)
        scores: Float64 = live.score(asker, candidates, links=links, missing="cold")
        return scores

    return reciprocal_ranks(stream, questions, follow, {OURS: score}, age)


def ask_rivals(stream: Stream, questions: list[Question], age: int | str) -> Answers:
    """Ask every rival; half-life and weights are chosen in the fitted part."""
    part, logit = _tuned(stream)
    past = _past(stream, stream.fitted)

    def follow(begin: int, end: int) -> None:
        past.follow(**stream.part(begin, end))

    return reciprocal_ranks(stream, questions, follow, _scores(past, part, logit), age)


def _past(stream: Stream, end: int) -> Past:
    past = Past(stream.nodes, float(stream.t[stream.fitted - 1] - stream.t[0]))
    past.follow(**stream.part(0, end))
    return past


def _scores(past: Past, part: float, logit: Heuristics | None) -> dict[str, Score]:
    found: dict[str, Score] = {
        "recency, then popularity": past.recency,
        "decayed popularity": lambda u, v, now: past.popularity(u, v, now, part),
        "EdgeBank": past.edgebank,
        "EdgeBank, window": past.edgebank_window,
    }
    if logit is not None:
        found[LOGIT] = lambda u, v, now: logit.score(past.columns(u, v, now))
    return found


def _tuned(stream: Stream) -> tuple[float, Heuristics]:
    """Return the half-life that ranks best in the fitted part, and weights of textbook columns."""
    end = stream.fitted
    fitted = Stream(stream.name, **stream.part(0, end))
    asked = ask(fitted, _TUNED, 1.0, _LISTS, seed=1)
    past, seen = _past(stream, 0), 0
    lists, ranks = [], dict.fromkeys(HALF_LIVES, 0.0)
    for one in asked:
        past.follow(**stream.part(seen, one.event))
        seen = one.event
        u, now = int(stream.src[one.event]), float(stream.t[one.event])
        for candidates in one.candidates.values():
            lists.append(past.columns(u, candidates, now))
            for part in HALF_LIVES:
                scores = past.popularity(u, candidates, now, part)
                ranks[part] += 1 / (1 + (scores[1:] > scores[0]).sum() + (scores[1:] == scores[0]).sum() / 2)
    return max(ranks, key=lambda part: ranks[part]), Heuristics(lists)


def run(
    stream: Stream, share: tuple[float, float], count: int, seeds: Sequence[int], ages: Sequence[Any]
) -> Any:
    """Return what was measured on one set."""
    questions = ask(stream, *share, count)
    found: dict[str, Any] = {"events": len(stream), "questions": len(questions), "share": share}
    new = np.array([one.new for one in questions])
    found["new pairs"] = float(new.mean())
    begun = time.perf_counter()
    lives = [fit(stream, seed) for seed in seeds]
    found["seconds of fit"] = (time.perf_counter() - begun) / len(lives)
    for age in ages:
        by_seed = [ask_ours(stream, questions, live, age) for live in lives]
        rivals = ask_rivals(stream, questions, age)
        state: dict[str, Any] = {}
        for kind in by_seed[0].ranks[OURS]:
            ours = np.array([one.ranks[OURS][kind] for one in by_seed])
            state[kind] = _row(ours, {name: rows[kind] for name, rows in rivals.ranks.items()}, new)
        state["us an event"] = {OURS: round(by_seed[0].event.us, 1), "rivals": round(rivals.event.us, 1)}
        pairs = {**by_seed[0].pair, **rivals.pair}
        state["us a candidate"] = {name: round(cost.us, 2) for name, cost in pairs.items()}
        found[f"state {age} events old" if age != "day" else "state of midnight"] = state
    return found


def _row(ours: Float64, rivals: dict[str, Float64], new: Any) -> dict[str, Any]:
    against = {}
    for name, theirs in rivals.items():
        paired = compare(ours, theirs)
        against[name] = [round(number, 4) for number in (paired.difference, paired.low, paired.high)]
    everybody = {OURS: ours, **rivals}
    return {
        "mrr": {name: _mean(values) for name, values in everybody.items()},
        "mrr of new pairs": {name: _mean(values[..., new]) for name, values in everybody.items()},
        "by seed": ours.mean(axis=1).round(4).tolist(),
        "ours minus": against,
    }


def _mean(values: Float64) -> float | None:
    return round(float(values.mean()), 4) if values.size else None


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.argument("sets", nargs=-1, required=True)
@click.option("--seeds", default=1, help="How many fits.")
@click.option("--questions", default=1000, help="How many, at most.")
@click.option("--share", type=(float, float), default=(0.7, 1.0), help="Of the stream that is asked about.")
@click.option("--age", "ages", multiple=True, default=("0", "200"), help="Of the state: events, or day.")
@click.option("--positions", is_flag=True, help="Take the number of each event as its time.")
def main(
    out: Path, sets: tuple[str, ...], seeds: int, questions: int, share: Any, ages: Any, positions: bool
) -> None:
    """Write what was measured on each set to a file, and print the means."""
    results = json.loads(out.read_text()) if out.exists() else {}
    for name in sets:
        stream = read(name, Path(os.environ["DYGCN_DATA"]))
        stream = stream.by_position() if positions else stream
        old = [one if one == "day" else int(one) for one in ages]
        results[name] = run(stream, share, questions, range(seeds), old)
        out.write_text(json.dumps(results, indent=1) + "\n")
        for about, kinds in results[name].items():
            if about.startswith("state"):
                for kind, row in kinds.items():
                    if "mrr" in row:
                        click.echo(f"{name}, {about}, {kind}: {row['mrr']} new {row['mrr of new pairs']}")


if __name__ == "__main__":
    main()
