"""Folders that are only read, as they are or as they were."""

from __future__ import annotations

import click

from dygcn import live
from dygcn.live.durable.storage.layout import is_durable

as_of_option = click.option(
    "--as-of",
    metavar="WHEN",
    help="Of a durable folder, as it was then: a sequence, a time such as 2026-11-10T12:00Z, or now. "
    "It may be being served.",
)


def load_as_of(folder: str, as_of: str | None) -> live.EmbeddingView:
    """Load a folder, or its past; of a durable one nothing is locked, so it may be being served."""
    if as_of is None and not is_durable(folder):
        return live.load(folder)
    return live.open(folder, as_of="now" if as_of is None else as_of)
