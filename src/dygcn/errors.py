"""Every error that dygcn raises on purpose.

::

    DygcnError
    ├── OptionError      (ValueError)    an argument that is not allowed
    ├── EventError       (ValueError)    an event that cannot be read or applied; its batch was not applied
    │   └── CapacityError                a weight or degree too large for integer sums
    ├── FeatureError     (ValueError)    features of the wrong shape, kind or size
    ├── UnknownNode      (KeyError)      an id that has neither an edge nor features
    ├── StaleChange      (RuntimeError)  vectors of a change were read after a later update
    ├── TornState        (RuntimeError)  an update was interrupted halfway; recompute, or open again
    ├── ConcurrentUse    (RuntimeError)  a second thread called an embedding that one thread was using
    ├── FolderError      (OSError)       a saved folder that cannot be used
    │   ├── DamagedFolder                missing, truncated, altered or contradicting itself
    │   └── UnsupportedFolder            whole, but from another format version
    ├── StorageError     (OSError)       the durable log cannot be used
    │   ├── DamagedLog                   a log that was altered or truncated
    │   ├── WriteFailed                  a write failed; open the folder again to write more
    │   └── FolderInUse                  another process has the folder open
    ├── SequenceGap      (ValueError)    a client skipped a sequence
    ├── SourceError      (OSError)       a source that cannot be reached or read
    ├── SinkError        (OSError)       a sink that cannot be reached or written to
    │   └── OtherHistory                 a sink that holds rows of another history
    ├── DatasetError     (LookupError)   a data set that is unknown, missing, or has another checksum
    └── MissingExtra     (ImportError)   an optional package is not installed

and every warning::

    DygcnWarning         (UserWarning)
    ├── NormBandWarning                  a rolled embedding explodes or collapses
    ├── DriftWarning                     a rolled embedding predicts links worse than its base did
    ├── ClockWarning                     a time far ahead of all earlier ones
    ├── TrainingWarning                  part of the training had no effect
    └── UncompiledWarning                dygcn was installed without a C compiler, and is slow
"""

from __future__ import annotations


class DygcnError(Exception):
    """The base class of every error that dygcn raises on purpose."""


class OptionError(DygcnError, ValueError):
    """An argument that is not allowed."""


class EventError(DygcnError, ValueError):
    """An event that cannot be read or applied. Nothing of its batch was applied.

    Parameters
    ----------
    reason
        What was wrong and what is allowed.
    row
        Index of the first bad row in the batch; None if the error is not of one row.
    """

    def __init__(self, reason: str, row: int | None = None) -> None:
        super().__init__(reason if row is None else f"row {row}: {reason}")
        self.reason = reason
        self.row = row


class CapacityError(EventError):
    """A weight or degree too large for the integer sums."""


class FeatureError(DygcnError, ValueError):
    """Features of the wrong shape, kind or size."""


class UnknownNode(DygcnError, KeyError):
    """An id that has neither an edge nor features of its own."""

    def __init__(self, node: object, hint: str = "") -> None:
        super().__init__(node)
        self.node = node
        self._hint = hint

    def __str__(self) -> str:
        return f"{self.node!r} is not in the graph now: no edge, no features of its own{self._hint}"


class StaleChange(DygcnError, RuntimeError):
    """The vectors of a change were read after a later update."""


class TornState(DygcnError, RuntimeError):
    """An update was interrupted halfway: graph and messages may contradict each other."""


class ConcurrentUse(DygcnError, RuntimeError):
    """A second thread called an embedding that another thread was using."""


class FolderError(DygcnError, OSError):
    """A saved folder that cannot be used."""


class DamagedFolder(FolderError):
    """A saved folder that is missing, truncated, altered or contradicts itself."""


class UnsupportedFolder(FolderError):
    """A saved folder that is whole but was written in another format version."""


class StorageError(DygcnError, OSError):
    """The durable log of a folder cannot be used."""


class DamagedLog(StorageError):
    """A log that was altered or truncated, or is not a log of dygcn."""


class WriteFailed(StorageError):
    """A write to the log failed. Acknowledged events are safe; no more are accepted."""


class FolderInUse(StorageError):
    """Another process has the folder open; only one at a time may."""


class SequenceGap(DygcnError, ValueError):
    """A client skipped a sequence: it has to send the missing events first."""

    def __init__(self, source: str, expected: int, found: int) -> None:
        super().__init__(
            f"{source} sent sequence {found}; expected is {expected}: send the missing events first, in order"
        )
        self.source = source
        self.expected = expected


class SourceError(DygcnError, OSError):
    """A source that cannot be reached or read."""


class SinkError(DygcnError, OSError):
    """A sink that cannot be reached or written to."""


class OtherHistory(SinkError):
    """A sink holds rows of another history, and its settings do not allow replacing them."""


class DatasetError(DygcnError, LookupError):
    """A data set that is unknown, missing, or has another checksum than the registry says."""


class DygcnWarning(UserWarning):
    """The base class of all warnings."""


class NormBandWarning(DygcnWarning):
    """The vectors of a rolled embedding left their norm band: they explode or collapse."""


class DriftWarning(DygcnWarning):
    """A rolled embedding separates links from negative samples worse than its base did."""


class ClockWarning(DygcnWarning):
    """A time is so far ahead of all earlier ones that it may be in another unit."""


class TrainingWarning(DygcnWarning):
    """Part of the training had no effect: gradients were not finite, or early steps had to be joined."""


class UncompiledWarning(DygcnWarning):
    """The package was installed without a C compiler: results are the same, but slow."""


class MissingExtra(DygcnError, ImportError):
    """An optional package is not installed."""
