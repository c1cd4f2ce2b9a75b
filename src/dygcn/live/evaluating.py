"""Evaluate: fit on the earlier events, replay the later ones, and rank the destination before each.

The baselines beside the embedding are numpy, none trained except EASE. A baseline is called with a position
in the history and reads nothing behind it, so it cannot see the answer.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dygcn._extras import late
from dygcn._progress import progress_of
from dygcn.engine._blas import one_blas_thread
from dygcn.engine.events import ColumnOptions, read_graph, rows_of, sort_by_time
from dygcn.engine.graph.ids import IdMap
from dygcn.errors import EventError
from dygcn.live.evaluated import OURS, OURS_NEW, Evaluation, Judged
from dygcn.live.finding import at_least
from dygcn.live.fitting import ReadEvents, fit, phases_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dygcn import datasets
    from dygcn._progress import Asked as AskedProgress
    from dygcn._progress import Notify, Plan
    from dygcn.engine.records import Bool, EventBatch, Float64, Int8, Int64, Nodes
    from dygcn.live.embedding import LiveEmbedding
else:
    datasets = late("dygcn.datasets")  # only the names of sets need it


FITTED = 0.7  # share of the events
FEWEST = 50  # events after it
MOST_CANDIDATES = 1_000  # beside the answer
_TUNED = 0.15  # last share of the fitted part, by which settings of rivals are chosen
_TUNING_QUESTIONS = 200


def evaluate(
    events: object,
    questions: int = 500,
    seed: int = 0,
    *,
    kinds: Sequence[str] | bool | None = None,
    progress: AskedProgress = "auto",
    **options: Any,
) -> Evaluation:
    """Measure how well an embedding predicts the later events of a history, beside simple methods.

    It is fitted on the first 70 % of the events and follows the rest. Before some events of the rest, each
    method ranks the candidates for who comes next for the event's source; the event's destination is the
    answer. Candidates are the nodes that were a destination before, of the answer's kind.

    Parameters
    ----------
    events
        Anything that `dygcn.fit` takes. Without `t` the order of the rows is the time.
    questions
        How many events of the rest are questions, at most; they are drawn at random. The source of one had an
        event before, and its destination is another node.
    seed
        Of the fit, the questions, the candidates and the resamples.
    kinds, progress
        As in `dygcn.fit`.
    **options
        Other options of `dygcn.fit`, such as `src`, `dim`, `memory` or `nodes`.

    Returns
    -------
    Evaluation
        MRR, recall@10 and NDCG@10 of each method, with intervals over resampled askers; which method to use.

    Raises
    ------
    EventError
        If fewer than 50 events come after the first 70 %, or none of them is a question.

    Examples
    --------
    >>> import dygcn
    >>> rows = [(f"u{i % 7}", f"i{i % 7}", i, 1) for i in range(300)]
    >>> found = dygcn.evaluate(rows, dim=8)
    >>> found.fitted, found.followed, found.rows["popularity"]["MRR"].mean < 0.5
    (210, 90, True)
    """
    begun = time.perf_counter()
    at_least("questions", questions, 1)
    at_least("seed", seed, 0)
    names: Any = {name: options.pop(name) for name in ColumnOptions.__annotations__ if name in options}
    source = datasets.events_by_name(events) if isinstance(events, str) else events
    ids, unsorted = read_graph(source, options.get("directed", False), kinds, **names)
    stream = _Timeline(ids, sort_by_time(unsorted))
    options |= {"seed": seed, "src": names.get("src"), "dst": names.get("dst")}
    with one_blas_thread(), progress_of(progress, plan_of(**options)) as notify:
        live = fit(ReadEvents(ids, stream.rows(0, stream.cut)), progress=notify, **options)
        replay = _Evaluator(stream, live, seed, notify)
        found = replay.run(stream.draw(stream.end, len(stream.row), questions, seed))
    return dataclasses.replace(found, seconds=time.perf_counter() - begun)


def plan_of(**options: Any) -> Plan:
    """Return the phases of an evaluation with options of fit, with rough shares of its time."""
    chosen = options.get("relation_weights") == "choose"
    fitting = phases_of(options.get("rule", "exact"), options.get("features", "walks"), chosen)
    return *fitting, ("choosing settings of rivals", 3), ("asking", 10)


class _Timeline:
    """The history, sorted by time: all events for the embedding, contacts for the simple methods."""

    def __init__(self, ids: str, batch: EventBatch) -> None:
        self.batch, self.cut = batch, int(FITTED * len(batch))
        if len(batch) - self.cut < FEWEST:
            raise EventError(
                f"{len(batch) - self.cut} events come after the first 70 % of {len(batch)}; at least "
                f"{FEWEST} are needed, to ask before them: pass a longer history"
            )
        self.ids = IdMap(ids)
        a, b = self.ids.intern(batch.src), self.ids.intern(batch.dst)
        when = np.arange(len(batch), dtype=np.float64) if batch.t is None else batch.t.astype(np.float64)
        self.row: Int64 = np.flatnonzero((batch.op > 0) & (a != b))  # of each contact, in the history
        self.seen = PastContacts.of(a[self.row], b[self.row], when[self.row], self.ids.high)
        self.end = int(np.searchsorted(self.row, self.cut))  # how many contacts are fitted on
        everyone, kinds = np.arange(self.ids.high, dtype=np.int32), self.ids.kinds
        self.kind: Int8 = np.zeros(len(everyone), np.int8)  # of each node, by number
        for number, kind in enumerate(kinds.names if kinds is not None else ()):
            self.kind[self.ids.of_kind(everyone, kind)] = number

    def rows(self, begin: int, end: int) -> EventBatch:
        """Return some events as a batch."""
        return rows_of(self.batch, np.arange(begin, end))

    def draw(self, begin: int, end: int, most: int, seed: int) -> Int64:
        """Return contacts of a range, `most` at most, in order, whose source had an earlier contact."""
        ends = np.stack((self.seen.src, self.seen.dst), axis=1).ravel()
        nodes, first = np.unique(ends, return_index=True)
        since = np.zeros(self.seen.nodes, np.int64)
        since[nodes] = first // 2
        able = begin + np.flatnonzero(since[self.seen.src[begin:end]] < np.arange(begin, end))
        if len(able) > most:
            able = np.sort(np.random.default_rng((seed, 1)).choice(able, most, replace=False))
        return able


class _Evaluator:
    """Asks every method to rank the answer before each later event, while the embedding follows them."""

    def __init__(self, stream: _Timeline, live: LiveEmbedding, seed: int, notify: Notify | None) -> None:
        self._stream, self._live, self._seed = stream, live, seed
        self._notify: Notify = notify or (lambda done, total, what: None)
        self._links = "next" if live.model.following is not None else "all"
        self._at = stream.cut  # how many events the embedding has seen
        self._notify(0, 1, "choosing settings of rivals")
        begin = int((1 - _TUNED) * stream.end)
        some = [self._ask(at) for at in stream.draw(begin, stream.end, _TUNING_QUESTIONS, seed).tolist()]
        self._rivals = choose_rivals(stream.seen, stream.end, some, begin)

    def _ask(self, at: int) -> LinkQuestion:
        return ask(self._stream.seen, self._stream.kind, at, MOST_CANDIDATES, self._seed)

    def run(self, questions: Int64) -> Evaluation:
        """Ask all questions; return the evaluation."""
        if len(questions) == 0:
            raise EventError(
                "no event after the first 70 % can be a question: none is an add of an edge between two "
                "nodes whose source had an event before; pass a longer history"
            )
        ranks: dict[str, list[tuple[float, float]]] = {}
        asked = []
        for done, at in enumerate(questions.tolist()):
            self._notify(done, len(questions), "asking")
            one = self._ask(at)
            asked.append(one)
            for name, scores in self._scores(one).items():
                ranks.setdefault(name, []).append(one.ranks(scores))
        return self._found(questions, asked, {name: np.array(both) for name, both in ranks.items()})

    def _scores(self, one: LinkQuestion) -> dict[str, Float64]:
        """Return the scores of each method; first apply all events before the question to the embedding."""
        self._follow(one.at)
        seen, live = self._stream.seen, self._live
        nodes = np.append(one.candidates, one.asker).astype(np.int32)
        names = self._stream.ids.names(nodes)
        asker, found = _one_and_others(live._state.graph.find(names))
        history = live._state.history
        past = None if history is None else _one_and_others(history.find(names))
        kinds = {OURS: self._links, OURS_NEW: "new"} if one.new else {OURS: self._links}
        scores = {name: live._scores_of(asker, found, links, past) for name, links in kinds.items()}
        scores.setdefault(OURS_NEW, np.zeros(len(one.candidates)))
        return scores | {
            name: rival(seen, one.asker, one.candidates, one.at) for name, rival in self._rivals.items()
        }

    def _follow(self, at: int) -> None:
        """Apply all events before a contact, and set the clock to it."""
        row, batch = int(self._stream.row[at]), self._stream.batch
        if row > self._at:
            self._live._apply(self._stream.rows(self._at, row), None)
            self._at = row
        if batch.t is not None:
            self._live._apply(self._stream.rows(row, row), float(batch.t[row]))

    def _found(self, questions: Int64, asked: list[LinkQuestion], ranks: dict[str, Float64]) -> Evaluation:
        stream, new = self._stream, np.array([one.new for one in asked])
        askers = np.array([one.asker for one in asked])
        every = {name: both[:, 0] for name, both in ranks.items() if name != OURS_NEW}
        fresh = {name: both[new, 1] for name, both in ranks.items()}
        return Evaluation(
            Judged(every, askers, OURS, self._seed),
            Judged(fresh, askers[new], OURS_NEW, self._seed) if new.any() else None,
            stream.cut,
            len(stream.batch) - stream.cut,
            stream.row[questions],
            new,
            tuple(self._notes(asked)),
        )

    def _notes(self, asked: list[LinkQuestion]) -> list[str]:
        stream = self._stream
        notes = [f"Fitted on {stream.cut:,} events; {len(stream.batch) - stream.cut:,} came after."]
        if stream.batch.t is None:
            notes.append("The events have no times: the order of the rows is the time.")
        cut = sum(one.cut for one in asked)
        if cut:
            notes.append(
                f"In {cut:,} questions, candidates are the answer and {MOST_CANDIDATES:,} random others."
            )
        missing = sum(one.answer < 0 for one in asked)
        if missing:
            notes.append(
                f"{missing:,} answers had never been a destination: no candidate, and a miss of every method."
            )
        if "EASE" not in self._rivals:
            items = len(stream.seen.items_before(stream.end))
            notes.append(f"EASE is left out: {items:,} destinations; at most {MOST_ITEMS:,} are allowed.")
        return notes


def _one_and_others(nodes: Nodes) -> tuple[Nodes, Nodes]:
    """Return the last node, repeated once for each of the others, and the others."""
    return np.full(len(nodes) - 1, nodes[-1], np.int32), nodes[:-1].copy()


MOST_ITEMS = 3_000  # destinations that EASE takes: it inverts a matrix of so many rows
LAMBDAS = 50.0, 250.0, 1_000.0  # of EASE
PARTS = 200.0, 50.0, 4.0  # half-lives of recent popularity are the fitted span divided by these
_USERS_AT_ONCE = 2_048


@dataclass(frozen=True, slots=True)
class PastContacts:
    """Added edges in their order, without loops; nodes are numbered from 0."""

    src: Int64  # of each contact, (n,), as dst and t
    dst: Int64
    t: Float64
    nodes: int
    pair_at: Int64  # the first contact of each different (src, dst), growing
    item_at: Int64  # the first contact of each different destination, growing

    @staticmethod
    def of(src: Nodes, dst: Nodes, t: Float64, nodes: int) -> PastContacts:
        """Return the contacts of events."""
        a, b = src.astype(np.int64), dst.astype(np.int64)
        return PastContacts(a, b, t, nodes, _first(a * nodes + b), _first(b))

    def items_before(self, at: int) -> Int64:
        """Return the destinations of contacts before a position, in the order of their first contact."""
        return self.dst[self.item_at[: np.searchsorted(self.item_at, at)]]

    def pairs_before(self, at: int) -> tuple[Int64, Int64]:
        """Return the pairs of contacts before a position, in the order of their first contact."""
        first = self.pair_at[: np.searchsorted(self.pair_at, at)]
        return self.src[first], self.dst[first]

    def last_met(self, asker: int, at: int) -> Int64:
        """Return each node's last contact with the asker, in either direction, counted from 1; 0: none."""
        last = np.zeros(self.nodes, np.int64)
        for one, other in ((self.src, self.dst), (self.dst, self.src)):
            when = np.flatnonzero(one[:at] == asker)
            np.maximum.at(last, other[when], when + 1)
        return last


