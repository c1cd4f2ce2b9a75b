"""Counts and distributions, cheap enough for every request. Those of several processes can be added."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

import msgspec

from dygcn.serving.observing.metrics import BY_NAME


class Distribution(msgspec.Struct):
    """How often a value was up to each bound, as a histogram of Prometheus has it. For one writing thread.

    Examples
    --------
    >>> found = Distribution((0.1, 1.0))
    >>> for value in (0.05, 0.1, 0.5, 7.0):
    ...     found.observe(value)
    >>> found.cumulative(), round(found.total, 2)
    ([('0.1', 2), ('1.0', 3), ('+Inf', 4)], 7.65)
    """

    bounds: tuple[float, ...]
    counts: list[int] = []
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = self.counts or [0] * (len(self.bounds) + 1)

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def add(self, other: Distribution) -> None:
        """Add what another process counted."""
        self.counts = [own + theirs for own, theirs in zip(self.counts, other.counts, strict=True)]
        self.total += other.total

    def since(self, before: Distribution | None) -> Distribution:
        """Return what was counted after an earlier copy of this distribution; None: all of it."""
        earlier = [0] * len(self.counts) if before is None else before.counts
        counts = [max(now - then, 0) for now, then in zip(self.counts, earlier, strict=True)]
        return Distribution(self.bounds, counts, self.total - (before.total if before else 0.0))

    def quantile(self, share: float) -> float | None:
        """Return the value that so many of all do not exceed, None without values.

        Between two bounds values are taken to be spread evenly; what is above all bounds counts as the last
        one, as in Prometheus.

        Examples
        --------
        >>> Distribution((1.0, 2.0, 4.0), [0, 10, 10, 0]).quantile(0.75)
        3.0
        """
        wanted, seen, low = share * sum(self.counts), 0, 0.0
        if not any(self.counts):
            return None
        for bound, count in zip(self.bounds, self.counts, strict=False):
            if count and seen + count >= wanted:
                return low + (bound - low) * (wanted - seen) / count
            seen, low = seen + count, bound
        return self.bounds[-1]

    def cumulative(self) -> list[tuple[str, int]]:
        """Return each bound with the number of values up to it."""
        found, seen = [], 0
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            seen += count
            found.append((bound, seen))
        return found


def distribution(metric: str) -> Distribution:
    """Return an empty distribution for a histogram of the table."""
    return Distribution(BY_NAME[metric].bounds)


class RequestCounts(msgspec.Struct):
    """Requests by route and status, and their times by route. One process counts, others may be added.

    Examples
    --------
    >>> own, reader = RequestCounts(), RequestCounts()
    >>> own.count("/status", 200, 0.1); reader.count("/status", 200, 0.1); reader.count("/status", 503, 0.1)
    >>> sent = msgspec.json.decode(msgspec.json.encode(reader), type=RequestCounts)
    >>> own.added([sent]).statuses
    {'/status': {'200': 2, '503': 1}}
    """

    statuses: dict[str, dict[str, int]] = {}
    seconds: dict[str, Distribution] = {}

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        timer = self.seconds.get(route)
        if timer is None:
            timer = self.seconds[route] = distribution("dygcn_request_duration_seconds")
            self.statuses[route] = {}
        timer.observe(seconds)
        found, key = self.statuses[route], str(status)
        found[key] = found.get(key, 0) + 1

    @property
    def requests(self) -> int:
        """How many there were."""
        return sum(count for _, _, count in self.each())

    def added(self, others: list[RequestCounts]) -> RequestCounts:
        """Return the sums with what other processes counted; nobody's own counts change."""
        sums = RequestCounts()
        for one in (self, *others):
            for route, timer in list(one.seconds.items()):
                if route not in sums.seconds:
                    sums.seconds[route] = distribution("dygcn_request_duration_seconds")
                    sums.statuses[route] = {}
                sums.seconds[route].add(timer)
            for route, status, count in one.each():
                sums.statuses[route][status] = sums.statuses[route].get(status, 0) + count
        return sums

    def each(self) -> Iterator[tuple[str, str, int]]:
        """Yield route, status and count."""
        for route, statuses in list(self.statuses.items()):
            for status, count in list(statuses.items()):
                yield route, status, count
