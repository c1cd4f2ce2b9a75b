"""How still an embedding holds: what a step does to vectors of nodes that the step did not touch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dygcn.engine.measures import unit_rows

if TYPE_CHECKING:
    from dygcn.engine.records import Float32
    from dygcn_lab.evaluation.steps import Moment


@dataclass(frozen=True, slots=True)
class Motion:
    """What one step did to the vectors."""

    rewritten: float  # vectors that are not what they were, for each event of the step
    untouched: float  # mean of 1 - cosine between before and after, over nodes without an event; NaN if none


def motion(before: Float32, after: Float32, moment: Moment) -> Motion:
    """Compare the vectors before and after a step.

    Examples
    --------
    >>> from dygcn_lab.evaluation.steps import Moment
    >>> edge = np.array([[0, 1]])
    >>> moment = Moment(edge[:, 0], edge[:, 1], np.array([1]), edge)
    >>> before = np.array([[1, 0], [1, 0], [0, 1]], np.float32)
    >>> motion(before, np.array([[1, 1], [1, 1], [0, 1]], np.float32), moment)
    Motion(rewritten=2.0, untouched=0.0)
    """
    changed = (before != after).any(axis=1)
    untouched = np.ones(len(before), np.bool_)
    untouched[moment.src], untouched[moment.dst] = False, False
    untouched &= before.any(axis=1) & after.any(axis=1)
    turned = np.flatnonzero(untouched & changed)
    cosine = np.einsum("ij,ij->i", unit_rows(before[turned]), unit_rows(after[turned]))
    still = float((1 - cosine).sum() / untouched.sum()) if untouched.any() else float("nan")
    return Motion(float(changed.sum()) / max(len(moment.src), 1), still)
