"""Reads over HTTP beside a writer: single, batches, nearest, scores and changes, each against its sequence.

A service with one reader process gets small batches that add and remove edges among few ids, so that nodes
leave, come back and are given to other ids all the time. A mirror in this process gets the same batches, and
keeps what every sequence looked like; an answer is judged by the sequence that it names.
"""

from __future__ import annotations

import tempfile
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import msgspec
import numpy as np

import dygcn
from dygcn.engine.records import Float32, Float64
from dygcn_lab.soak.check import Check, Found, Tally
from dygcn_lab.testbed.served import served_process

NODES, DIM, PAIRS, K = 300, 8, 20, 5
_KEPT = 4_000  # sequences
_MANY = 1_000  # ids in a batch
_LONGEST_HUNT = 3_000_000  # reads; the bug is mostly noticed among the first 100,000
_JSON = {"content-type": "application/json"}
_BUG = "dygcn_lab.soak.promises.seeded_reader:no_check_after_the_read"


@dataclass
class Moment:
    """What one sequence looks like."""

    vectors: Float32  # by id; not a number where an id is not in the graph
    scores: Float64


@dataclass
class ReadTally(Tally):
    """What was read, by route; `wrong` counts wrong reads."""

    reads: Counter[str] = field(default_factory=Counter)

    def count(self, route: str, reads: int, wrong: int, about: str = "") -> None:
        """Count the reads of one answer."""
        self.reads[route] += reads
        self.wrong += wrong
        if wrong:
            self.note(f"{route}, {about}")


class Mirror:
    """The same graph here, and what every sequence looked like."""

    def __init__(self, live: dygcn.LiveEmbedding, pairs: list[tuple[int, int]]) -> None:
        self.live, self._pairs = live, pairs
        self._moments: dict[int, Moment] = {}
        self._news = threading.Condition()

    def note(self, sequence: int) -> None:
        """Remember what the graph looks like at a sequence."""
        live = self.live
        vectors = np.full((NODES, DIM), np.nan, np.float32)
        here = [one for one in range(NODES) if one in live]
        if here:
            vectors[here] = live.vectors(here)
        source, targets = self._pairs[0][0], np.array([other for _, other in self._pairs])
        scores, known = np.full(len(targets), np.nan), np.isfinite(vectors[targets, 0])
        if source in live and known.any():
            scores[known] = live.score(source, targets[known].tolist())
        with self._news:
            self._moments[sequence] = Moment(vectors, scores)
            self._moments.pop(sequence - _KEPT, None)
            self._news.notify_all()

    def newest(self) -> Moment:
        """Return what the last sequence looks like."""
        with self._news:
            return next(reversed(self._moments.values()))

    def at(self, sequence: int) -> Moment:
        """Return what a sequence looks like; wait, if it is being made."""
        with self._news:
            if not self._news.wait_for(lambda: sequence in self._moments, timeout=30):
                raise AssertionError(f"sequence {sequence} never was, or is long ago")
            return self._moments[sequence]


class Writer(threading.Thread):
    """Sends batches, and plays them to the mirror."""

    def __init__(self, address: str, mirror: Mirror, seed: int) -> None:
        super().__init__(daemon=True)
        self._client, self._mirror = httpx.Client(base_url=address, timeout=60.0), mirror
        self._random, self.ended = np.random.default_rng(seed), threading.Event()
        self.batches, self.failure = 0, ""

    def run(self) -> None:
        """Write until the end."""
        try:
            with self._client:
                while not self.ended.is_set():
                    self._write()
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}"

    def _write(self) -> None:
        count = int(self._random.choice([1, 5, 30, 200]))
        if self._random.random() < 0.2:  # all edges of some nodes go, and the nodes with them
            gone = self._random.integers(0, NODES, 6).tolist()
            pairs = [
                (one, int(other))
                for one in gone
                if one in self._mirror.live
                for other in self._mirror.live.neighbors(one)
            ]
            op = [-1] * len(pairs)
        else:
            pairs = [(int(a), int(b)) for a, b in self._random.integers(0, NODES, (count, 2)) if a != b]
            op = self._random.choice([1, -1], len(pairs)).tolist()
        if not pairs:
            return
        rows = [{"src": a, "dst": b, "op": o} for (a, b), o in zip(pairs, op, strict=True)]
        answer = self._client.post("/v1/events", content=msgspec.json.encode(rows), headers=_JSON)
        answer.raise_for_status()
        src, dst = zip(*pairs, strict=True)
        self._mirror.live.update({"src": list(src), "dst": list(dst), "op": op})
        self._mirror.note(answer.json()["sequence"])
        self.batches += 1


