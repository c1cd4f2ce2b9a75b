"""Ways to a `LiveEmbedding` without fitting: from a model, or from a folder that was saved."""

from __future__ import annotations

import os

from dygcn.engine.models import Model, State
from dygcn.errors import FolderError
from dygcn.live.durable.storage.layout import is_durable
from dygcn.live.embedding import LiveEmbedding
from dygcn.live.files import load_state


def start(model: Model) -> LiveEmbedding:
    """Return the model at work on an empty graph.

    A model that keeps an embedding fresh starts with the nodes of that embedding, without edges. One of the
    paper's rules has no vectors yet: give it a graph (`update`), then a base (`restart`).

    Examples
    --------
    >>> import dygcn
    >>> live = dygcn.fit([(1, 2), (2, 3)], dim=8)
    >>> again = dygcn.start(live.model)
    >>> _ = again.update(add=[(2, 3), (1, 2)])
    >>> again.digest() == live.digest()
    True
    """
    state = State(model)
    if model.baseline is not None:
        state.set_features(model.baseline.ids, model.baseline.vectors)
    return LiveEmbedding(state)


def load(path: str | os.PathLike[str]) -> LiveEmbedding:
    """Load what `LiveEmbedding.save` wrote. Every byte is checked before use; nothing is unpickled.

    Raises
    ------
    MissingFolder
        If there is none.
    DamagedFolder
        If it is truncated, altered or contradicts itself.
    UnsupportedFolder
        If it was written in another format version.

    Examples
    --------
    >>> import dygcn, tempfile
    >>> live = dygcn.fit([("ann", "bob"), ("bob", "cat")], dim=8)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     live.save(f"{folder}/friends.dygcn")
    ...     same = dygcn.load(f"{folder}/friends.dygcn")
    >>> same.digest() == live.digest()
    True
    """
    if is_durable(path):
        raise FolderError(f"{path} is durable: its log is newer than what is saved; use dygcn.open")
    return LiveEmbedding(*load_state(path))
