"""What a durable embedding tells about its work, to whoever measures or logs it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dygcn.engine.models import Surprises
    from dygcn.engine.records import IdColumn
    from dygcn.errors import WriteFailed


class Observer:
    """Called when a piece of work is done; here, only what goes on unnoticed is logged. It must not raise."""

    def logged(self, entries: int, seconds: float) -> None:
        """So many entries are on disk."""

    def applied(self, seconds: float) -> None:
        """The change of these entries is made."""

    def measured(self, found: Surprises, sequence: int) -> None:
        """Events of a batch were measured, under the lock."""

    def forgotten(self, ids: IdColumn) -> None:
        """Ids are forgotten: nothing may name them from now on. Under the lock."""

    def snapshot_written(self, sequence: int, seconds: float) -> None:
        """A snapshot is on disk."""

    def snapshot_failed(self, sequence: int, error: Exception) -> None:
        """A snapshot could not be written: events are accepted, and it is tried again."""
        logging.getLogger("dygcn").warning("the snapshot of entry %d failed: %s", sequence, error)

    def write_failed(self, failure: WriteFailed) -> None:
        """A write failed, and nothing more is accepted."""