def _first(keys: Int64) -> Int64:
    """Return the index of the first occurrence of each distinct key, ascending."""
    return np.sort(np.unique(keys, return_index=True)[1]).astype(np.int64)


# Scores candidates for an asker from the contacts before `at`: (seen, asker, candidates, at), (n,).
Rival: TypeAlias = Callable[[PastContacts, int, "Int64", int], "Float64"]


def popularity(seen: PastContacts, asker: int, candidates: Int64, at: int) -> Float64:
    """Count how often a candidate was a destination."""
    return np.bincount(seen.dst[:at], minlength=seen.nodes)[candidates].astype(np.float64)


def recent_popularity(
    half_life: float, seen: PastContacts, asker: int, candidates: Int64, at: int
) -> Float64:
    """Count how often a candidate was a destination; a contact counts half after each half-life."""
    left = np.exp2((seen.t[:at] - seen.t[at]) / half_life)
    return np.bincount(seen.dst[:at], left, seen.nodes)[candidates].astype(np.float64)


def recency(seen: PastContacts, asker: int, candidates: Int64, at: int) -> Float64:
    """Rank by the last contact with the asker, in either direction; all others by their popularity."""
    return seen.last_met(asker, at)[candidates] + popularity(seen, asker, candidates, at) / (at + 1.0)


