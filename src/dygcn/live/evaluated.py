"""The result of an evaluation: measures of each method with intervals, as a sentence, a table or a plot."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dygcn._extras import extra
from dygcn.engine.records import Bool, Float64, Int64
from dygcn.live import exporting

OURS, OURS_NEW = "dygcn", "dygcn, links new"
MEASURES = "MRR", "recall@10", "NDCG@10"
_TOP = 10
_RESAMPLES = 1_000
_BETWEEN = 2.5, 97.5  # percentiles of an interval of 95 %
_WIDE = 19  # characters of a cell
_SMALL = 0.005  # what two digits would show as nothing


class Interval(NamedTuple):
    """A mean, and the interval that holds it in 95 % of resamples."""

    mean: float
    low: float
    high: float


def measures_of(ranks: Float64) -> Float64:
    """Return the measures of ranks, (3, n); an infinite rank has 0 in each."""
    top = ranks <= _TOP
    return np.stack((1.0 / ranks, top.astype(np.float64), top / np.log2(1.0 + ranks)))


@dataclass(frozen=True)
class Judged:
    """The ranks that each method gave to the true answers, and the measures that follow from them.

    Attributes
    ----------
    ranks
        By method, (questions,); infinite where no method can name the answer.
    askers
        The number of the asker, (questions,).
    ours
        The method that is compared with the best of the others.
    seed
        Of the resamples.
    """

    ranks: dict[str, Float64]  # by method, (questions,); infinite where no method can name the answer
    askers: Int64  # (questions,) the number of the asker
    ours: str = OURS  # the method that is compared with the best of the others
    seed: int = 0  # of the resamples

    @cached_property
    def rows(self) -> dict[str, dict[str, Interval]]:
        """The measures of each method, the best MRR first."""
        found = {
            name: dict(zip(MEASURES, self._bootstrap(measures_of(ranks)), strict=True))
            for name, ranks in self.ranks.items()
        }
        return dict(sorted(found.items(), key=lambda one: -one[1]["MRR"].mean))

    @cached_property
    def rival(self) -> str:
        """The best other method by MRR."""
        return next(name for name in self.rows if not name.startswith(OURS))

    @cached_property
    def difference(self) -> Interval:
        """The MRR of our method minus that of the best other one, on the same questions."""
        both = (measures_of(self.ranks[name])[:1] for name in (self.ours, self.rival))
        return self._bootstrap(next(both) - next(both))[0]

    @property
    def sentence(self) -> str:
        """A sentence that recommends a method."""
        ours, other = (self.rows[name]["MRR"].mean for name in (self.ours, self.rival))
        mean, low, high = self.difference
        if low > 0:
            return (
                f"Use {self.ours}: MRR {short(ours)}, the best of the others, {self.rival}, has "
                f"{short(other)} (surely better, by {span(low, high)})."
            )
        if high < 0:
            return (
                f"Use {self.rival}: MRR {short(other)}, {self.ours} has {short(ours)} "
                f"(surely worse, by {span(-high, -low)})."
            )
        return (
            f"Tied: {self.ours} has MRR {short(ours)}, the best of the others, {self.rival}, has "
            f"{short(other)} (the difference is {short(mean)}, surely between {span(low, high, 'and')})."
        )

    def to_dict(self) -> dict[str, object]:
        """Return everything except the ranks, for JSON."""
        return {
            "questions": len(self.askers),
            "askers": len(np.unique(self.askers)),
            "ours": self.ours,
            "rival": self.rival,
            "difference": self.difference._asdict(),
            "sentence": self.sentence,
            "rows": {
                name: {measure: one._asdict() for measure, one in row.items()}
                for name, row in self.rows.items()
            },
        }

    def lines(self) -> list[str]:
        """Return the table as lines of text."""
        wide = max(map(len, self.rows))
        head = f"{'':{wide}}  " + "  ".join(f"{name:<{_WIDE}}" for name in MEASURES)
        body = [
            f"{name:{wide}}  " + "  ".join(f"{_cell(row[one]):<{_WIDE}}" for one in MEASURES)
            for name, row in self.rows.items()
        ]
        return [line.rstrip() for line in (head, *body)]

    @cached_property
    def _counts(self) -> Float64:
        """How often each asker is in each resample, (resamples, askers)."""
        many = len(np.unique(self.askers))
        random = np.random.default_rng((self.seed, many))
        return random.multinomial(many, np.full(many, 1.0 / many), _RESAMPLES).astype(np.float64)

    def _bootstrap(self, values: Float64) -> list[Interval]:
        """Return the mean of each row of values, with its interval over resampled askers."""
        _, who = np.unique(self.askers, return_inverse=True)
        size = self._counts @ np.bincount(who).astype(np.float64)
        found = []
        for row in values:
            means = self._counts @ np.bincount(who, row) / size
            low, high = np.percentile(means, _BETWEEN)
            found.append(Interval(float(row.mean()), float(low), float(high)))
        return found


def short(value: float, digits: int = 2) -> str:
    """Return a number as text; below one without the leading zero."""
    text = f"{value:.{digits}f}"
    if not text.strip("-0."):
        text = text.removeprefix("-")
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def span(low: float, high: float, word: str = "to") -> str:
    """Return both ends of an interval as text, with a third digit where two would show one as zero."""
    digits = 3 if min(abs(low), abs(high)) < _SMALL else 2
    return f"{short(low, digits)} {word} {short(high, digits)}"


def _cell(one: Interval) -> str:
    return f"{short(one.mean, 3)} ({short(one.low, 3)}-{short(one.high, 3)})"


@dataclass(frozen=True, repr=False)
class Evaluation:
    """How well each method predicted the later events of a history; made by `dygcn.evaluate`.

    Attributes
    ----------
    all_events
        The methods on every question: ranks, rows, difference and sentence.
    new_pairs
        The same on questions whose asker and answer had never met, among candidates whom the asker had never
        met; None if there are none. Ours is the score that `recommend` uses there, ``links="new"``.
    fitted, followed
        How many events were fitted on, and how many came after.
    asked
        The events that are questions, as places in the history sorted by time, (questions,).
    is_new
        Which of them are of new pairs, (questions,).
    notes
        What else there is to know, one sentence each.
    seconds
        How long it took.

    Examples
    --------
    >>> import dygcn
    >>> rows = [(f"u{i % 7}", f"i{i % 7}", i, 1) for i in range(300)]
    >>> found = dygcn.evaluate(rows, dim=8)
    >>> found.rows["recency"]["MRR"].mean, len(found.asked)
    (1.0, 90)
    """

    all_events: Judged
    new_pairs: Judged | None
    fitted: int
    followed: int
    asked: Int64
    is_new: Bool
    notes: tuple[str, ...] = ()
    seconds: float = field(default=0.0, compare=False)

    @property
    def rows(self) -> dict[str, dict[str, Interval]]:
        """The measures of each method on all events, the best MRR first."""
        return self.all_events.rows

    @property
    def difference(self) -> Interval:
        """The MRR of dygcn minus that of the best of the others, on all events."""
        return self.all_events.difference

    @property
    def sentence(self) -> str:
        """A sentence that recommends a method, for all events."""
        return self.all_events.sentence

    @property
    def tables(self) -> dict[str, Judged]:
        """What there is of `all_events` and `new_pairs`, by name."""
        both = {"all events": self.all_events, "new pairs": self.new_pairs}
        return {name: one for name, one in both.items() if one is not None}

    def to_dict(self) -> dict[str, object]:
        """Return everything except the ranks, for JSON."""
        return {
            "sentence": self.sentence,
            "fitted": self.fitted,
            "followed": self.followed,
            "seconds": self.seconds,
            "notes": list(self.notes),
            "tables": {name: table.to_dict() for name, table in self.tables.items()},
        }

    def to_pandas(self) -> Any:
        """Return a pandas frame: a row for each table and method, measures and ends of their intervals."""
        rows = {
            (table, method): [number for measure in MEASURES for number in row[measure]]
            for table, judged in self.tables.items()
            for method, row in judged.rows.items()
        }
        columns = [f"{measure}{end}" for measure in MEASURES for end in ("", " low", " high")]
        return exporting.as_frame(list(rows), [*rows.values()], columns).rename_axis(["questions", "method"])

    def plot(self, ax: Any = None) -> Any:
        """Draw the MRR of each method with its interval; return the axes (extra ``plot``)."""
        if ax is None:
            with extra("plot"):
                from matplotlib import pyplot  # noqa: PLC0415
            _, ax = pyplot.subplots(figsize=(8, 5), layout="constrained")
        names = list(dict.fromkeys(name for table in self.tables.values() for name in table.rows))
        high = 0.8 / len(self.tables)
        for at, (called, table) in enumerate(self.tables.items()):
            some = [table.rows[name]["MRR"] for name in table.rows]
            place = [names.index(name) + at * high for name in table.rows]
            means = [one.mean for one in some]
            ends = [[one.mean - one.low for one in some], [one.high - one.mean for one in some]]
            label = f"{called} ({len(table.askers):,} questions)"
            ax.barh(place, means, high, xerr=np.maximum(ends, 0.0), label=label, capsize=2)
        ax.set_yticks([at + high * (len(self.tables) - 1) / 2 for at in range(len(names))], names)
        ax.invert_yaxis()
        ax.set_xlabel("MRR, with intervals of 95 %")
        ax.set_title(self.sentence, fontsize=9, wrap=True)
        ax.legend(loc="best", fontsize=8)
        return ax

    def __repr__(self) -> str:
        lines = [self.sentence]
        for name, table in self.tables.items():
            asked, askers = len(table.askers), len(np.unique(table.askers))
            lines += ["", f"{name}: {asked:,} questions of {askers:,} askers", *table.lines()]
            lines += [] if table is self.all_events else [table.sentence]
        return "\n".join([*lines, "", *self.notes])
