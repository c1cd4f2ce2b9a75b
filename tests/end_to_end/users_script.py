"""What a user may write: type checkers see it against the installed wheel (see test_types)."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

import dygcn
from dygcn import Change, DurableEmbedding, LiveEmbedding, Model
from dygcn.errors import DygcnError, UnknownNode

friends = [("ann", "bob"), ("bob", "cat"), ("cat", "ann")]
live: LiveEmbedding = dygcn.fit(friends, dim=16)
change: Change = live.update(add=[("cat", "dan")], remove=[("ann", "bob")])
vector: NDArray[np.float32] = live["cat"]
count: int = len(live)
known: bool = "dan" in live
version: int = change.version
model: Model = live.model
digest: str = live.digest()


def names(found: Iterable[tuple[object, float]]) -> list[str]:
    return [str(name) for name, _ in found]


near: list[str] = names(live.nearest("cat", k=2))
likely: float = live.score("ann", "bob")
many: NDArray[np.float64] = live.score("ann", ["bob", "cat"])
again: LiveEmbedding = dygcn.start(model)
try:
    again["nobody"]
except UnknownNode as error:
    text: str = str(error)
except DygcnError:
    raise


def keep(folder: str) -> DurableEmbedding:
    live.save(folder)
    loaded: LiveEmbedding = dygcn.load(folder)
    assert loaded.digest() == digest
    return dygcn.open(folder)
