"""Every error that dygcn raises on purpose.

::

    DygcnError
    ├── OptionError      (ValueError)    an argument outside what is allowed
    ├── EventError       (ValueError)    an event that cannot be read or applied; nothing was applied
    │   └── CapacityError                a weight or degree beyond what integer sums can carry
    ├── FeatureError     (ValueError)    features of the wrong shape, kind or size
    ├── UnknownNode      (KeyError)      an id that has neither an edge nor features
    ├── StaleChange      (RuntimeError)  vectors of a change asked for after a later update
    ├── TornState        (RuntimeError)  an update was interrupted halfway; recompute, or open again
    ├── ConcurrentUse    (RuntimeError)  a second thread called an embedding that one thread was using
    ├── FolderError      (OSError)       a saved folder that cannot be used
    │   ├── DamagedFolder                missing, truncated, altered or contradicting itself
    │   └── UnsupportedFolder            whole, but from another format version
    ├── StorageError     (OSError)       the durable log cannot be used
    │   ├── DamagedLog                   a log that is not what was written
    │   ├── WriteFailed                  a write failed; nothing more is accepted until it is opened again
    │   └── FolderInUse                  another process has the folder open
    ├── SequenceGap      (ValueError)    events of a client that come before earlier ones of its own
    ├── SourceError      (OSError)       a source that cannot be reached or read
    ├── SinkError        (OSError)       a sink that cannot be reached or written to
    │   └── OtherHistory                 a sink that holds rows of another history than ours
    ├── DatasetError     (LookupError)   a data set that is not known, not found, or not what its publisher
    │                                    gave
    └── MissingExtra     (ImportError)   an optional package is not installed

and every warning::

    DygcnWarning         (UserWarning)
    ├── NormBandWarning                  a rolled embedding explodes or collapses
    ├── DriftWarning                     a rolled embedding tells links from strangers worse than its base did
    ├── ClockWarning                     a time far ahead of all before it
    ├── TrainingWarning                  part of a training had no effect
    └── UncompiledWarning                dygcn was installed without a C compiler, and is slow
"""

from __future__ import annotations


class DygcnError(Exception):
    """The root of the tree: catches everything that dygcn raises on purpose."""


class OptionError(DygcnError, ValueError):
    """An argument outside what is allowed."""


class EventError(DygcnError, ValueError):
    """An event that cannot be read or applied. The whole batch was left alone.

    Parameters
    ----------
    reason
        What was wrong and what is allowed.
    row
        Position of the first bad row in the batch, where one row is to blame.
    """

    def __init__(self, reason: str, row: int | None = None) -> None:
        super().__init__(reason if row is None else f"row {row}: {reason}")
        self.reason = reason
        self.row = row


class CapacityError(EventError):
    """A weight or degree beyond what the integer sums can carry."""


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
    """The vectors of a change were asked for after a later update."""


class TornState(DygcnError, RuntimeError):
    """An update was interrupted halfway: the graph and what follows from it may contradict each other."""


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
    """A log that is not what was written: altered, truncated, or not ours."""


class WriteFailed(StorageError):
    """A write to the log failed. What was acknowledged is safe; nothing more is accepted."""


class FolderInUse(StorageError):
    """Another process has the folder open; one at a time may write to it."""


class SequenceGap(DygcnError, ValueError):
    """Events of a client that come before earlier ones of its own; send those first."""

    def __init__(self, source: str, expected: int, found: int) -> None:
        super().__init__(
            f"{source} sent sequence {found}; expected is {expected}: send what is missing first, in order"
        )
        self.source = source
        self.expected = expected


class SourceError(DygcnError, OSError):
    """A source that cannot be reached or read."""


class SinkError(DygcnError, OSError):
    """A sink that cannot be reached or written to."""


class OtherHistory(SinkError):
    """A sink holds rows of another history than ours, and its settings do not let us replace them."""


class DatasetError(DygcnError, LookupError):
    """A data set that is not known, not found, or not what its publisher gave."""


class DygcnWarning(UserWarning):
    """The root of the warnings."""


class NormBandWarning(DygcnWarning):
    """The vectors of a rolled embedding have left their norm band: the run explodes or collapses."""


class DriftWarning(DygcnWarning):
    """A rolled embedding tells links from strangers worse than its base did."""


class ClockWarning(DygcnWarning):
    """A time is so far ahead of all before it that it may be in another unit."""


class TrainingWarning(DygcnWarning):
    """SourceBatch of a training had no effect: gradients were not finite, or early steps had to be joined."""


class UncompiledWarning(DygcnWarning):
    """The package was installed without a C compiler: all results are the same, and slow."""


class MissingExtra(DygcnError, ImportError):
    """An optional package is not installed."""
