"""Reads beside a writer, each compared with the state of the sequence that it names.

The writer adds and removes edges of a few ids, so that nodes leave, come back and are given to other ids all
the time. A reader process reads single vectors and batches from the shared rows meanwhile.
"""

from __future__ import annotations

import multiprocessing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

import dygcn
from dygcn.live.shared import RowReader, SharedRows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection

    from dygcn.engine.records import Float32, Int64

_BATCH = 24
_SENT = 20_000  # reads that are sent to the writer at once


@dataclass
class Verdict:
    """What the reads of a trial were."""

    reads: int = 0
    asked: int = 0  # for which the reader wanted the writer
    wrong: int = 0
    sequences: set[int] = field(default_factory=set)


def read_beside(
    reads: int,
    *,
    kind: str = "int64",
    seed: int = 0,
    nodes: int = 60,
    mutate: Callable[[], None] | None = None,
) -> Verdict:
    """Read so often beside a writer; return how many reads were wrong.

    Parameters
    ----------
    mutate
        Called in the reader process first: a seeded bug, which must be noticed.

    Examples
    --------
    >>> verdict = read_beside(2_000)
    >>> verdict.reads >= 2_000, verdict.wrong
    (True, 0)
    """
    ids = [f"node {i}" for i in range(nodes)] if kind == "string" else list(range(0, 3 * nodes, 3))
    random = np.random.default_rng(seed)
    live = dygcn.fit([(ids[i], ids[(i + 1) % nodes]) for i in range(nodes)], dim=8, seed=seed)
    rows = SharedRows(live._state, lambda: live.version)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    reader = context.Process(
        target=_read, args=(theirs, rows.handle(), ids, reads, seed, mutate), daemon=True
    )
    reader.start()
    theirs.close()
    history, verdict = {live.version: _all_vectors(live, ids)}, Verdict()
    try:
        while True:
            for _ in _churn(live, ids, random):
                history[live.version] = _all_vectors(live, ids)
            while ours.poll():
                part = ours.recv_bytes()
                if not part:
                    return verdict
                _judge(verdict, part, history, live.model.dim)
                oldest = max(verdict.sequences, default=0) - 5_000
                for old in [one for one in history if one < oldest]:
                    del history[old]
    finally:
        reader.join(timeout=60)
        rows.close()


def _churn(live: Any, ids: list[Any], random: np.random.Generator) -> Iterator[None]:
    """Change edges, nodes, weights and arrays in every way there is; yield after each change."""
    if random.random() < 0.03:
        with live.what_if(add=[(ids[0], ids[1]), (ids[2], ids[3])]):
            pass
    if random.random() < 0.02:  # many come, arrays grow, rows of a hub become wide; then they go
        others = [
            f"other {i}" if isinstance(ids[0], str) else -1 - i for i in range(int(random.integers(500)) + 1)
        ]
        yield live.update(add=[(ids[0], other) for other in others])
        yield live.update(remove_nodes=others)
    count = int(random.integers(1, 8)) if random.random() < 0.9 else 60
    chosen = random.integers(0, len(ids), (count, 2))
    events = [(ids[a], ids[b], "+" if random.random() < 0.5 else "-") for a, b in chosen if a != b]
    if random.random() < 0.3:
        gone = [one for one in {ids[a] for a, _ in chosen[:2]} if one in live]
        if gone:
            yield live.update(remove_nodes=gone)
    if events:
        weight = random.choice([1.0, 0.5, 2.0**-9, 300.0])  # a finer one moves all rows to other arrays
        yield live.update(_columns(events, weight))


def _columns(events: list[tuple[Any, Any, str]], weight: float) -> dict[str, list[Any]]:
    src, dst, op = zip(*events, strict=True)
    ops = [1 if one == "+" else -1 for one in op]
    return {"src": list(src), "dst": list(dst), "op": ops, "weight": [weight] * len(ops)}


def _all_vectors(live: Any, ids: list[Any]) -> Float32:
    here = [one in live for one in ids]
    out = np.full((len(ids), live.model.dim), np.nan, np.float32)
    known = [one for one, inside in zip(ids, here, strict=True) if inside]
    if known:
        out[here] = live.vectors(known)
    return out


def _read(
    to: Connection, handle: bytes, ids: list[Any], reads: int, seed: int, mutate: Callable[[], None] | None
) -> None:
    if mutate is not None:
        mutate()
    reader, random, done, asked = RowReader(handle), np.random.default_rng(seed + 1), 0, 0
    found: list[tuple[Int64, Int64, Float32]] = []
    waiting = 0
    while done < reads:
        single = random.random() < 0.7
        chosen = random.integers(0, len(ids), 1 if single else _BATCH)
        if single:
            one = reader.vector(ids[chosen[0]])
            answer = None if one is None or one[1] is None else (one[0], one[1][None])
        else:
            many = reader.vectors([ids[at] for at in chosen])
            answer = None if many is None else (many[0], many[2])
        done += len(chosen)
        if answer is None:
            asked += len(chosen)
            continue
        found.append((np.full(len(chosen), answer[0]), chosen, answer[1]))
        waiting += len(chosen)
        if waiting > _SENT:
            _send(to, found, asked)
            found, waiting, asked = [], 0, 0
    _send(to, found, asked)
    to.send_bytes(b"")


def _send(to: Connection, found: list[tuple[Int64, Int64, Float32]], asked: int) -> None:
    empty = np.empty(0, np.int64)
    head = (
        np.concatenate([empty, *(part[0] for part in found)]),
        np.concatenate([empty, *(p[1] for p in found)]),
    )
    vectors = b"".join(np.ascontiguousarray(part[2]).tobytes() for part in found)
    to.send_bytes(np.array([asked, len(head[0])]).tobytes() + head[0].tobytes() + head[1].tobytes() + vectors)


def _judge(verdict: Verdict, part: bytes, history: dict[int, Float32], dim: int) -> None:
    asked, count = np.frombuffer(part, np.int64, 2).tolist()
    sequences, chosen = np.frombuffer(part, np.int64, 2 * count, 16).reshape(2, count)
    vectors = np.frombuffer(part, np.float32, offset=16 + 16 * count).reshape(count, dim)
    for sequence in np.unique(sequences).tolist():
        at = sequences == sequence
        wanted = history[sequence][chosen[at]] if sequence in history else np.full((at.sum(), dim), np.nan)
        verdict.wrong += int((vectors[at] != wanted).any(axis=1).sum())  # not a number is equal to nothing
        verdict.sequences.add(sequence)
    verdict.reads += count + asked
    verdict.asked += asked
