"""Kills of shards, of the front and of simulated nodes, under load.

``python -m dygcn_lab.soak.shard_kills --kills 100 --shards 4 --rate 2000 --edges 1000000`` starts Ray on
loopback with simulated nodes and a front in a process of its own, which sends events and reads vectors. One
fault after the other, drawn by seed: a shard is killed, or stopped and let go on, or gets a second process
beside it (which makes the first one stale); the front is killed; a node is removed. In the end every event
that was acknowledged must be in the log, each once, and the digest must be that of one process.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from dygcn.cluster.logged_entries import ShardLog
from dygcn.live.durable.storage.entries import Kind, pack
from dygcn.live.durable.storage.layout import LOG_FILE
from dygcn.live.embedding import load
from dygcn_lab.costs.timing import load_average
from dygcn_lab.soak.shard_faults import Fault, Field, front_command, ray_cluster
from dygcn_lab.soak.shard_script import STREAM, ShardScript

KINDS = {"shard": 0.60, "stop": 0.12, "front": 0.13, "node": 0.10, "twin": 0.05}
_PAUSES = 0.5, 3.0  # seconds between all being well and the next fault
_AT_ONCE = 0.15  # how often nobody waits until all is well
ASKED = 15.0  # seconds, after which a killed shard answers again


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked."""

    kills: int = 100
    shards: int = 4
    rate: float = 2_000.0
    edges: int = 1_000_000
    size: int = 200
    every: int = 1_000
    seed: int = 0
    faults: tuple[str, ...] = ()  # in this order, instead of `kills` that are drawn
    sure: bool = True  # False: a front that does not say positions, a bug that must be noticed


