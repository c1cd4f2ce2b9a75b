"""The process that `shard_kills` kills: a cluster in use, which says what it acknowledged and what it read.

Each line that it prints is a JSON object with ``what`` and ``t``, seconds of a clock that all processes
share: ``ready``, ``done`` (acknowledged positions), ``read`` (a shard answered), ``pids`` (of shards, and how
many messages of stale ones were refused), ``replaced`` (a process was told that it has a successor),
``failed``, ``end``. It ends when it is told to, or left alone.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dygcn.cluster import launch
from dygcn.cluster.certificates import made_in
from dygcn.cluster.embedding import ClusterEmbedding, read_cluster_file, snapshots_of
from dygcn.cluster.messages import Replaced
from dygcn.cluster.process_front import ProcessFront
from dygcn.cluster.ray_shards import ShardActor
from dygcn.engine.events import id_column
from dygcn.live.durable.source_batch import SourceBatch
from dygcn_lab.soak.shard_script import STREAM, ShardScript

_AGAIN = 3  # positions that are sent again after a start: they must change nothing
_MOST = 20  # batches in one transaction, where some wait
_PAUSE = 0.05  # seconds between two reads of a shard
_KNOWN = 2_000  # nodes of each shard that are read
_KEEP_LOG = "100GB"  # all: the judge reads it
_saying = threading.Lock()


def say(what: str, **more: Any) -> None:
    """Print a line."""
    with _saying:
        sys.stdout.write(json.dumps({"what": what, "t": time.monotonic(), **more}) + "\n")
        sys.stdout.flush()


class Front:
    """A cluster in use.

    `sure`: whether it sends positions with its events; without, nothing notices what is sent again (a bug).
    """

    def __init__(self, live: ClusterEmbedding, script: ShardScript, rate: float, sure: bool) -> None:
        self.live, self._script, self._rate, self._sure = live, script, rate, sure
        self.ending = threading.Event()
        processes: Any = live._front.queries.processes
        self._processes: ProcessFront = processes
        self._count_replaced()

    def _count_replaced(self) -> None:
        registry = self._processes.registry
        reply = registry.reply

        def counted(question: Any) -> Any:
            answered = reply(question)
            if isinstance(answered, Replaced):
                say("replaced", asked=type(question).__name__, pid=getattr(question, "pid", 0))
            return answered

        registry.reply = counted  # type: ignore[method-assign, assignment]

    def send(self) -> None:
        """Send what is due, until the end."""
        last = self.live.streams.get(STREAM, -1)
        following = max(last + 1 - _AGAIN, 0)
        say("ready", last=last)
        begun, first = time.monotonic(), last + 1
        while not self.ending.is_set():
            due = first + int((time.monotonic() - begun) * self._rate / self._script.size)
            if due < following:
                self.ending.wait(0.01)
                continue
            positions = range(following, min(due + 1, following + _MOST))
            self.live._ingest([self._part(position) for position in positions])
            following = positions.stop
            say("done", positions=[positions.start, positions.stop])

    def _part(self, position: int) -> SourceBatch:
        batch = self._script.batch(position)
        return SourceBatch(batch, STREAM, position) if self._sure else SourceBatch(batch)

    def read(self, shard: int) -> None:
        """Read vectors of one shard, until the end."""
        ids = np.arange(min(self._script.nodes, 4 * _KNOWN))
        own = ids[self.live._front.queries.slots.owners(id_column(ids)) == shard].tolist()
        random = np.random.default_rng(shard)
        while not self.ending.wait(_PAUSE):
            self.live._read_straight(own[int(random.integers(len(own)))])
            say("read", shard=shard)

    def watch(self) -> None:
        """Say who the shards are, whenever it changes."""
        before: Any = None
        while not self.ending.wait(0.1):
            beats = dict(self._processes.registry.beats)
            now = {number: beat.pid for number, beat in beats.items()}, self._processes.post.refused
            if now != before:
                say("pids", pids=now[0], refused=now[1], front=os.getpid())
                before = now

    def run(self) -> None:
        """Be used until a line comes in, then say what there is."""
        shards = range(self.live.shards)
        readers = [threading.Thread(target=self.read, args=(shard,), daemon=True) for shard in shards]
        threads = [*readers, *(threading.Thread(target=one, daemon=True) for one in (self.send, self.watch))]
        for thread in threads:
            thread.start()
        if not sys.stdin.readline():
            os._exit(1)  # nobody is there any more
        self.ending.set()
        for thread in threads:
            thread.join()
        say("end", last=self.live.streams.get(STREAM, -1), digest=self.live.digest())


def be_twin(folder: Path, number: int, every: int) -> None:
    """Be a second process of a shard, which nobody supervises, until there is a third."""
    about = read_cluster_file(folder)
    assert about is not None
    store = snapshots_of(folder, about)
    _held = ShardActor(number, store, made_in(folder / "front"), "127.0.0.1", every)
    sys.stdin.read()
    os._exit(1)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run as a process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    for name, default in (("shards", 4), ("edges", 1_000_000), ("seed", 0), ("size", 200), ("every", 1_000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rate", type=float, default=2_000.0)
    parser.add_argument("--twin", type=int)
    parser.add_argument("--unsure", action="store_true")
    asked = parser.parse_args(arguments)
    threading.excepthook = lambda failed: say("failed", error=repr(failed.exc_value))
    if asked.twin is not None:
        be_twin(asked.folder, asked.twin, asked.every)
    script = ShardScript(asked.seed, asked.edges, asked.size)
    live = launch(asked.folder, asked.shards, keep_log=_KEEP_LOG, batches=asked.every)
    with live:
        Front(live, script, asked.rate, not asked.unsure).run()


if __name__ == "__main__":
    main()
