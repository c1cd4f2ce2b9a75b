"""How surprising the events of an update were, by the user's ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn.engine.models.surprise import reason_names
from dygcn.live import exporting

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dygcn.engine.models import State, Surprises
    from dygcn.engine.records import Float64


@dataclass(frozen=True, slots=True)
class Surprise:
    """How surprising each event was, in the order of the update (of `remove` and `add`, removals first).

    Attributes
    ----------
    src, dst
        (n,) who asked, and who was the answer.
    value
        (n,) minus log P(dst | src) before the event; NaN for an event that adds nothing.
    rank
        (n,) share of the last hundred events of `src` that were less surprising; NaN of fewer than five.
    reasons
        Up to three columns of the history that made the event unlikely, the strongest first.
    """

    src: NDArray[Any]
    dst: NDArray[Any]
    value: Float64
    rank: Float64
    reasons: list[list[str]]

    def __len__(self) -> int:
        return len(self.value)

    def __repr__(self) -> str:
        most = np.fmax.reduce(self.value) if len(self) else float("nan")  # removals have none
        return f"Surprise({len(self)} events, the greatest {most:.1f})"

    def to_pandas(self) -> Any:
        """Return a pandas frame with a row for each event; its index is who asked."""
        reasons = np.array([", ".join(names) for names in self.reasons], object)
        columns = {"dst": self.dst, "surprise": self.value, "rank": self.rank, "reasons": reasons}
        return exporting.as_frame(self.src, columns, index="src")


def named(state: State, found: Surprises) -> Surprise:
    """Return surprises by the user's ids."""
    shown = state.graph.ids.shown
    return Surprise(shown(found.src), shown(found.dst), found.value, found.rank, reason_names(found.reasons))