def item_item(seen: PastContacts, asker: int, candidates: Int64, at: int) -> Float64:
    """Sum the cosines between a candidate and the asker's destinations, by the askers they share."""
    src, dst = seen.pairs_before(at)
    root = np.sqrt(np.maximum(np.bincount(dst, minlength=seen.nodes), 1.0))
    own = np.zeros(seen.nodes)
    own[dst[src == asker]] = 1.0
    alike = np.bincount(src, (own / root)[dst], seen.nodes)
    return (np.bincount(dst, alike[src], seen.nodes) / root)[candidates]


class Ease:
    """EASE of Steck (2019): weights between destinations in closed form, from the contacts before `end`.

    The weights stay as they are; the row of the asker is that of the moment. A destination that came later
    has no weights, and the score 0.
    """

    def __init__(
        self, seen: PastContacts, end: int, regularisation: float, gram: Float64 | None = None
    ) -> None:
        items = seen.items_before(end)
        self._place = np.full(seen.nodes, -1)
        self._place[items] = np.arange(len(items))
        shared = self.gram(seen, end) if gram is None else gram
        inverse = np.linalg.inv(shared + regularisation * np.eye(len(items)))
        self._weights = -inverse / np.diag(inverse)
        np.fill_diagonal(self._weights, 0.0)

    @staticmethod
    def gram(seen: PastContacts, end: int) -> Float64:
        """Return how many askers went to both of two destinations."""
        items, (src, dst) = seen.items_before(end), seen.pairs_before(end)
        place = np.zeros(seen.nodes, np.int64)
        place[items] = np.arange(len(items))
        users, row = np.unique(src, return_inverse=True)
        order = np.argsort(row, kind="stable")
        row, column = row[order], place[dst[order]]
        total = np.zeros((len(items), len(items)))
        for begin in range(0, len(users), _USERS_AT_ONCE):
            some = slice(*np.searchsorted(row, (begin, begin + _USERS_AT_ONCE)))
            block = np.zeros((min(_USERS_AT_ONCE, len(users) - begin), len(items)), np.float32)
            block[row[some] - begin, column[some]] = 1.0
            total += block.T @ block
        return total

    def __call__(self, seen: PastContacts, asker: int, candidates: Int64, at: int) -> Float64:
        """Return the scores, see `Rival`."""
        src, dst = seen.pairs_before(at)
        own = self._place[dst[src == asker]]
        summed = np.append(self._weights[own[own >= 0]].sum(axis=0), 0.0)
        found: Float64 = summed[self._place[candidates]]
        return found