def deck(kills: int, random: np.random.Generator) -> list[str]:
    """Return faults in the order of a seed, each kind as often as it should be."""
    kinds = [kind for kind, share in KINDS.items() if kind != "shard" for _ in range(round(share * kills))]
    kinds = kinds[:kills] + ["shard"] * (kills - len(kinds))
    return [kinds[i] for i in random.permutation(kills)]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What became of events; all but the first are to be 0, and the digest equal."""

    logged: int  # batches
    lost: int  # batches that were acknowledged, or come before others, and are not in the log
    doubled: int
    altered: int  # batches at a position with other events than those that were sent
    digest_equal: bool
    noticed: bool  # whether the digest without the last batch is another one

    @property
    def holds(self) -> bool:
        """Whether everything is there once."""
        return not (self.lost or self.doubled or self.altered) and self.digest_equal and self.noticed


def judge(
    script: ShardScript, graph: Path, entries: Iterable[tuple[int, bytes]], done: set[int], digest: str
) -> Judgement:
    """Compare a log, what was acknowledged and a digest with what they should be.

    `graph`: where the graph lies as it was at first; `entries`: position and events of each entry of the log;
    `done`: positions that were acknowledged; `digest`: of the shards at the end.
    """
    logged = list(entries)
    bodies = [body for _, body in logged]
    last = max([-1, *done, *(position for position, _ in logged)])
    sent = [script.batch(position) for position in range(last + 1)]
    expected = [pack(batch, None) for batch in sent]
    one = load(graph)
    one.bulk(sent[:-1])
    before = one.digest()
    one.bulk(sent[-1:])
    here = set(bodies)
    return Judgement(
        logged=len(bodies),
        lost=sum(body not in here for body in expected),
        doubled=len(bodies) - len(here),
        altered=sum(position >= 0 and body != expected[position] for position, body in logged),
        digest_equal=one.digest() == digest,
        noticed=before != one.digest(),
    )


def logged_events(folder: Path) -> list[tuple[int, bytes]]:
    """Return position and events of each entry of a log; other streams than ours have none."""
    log = ShardLog(folder / LOG_FILE)
    try:
        entries = [entry for entry in log.behind(0) if entry.kind == Kind.EVENTS]
        return [(one.offset if one.stream == STREAM else -1, bytes(one.body)) for one in entries]
    finally:
        log.close()


# ---- a run -------------------------------------------------------------------------------------------------


def run(plan: Plan, work: Path) -> dict[str, Any]:
    """Do all of it; return what was found."""
    script, random = ShardScript(plan.seed, plan.edges, plan.size), np.random.default_rng(plan.seed)
    graph, folder, errors = work / "graph", work / "cluster", work / "errors"
    edges = script.save_graph(graph)
    shutil.copytree(graph, folder)
    shape = {"shards": plan.shards, "edges": plan.edges, "seed": plan.seed, "size": plan.size}
    command = front_command(folder, rate=plan.rate, every=plan.every, **shape)
    begun = time.monotonic()
    with ray_cluster() as cluster:
        field = Field(cluster, command + ([] if plan.sure else ["--unsure"]), errors)
        well = field.wait_ready()
        _say(f"{edges:,} edges on {plan.shards} shards after {time.monotonic() - begun:.0f} s")
        first = time.monotonic()
        faults = plan.faults or deck(plan.kills, random)
        for number, kind in enumerate(faults if well else ()):
            time.sleep(random.uniform(*_PAUSES))
            fault = field.do(kind, random)
            if number + 1 < len(faults) and random.random() < _AT_ONCE:
                continue
            well = field.wait_well()
            after = fault.until - fault.t if well else float("nan")
            _say(f"{number + 1}: {kind} of {fault.shards}, well after {after:.1f} s")
            if not well:
                break
        last = time.monotonic()
        said = field.finish()
    found = {"well": well and not field.left_alive and said is not None, "errors": field.heard.failed}
    found |= asked_of(plan, edges) | figures(field, plan, first, last)
    if said is not None:
        done = {position for _, start, stop in field.heard.done for position in range(start, stop)}
        judged = judge(script, graph, logged_events(folder), done, said["digest"])
        found |= msgspec.to_builtins(judged) | {"holds": judged.holds and found["well"]}
    else:
        found |= {"holds": False, "said": errors.read_text()[-3_000:]}
    return found


def asked_of(plan: Plan, edges: int) -> dict[str, Any]:
    """Return what was asked for."""
    names = ("shards", "rate", "size", "every", "seed")
    return {"edges": edges, "load": load_average()} | {name: getattr(plan, name) for name in names}


def figures(field: Field, plan: Plan, first: float, last: float) -> dict[str, Any]:
    """Return counts and times."""
    heard, faults = field.heard, field.faults
    over = [fault for fault in faults if fault.until]
    without = sum(fault.acknowledged - fault.t for fault in over if fault.kind == "front")
    events = plan.size * len({p for t, a, b in heard.done if first < t < last for p in range(a, b)})
    silent, alone = dict[str, list[float]](), dict[str, list[float]]()
    for fault in over:
        for shard in fault.shards:
            seconds = silence(heard.reads[shard], fault)
            silent.setdefault(fault.kind, []).append(seconds)
            if is_alone(fault, faults):
                alone.setdefault(fault.kind, []).append(seconds)
    waits = {kind: [f.acknowledged - f.t for f in over if f.kind == kind] for kind in KINDS}
    others = [gap for shard, times in heard.reads.items() for gap in living(times, shard, faults)]
    killed = [seconds for kind in ("shard", "node") for seconds in silent.get(kind, [])]
    return {
        "faults": {kind: sum(fault.kind == kind for fault in faults) for kind in KINDS},
        "seconds": round(last - first, 1),
        "events_acknowledged": events,
        "rate_held": round(events / max(last - first - without, 1e-9), 1),
        "seconds_until_a_shard_answers": {kind: spread(some) for kind, some in silent.items()},
        "seconds_until_a_shard_answers_one_fault_at_a_time": {k: spread(some) for k, some in alone.items()},
        "seconds_until_events_are_acknowledged": {kind: spread(some) for kind, some in waits.items() if some},
        "killed_within_asked": f"{sum(one <= ASKED for one in killed)} of {len(killed)}",
        "seconds_between_reads_of_other_shards": spread(others),
        "reads": sum(map(len, heard.reads.values())),
        "stale_told_to_end": heard.replaced,
        "stale_messages_refused": sum(heard.refused.values()),
        "stale_alive": field.left_alive,
    }


def silence(times: list[float], fault: Fault) -> float:
    """Return the longest time without an answer of a shard around a fault."""
    return max((b - a for a, b in pairwise(times) if b > fault.t and a < fault.until), default=0.0)


def is_alone(fault: Fault, faults: list[Fault]) -> bool:
    """Say whether nothing else was at fault meanwhile.

    Examples
    --------
    >>> faults = [Fault("node", 2, (0, 1), 5), Fault("shard", 4, (1,), 5), Fault("stop", 7, (1,), 8)]
    >>> [is_alone(one, faults) for one in faults]
    [False, False, True]
    """
    others = [one for one in faults if one is not fault]
    return not any(one.t < fault.until and fault.t < (one.until or np.inf) for one in others)


def living(times: list[float], shard: int, faults: list[Fault]) -> list[float]:
    """Return times between answers of a shard while others were at fault, and neither it nor the front was.

    Examples
    --------
    >>> faults = [Fault("shard", 2.0, (0,), 5.0), Fault("shard", 7.0, (1,), 8.0)]
    >>> living([1.0, 2.5, 4.0, 6.0, 7.5, 9.0], 1, faults)
    [1.5, 1.5, 2.0]
    """
    mine = [one for one in faults if shard in one.shards or one.kind == "front"]
    others = [one for one in faults if one not in mine]

    def touches(some: list[Fault], a: float, b: float) -> bool:
        return any(b > one.t and a < (one.until or np.inf) for one in some)

    return [b - a for a, b in pairwise(times) if touches(others, a, b) and not touches(mine, a, b)]


def spread(seconds: list[float]) -> dict[str, float]:
    """Return what is usual and what is greatest."""
    if not seconds:
        return {"count": 0}
    p50, p99 = np.quantile(seconds, [0.5, 0.99])
    named = {"p50": p50, "p99": p99, "greatest": max(seconds)}
    return {"count": len(seconds)} | {name: round(float(value), 2) for name, value in named.items()}


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print and write what was found; 1 if anything was lost or doubled."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("kills", "shards", "edges", "size", "every", "seed"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Plan(), name))
    parser.add_argument("--rate", type=float, default=Plan().rate)
    parser.add_argument("--faults", nargs="+", default=(), choices=list(KINDS), help="instead of --kills")
    parser.add_argument("--unsure", action="store_true", help="seed a bug: events without positions")
    parser.add_argument("--out", type=Path)
    parser.add_argument(
        "--keep", type=Path, help="an empty folder for graph, log and errors, to look at later"
    )
    given = vars(parser.parse_args(arguments))
    out, unsure, keep = (given.pop(name) for name in ("out", "unsure", "keep"))
    given["faults"] = tuple(given["faults"])
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as work:
        found = run(Plan(**given, sure=not unsure), keep or Path(work))
    for name, value in found.items():
        _say(f"{name.replace('_', ' '):40} {value}")
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
    return 0 if found["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