class Reader(threading.Thread):
    """Reads in every way, and judges."""

    def __init__(
        self,
        address: str,
        mirror: Mirror,
        pairs: list[tuple[int, int]],
        wanted: int,
        seed: int,
        caught: threading.Event | None,
    ) -> None:
        super().__init__(daemon=True)
        self._client, self._mirror, self._wanted = (
            httpx.Client(base_url=address, timeout=60.0),
            mirror,
            wanted,
        )
        self._random, self._pairs = np.random.default_rng(seed), pairs
        self._since, self._caught = "", caught
        self.tally, self.failure = ReadTally(), ""

    def run(self) -> None:
        """Read until there were enough, or a wrong one, if that ends it."""
        ways = [
            (self._one, 0.6),
            (self._many, 0.3),
            (self._nearest, 0.04),
            (self._scores, 0.03),
            (self._changes, 0.03),
        ]
        calls, shares = zip(*ways, strict=True)
        try:
            with self._client:
                while self.tally.reads.total() < self._wanted:
                    if self._caught is not None and self._caught.is_set():
                        break
                    calls[self._random.choice(len(calls), p=shares)]()
                    if self._caught is not None and self.tally.bad:
                        self._caught.set()
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}"

    def _one(self) -> None:
        node = int(self._random.integers(NODES))
        answer = self._client.get(f"/v1/vectors/{node}")
        if answer.status_code == 404:  # it names no sequence
            self.tally.count("one", 1, 0)
            return
        found = answer.json()
        wanted = self._mirror.at(found["sequence"]).vectors[node]
        wrong = found["id"] != node or not _equal(found["vector"], wanted)
        self.tally.count("one", 1, int(wrong), f"node {node}, sequence {found['sequence']}")

    def _many(self) -> None:
        ids = self._random.integers(0, NODES, _MANY).tolist()
        if self._random.random() < 0.8:  # most batches name nobody who is missing, as far as is known
            ids = [one for one in ids if one in self._seen()] or ids
        found = self._client.post(
            "/v1/vectors", content=msgspec.json.encode({"ids": ids}), headers=_JSON
        ).json()
        vectors = self._mirror.at(found["sequence"]).vectors
        wanted = vectors[found["ids"]] if found["ids"] else vectors[:0]
        same = np.array(found["vectors"], np.float32).reshape(-1, DIM) == wanted
        wrong = int((~same.all(axis=1)).sum()) + int(
            np.isfinite(vectors[found["missing"], 0]).sum() if found["missing"] else 0
        )
        wrong += abs(len(ids) - len(found["ids"]) - len(found["missing"]))
        self.tally.count("many", len(ids), wrong, f"sequence {found['sequence']}")

    def _seen(self) -> set[int]:
        return set(np.flatnonzero(np.isfinite(self._mirror.newest().vectors[:, 0])).tolist())

    def _nearest(self) -> None:
        node = int(self._random.integers(NODES))
        answer = self._client.get(f"/v1/nearest/{node}", params={"k": K})
        if answer.status_code == 404:
            self.tally.count("nearest", 1, 0)
            return
        found = answer.json()
        vectors = self._mirror.at(found["sequence"]).vectors.astype(np.float64)
        lengths = np.linalg.norm(vectors, axis=1)
        cosines = vectors @ vectors[node] / (lengths * lengths[node])
        cosines[node] = np.nan
        best = np.sort(cosines[np.isfinite(cosines)])[::-1][:K]
        ids = [one["id"] for one in found["nodes"]]
        given = np.array([one["score"] for one in found["nodes"]])
        good = (
            len(given) == len(best)
            and np.allclose(given, best, atol=1e-6)
            and np.allclose(cosines[ids], given, atol=1e-6)
        )
        self.tally.count("nearest", 1, int(not good), f"node {node}, sequence {found['sequence']}")

    def _scores(self) -> None:
        at = int(self._random.integers(len(self._pairs)))
        body = msgspec.json.encode({"pairs": [self._pairs[at]]})
        answer = self._client.post("/v1/score", content=body, headers=_JSON)
        if answer.status_code == 404:
            self.tally.count("scores", 1, 0)
            return
        found = answer.json()
        wanted = self._mirror.at(found["sequence"]).scores[at]
        score = found["scores"][0]
        wrong = score is None or not np.isclose(score, wanted, atol=1e-9)
        self.tally.count(
            "scores",
            1,
            int(wrong),
            f"pair {self._pairs[at]}, sequence {found['sequence']}: {score}, {wanted}",
        )

    def _changes(self) -> None:
        found = self._client.get("/v1/changes", params={"since": self._since, "limit": 200}).json()
        self._since = found["next"]
        vectors = self._mirror.at(found["sequence"]).vectors
        rows = found["moved"]
        wrong = sum(not _equal(row["vector"], vectors[row["id"]]) for row in rows)
        wrong += sum(bool(np.isfinite(vectors[row["id"], 0])) for row in found["left"])
        self.tally.count("changes", len(rows) + len(found["left"]), wrong, f"sequence {found['sequence']}")