def rank_of(scores: Float64, answer: int) -> float:
    """Return the rank of the answer; tied scores share the mean of their ranks."""
    own = scores[answer]
    return 1.0 + float((scores > own).sum()) + 0.5 * float((scores == own).sum() - 1)


@dataclass(frozen=True, slots=True)
class LinkQuestion:
    """One question: which of `candidates` the asker meets in the contact `at`."""

    at: int
    asker: int
    candidates: Int64
    answer: int  # its index among the candidates; -1: it is none, so no method can name it
    cut: bool  # whether candidates were left out
    met: Bool  # (n,) candidates that the asker had a contact with before
    new: bool  # whether asker and answer had none

    def ranks(self, scores: Float64) -> tuple[float, float]:
        """Return the rank of the answer among all candidates, and among candidates that the asker never met.

        The second is infinite for an answer that the asker met before, both for an unknown one.
        """
        if self.answer < 0:
            return np.inf, np.inf
        every = rank_of(scores, self.answer)
        if not self.new:
            return every, np.inf
        left = np.flatnonzero(~self.met)
        return every, rank_of(scores[left], int(np.searchsorted(left, self.answer)))


def ask(seen: PastContacts, kind: Int8, at: int, most: int, seed: int) -> LinkQuestion:
    """Return the question whose answer is this contact, with at most `most` other candidates."""
    asker, answer = int(seen.src[at]), int(seen.dst[at])
    items = seen.items_before(at)
    items = items[(kind[items] == kind[answer]) & (items != asker)]
    others, known = items[items != answer], bool((items == answer).any())
    cut = len(others) > most
    if cut:
        chosen = np.random.default_rng((seed, at)).choice(len(others), most, replace=False)
        others = others[np.sort(chosen)]
    candidates = np.append(others, answer) if known else others
    last = seen.last_met(asker, at)
    place = len(others) if known else -1
    return LinkQuestion(at, asker, candidates, place, cut, last[candidates] > 0, bool(last[answer] == 0))


