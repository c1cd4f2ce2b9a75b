"""Rows of an embedding in memory that reader processes map: reading waits for no writer."""

from dygcn.live.shared.reading import RowReader
from dygcn.live.shared.sharing import SharedRows, can_share

__all__ = ["RowReader", "SharedRows", "can_share"]