def _equal(given: list[float], wanted: Float32) -> bool:
    return bool((np.array(given, np.float32) == wanted).all())  # not a number is equal to nothing


def read_beside(reads: int, seed: int, bug: str = "") -> tuple[ReadTally, int, list[str]]:
    """Read so often beside a writer; return what was found, the batches written, and what went wrong else.

    With a bug, the first wrong read ends it.
    """
    random = np.random.default_rng(seed)
    ring = [(one, (one + 1) % NODES) for one in range(NODES)]
    model = dygcn.fit(ring, dim=DIM, seed=seed).model
    pairs = [(0, int(other)) for other in random.choice(np.arange(1, NODES), PAIRS, replace=False)]
    with tempfile.TemporaryDirectory() as workdir:
        folder = Path(workdir, "graph")
        live = dygcn.start(model)
        live.update(add=ring)
        live.save(folder)
        with served_process(folder, readers=1, bug=bug) as one:
            mirror = Mirror(live, pairs)
            mirror.note(0)
            writer = Writer(one.address, mirror, seed + 1)
            caught = threading.Event() if bug else None
            share = reads // 2 + 1
            readers = [Reader(one.address, mirror, pairs, share, seed + 2 + i, caught) for i in range(2)]
            for thread in (writer, *readers):
                thread.start()
            for reader in readers:
                reader.join()
            writer.ended.set()
            writer.join()
    total = ReadTally()
    for reader in readers:
        total.reads += reader.tally.reads
        total.wrong += reader.tally.wrong
        total.notes += reader.tally.notes
    return total, writer.batches, [one for one in (writer.failure, *(r.failure for r in readers)) if one]


def look(size: int, seed: int) -> Found:
    """Read so often; then see that a reader that checks nothing is noticed."""
    found, batches, failures = read_beside(size, seed)
    bad, _, _ = read_beside(_LONGEST_HUNT, seed + 100, _BUG)
    figures = {"batches written": batches, **{f"reads, {route}": n for route, n in found.reads.items()}}
    notes = [*found.notes, *failures]
    return Found(found.reads.total(), found.bad, bad.bad > 0, figures, notes, not failures)


CHECK = Check(
    "reads",
    60_000,
    10_000_000,
    "every answer is of one sequence",
    "reads over HTTP beside a writer that recycles nodes, each against the sequence it names",
    "readers that do not look whether somebody wrote meanwhile",
    look,
)
