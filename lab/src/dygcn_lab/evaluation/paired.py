"""Whether one method is better than another: a paired bootstrap over the judged steps."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dygcn.engine.records import Float64

RESAMPLES = 2000
_SEED = 20_220  # the same resamples for everybody


@dataclass(frozen=True, slots=True)
class Paired:
    """The difference of two means over the same steps, with a 95 % interval."""

    difference: float
    low: float
    high: float
    steps: int  # that both have a figure for

    @property
    def verdict(self) -> str:
        """``better`` or ``worse`` if the interval leaves zero out, ``tied`` otherwise.

        One step has no interval: whatever the difference, it is tied.
        """
        if self.steps < 2 or self.low <= 0 <= self.high:
            return "tied"
        return "better" if self.low > 0 else "worse"


def compare(ours: ArrayLike, theirs: ArrayLike) -> Paired:
    """Return how much greater the first series is in the mean, and how sure that is.

    Steps are resampled, 2,000 times, each with all its seeds, the same ones for both series: what makes a
    step hard makes it hard for both. The interval says nothing of other graphs. Neighbouring steps are
    alike, so it is rather too narrow than too wide.

    Parameters
    ----------
    ours, theirs
        (steps,) or (seeds, steps) of the same steps; numbers of seeds may differ. Steps for which either
        has NaN with every seed are left out.

    Examples
    --------
    >>> found = compare([0.8, 0.6, 0.7, 0.9], [0.7, 0.5, 0.6, 0.7])
    >>> round(found.difference, 3), found.verdict
    (0.125, 'better')
    >>> compare([0.8, 0.6, 0.7, 0.9], [0.7, 0.7, 0.8, 0.8]).verdict
    'tied'
    """
    first, second = _by_step(ours), _by_step(theirs)
    if len(first) != len(second):
        raise ValueError(
            f"one series has {len(first)} steps, the other {len(second)}; compare figures of the same steps"
        )
    apart = first - second
    apart = apart[np.isfinite(apart)]
    if len(apart) == 0:
        return Paired(float("nan"), float("nan"), float("nan"), 0)
    drawn = np.random.default_rng(_SEED).integers(0, len(apart), (RESAMPLES, len(apart)))
    low, high = np.quantile(apart[drawn].mean(axis=1), (0.025, 0.975))
    return Paired(float(apart.mean()), float(low), float(high), len(apart))


def _by_step(series: ArrayLike) -> Float64:
    """Return the mean over the seeds at each step."""
    values = np.atleast_2d(np.asarray(series, np.float64))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a step without any figure stays NaN
        means: Float64 = np.nanmean(values, axis=0)
    return means
