"""Every error and warning that dygcn raises on purpose; `help(dygcn.errors)` draws their tree."""

from __future__ import annotations

import itertools
import reprlib
from collections.abc import Iterable

_BEGINNING, _END = 280, 200  # characters of a long reason: what was wrong, and what is allowed
MOST_ITEMS, MOST_CHARACTERS = 10, 120
_SHORT = reprlib.Repr()
_SHORT.maxlevel = 3
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxdict = _SHORT.maxset = _SHORT.maxfrozenset = MOST_ITEMS
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = MOST_CHARACTERS


class DygcnError(Exception):
    """The base class of every error that dygcn raises on purpose."""


class OptionError(DygcnError, ValueError):
    """An argument that is not allowed."""

    def __init__(self, reason: str) -> None:
        super().__init__(_shortened(reason))


class AmbiguousId(OptionError):
    """An id without kind that nodes of several kinds have."""


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
        self.reason = _shortened(reason)
        self.row = row
        super().__init__(self.reason if row is None else f"row {row}: {self.reason}")


class CapacityError(EventError):
    """A weight or degree too large for the integer sums."""


class FeatureError(DygcnError, ValueError):
    """Features of the wrong shape, kind or size."""

    def __init__(self, reason: str) -> None:
        super().__init__(_shortened(reason))


class UnknownNode(DygcnError, KeyError):
    """An id that has neither an edge nor features of its own."""

    def __init__(self, node: object, hint: str = "") -> None:
        super().__init__(node)
        self.node = node
        self._hint = hint

    def __str__(self) -> str:
        return _shortened(
            f"{shown(self.node)} is not in the graph now: no edge, no features of its own{self._hint}"
        )


class StaleChange(DygcnError, RuntimeError):
    """The vectors of a change were read after a later update."""


class TornState(DygcnError, RuntimeError):
    """An update was interrupted halfway: graph and messages may contradict each other."""


class OpenTrial(DygcnError, RuntimeError):
    """An update was called inside a trial, whose effects are rolled back."""


class ConcurrentUse(DygcnError, RuntimeError):
    """A second thread called an embedding that another thread was using."""


class IndexNotReady(DygcnError, RuntimeError):
    """An index is being built, and so many vectors were not read yet that an answer would take long."""


class FolderError(DygcnError, OSError):
    """A saved folder that cannot be used."""


class MissingFolder(FolderError):
    """There is no folder of that name."""


class DamagedFolder(FolderError):
    """A saved folder that is truncated, altered or contradicts itself."""


class UnsupportedFolder(FolderError):
    """A saved folder that is intact but was written in another format version."""


class NoSuchPast(FolderError):
    """A moment that a durable folder does not hold: further back than is kept, or still to come."""


class StorageError(DygcnError, OSError):
    """The durable log of a folder cannot be used."""


class DamagedLog(StorageError):
    """A log that was altered or truncated, or is not a log of dygcn."""


class WriteFailed(StorageError):
    """A write to the log failed. Acknowledged events are safe; no more are accepted."""


class FolderInUse(StorageError):
    """Another process has the folder open; only one at a time may."""


class ClusterError(DygcnError, RuntimeError):
    """A shard cannot read what another one sent."""


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


class ServiceError(DygcnError, OSError):
    """A service refused a request.

    Attributes
    ----------
    type
        The name of the problem, such as ``"bad-option"``, see the page of problems; ``""`` if there was none.
    status
        Of the answer; 0 if there was none.
    detail
        What was wrong, what is allowed, what to do.
    request_id
        By which the log of the service names the request, if it does.
    expected
        After `sequence-gap` and `forgotten-client`: the number that the service goes on with.
    """

    def __init__(
        self,
        detail: str,
        *,
        type: str = "",
        status: int = 0,
        request_id: str | None = None,
        expected: int | None = None,
    ) -> None:
        self.type, self.status, self.detail = type, status, _shortened(detail)
        self.request_id, self.expected = request_id, expected
        named = f" (request {request_id})" if request_id else ""
        super().__init__(f"{self.detail}{f' [{status} {type}]' if status else ''}{named}")


class Unreachable(ServiceError):
    """No answer of a service came in time."""


class UnknownOutcome(Unreachable):
    """It is not known whether events arrived, and a repeat might apply them twice."""


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


def _shortened(reason: str) -> str:
    """Leave out the middle of a text that fills a screen."""
    if len(reason) <= _BEGINNING + _END:
        return reason
    return f"{reason[:_BEGINNING]} ... {reason[-_END:]}"


# ---- how errors show what a user passed: at most ten items, and a line of text -----------------------------


def shown(value: object) -> str:
    """Return the repr of any value, on one line and never long."""
    try:
        text = " ".join(_SHORT.repr(value).split())
    except Exception:  # another library's repr, or an int of too many digits
        text = f"<{type(value).__name__}>"
    if len(text) <= MOST_CHARACTERS:
        return text
    return f"{text[: MOST_CHARACTERS // 2]}...{text[-MOST_CHARACTERS // 3 :]}"


def listed(names: Iterable[object]) -> str:
    """Return names one after the other, the first ten of them."""
    rest = iter(names)
    first = [str(name) for name in itertools.islice(rest, MOST_ITEMS)]
    more = sum(1 for _ in rest)
    text = ", ".join(name if len(name) <= 40 else f"{name[:37]}..." for name in first)
    return f"{text} and {more} more" if more else text