def choose_rivals(seen: PastContacts, end: int, asked: list[LinkQuestion], begin: int) -> dict[str, Rival]:
    """Return the baselines by name, with the settings that rank best on the fitted part."""
    span = (float(seen.t[end - 1] - seen.t[0]) if end else 0.0) or 1.0
    recent: list[Rival] = [partial(recent_popularity, span / part) for part in PARTS]
    found: dict[str, Rival] = {
        "popularity": popularity,
        "recent popularity": recent[_best(seen, recent, asked)],
        "recency": recency,
        "item-item": item_item,
    }
    if len(seen.items_before(end)) <= MOST_ITEMS:
        gram = Ease.gram(seen, begin)
        at = _best(seen, (Ease(seen, begin, one, gram) for one in LAMBDAS), asked) if asked else 1
        found["EASE"] = Ease(seen, end, LAMBDAS[at])
    return found


def _best(seen: PastContacts, rivals: Iterable[Rival], asked: list[LinkQuestion]) -> int:
    """Return the index of the method with the best mean reciprocal rank; the first if tied."""

    def total(rival: Rival) -> float:
        ranks = (one.ranks(rival(seen, one.asker, one.candidates, one.at))[0] for one in asked)
        return sum(1.0 / rank for rank in ranks)

    return int(np.argmax([total(rival) for rival in rivals]))
