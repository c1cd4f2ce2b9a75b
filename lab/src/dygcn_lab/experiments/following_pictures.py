"""Pictures of what comes next: quality against the age of the state, and P against what came."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dygcn_lab.experiments.following import OURS
from dygcn_lab.report.panels import OTHERS, panels, save
from dygcn_lab.report.panels import OURS as BLUE

if TYPE_CHECKING:
    from pathlib import Path

ASKS = {"all": "all candidates", "random": "random", "historical": "historical"}
Measured = dict[str, Any]
_COLOURS = (BLUE, "tab:orange", "tab:green", "tab:red", "tab:purple", "tab:brown")  # ours, then rivals


def draw_ages(measured: Measured, file: Path) -> None:
    """Draw MRR against the age of the state, a panel a set, and beside it the cost of an event."""
    picture, axes = panels(1, len(measured) + 1)
    for axis, (name, found) in zip(axes[0], measured.items(), strict=False):
        states = {about: each for about, each in found.items() if about.startswith("state")}
        places = np.arange(len(states))
        kind = next(kind for kind in ASKS if kind in next(iter(states.values())))
        names = list(next(iter(states.values()))[kind]["mrr"])
        for other, colour in zip(names, _COLOURS, strict=False):
            means = [each[kind]["mrr"][other] for each in states.values()]
            mine = other == OURS
            axis.plot(places[:-1], means[:-1], "o-", color=colour, lw=2.5 if mine else 1, ms=3, label=other)
            axis.plot(places[-1:], means[-1:], "o", color=colour, ms=5 if mine else 3)  # a day has no number
        axis.set_xticks(places, [_age(about) for about in states])
        axis.set_xlabel("age of the state, events")
        axis.set_ylabel(f"MRR, {ASKS[kind]}")
        axis.set_title(name, fontsize=10)
    axes[0, 0].legend(fontsize=7)
    _draw_costs(axes[0, -1], measured)
    save(picture, file)


def _age(about: str) -> str:
    return "a day" if "midnight" in about else about.split()[1]


def _draw_costs(axis: Any, measured: Measured) -> None:
    """Draw microseconds an event, ours and all rivals together, at each age."""
    for name, found in measured.items():
        states = {about: each for about, each in found.items() if about.startswith("state")}
        for who, style in ((OURS, "o-"), ("rivals", "s--")):
            costs = [each["us an event"][who] for each in states.values()]
            axis.plot(np.arange(len(states)), costs, style, ms=3, lw=1, label=f"{name}, {who}")
        axis.set_xticks(np.arange(len(states)), [_age(about) for about in states])
    axis.set_yscale("log")
    axis.set_xlabel("age of the state, events")
    axis.set_ylabel("µs an event")
    axis.set_title("cost of following", fontsize=10)
    axis.legend(fontsize=7)


def draw_calibration(measured: Measured, file: Path) -> None:
    """Draw how many answers were expected in each bin of P, and how many came."""
    picture, axes = panels(1, len(measured))
    for axis, (name, found) in zip(axes[0], measured.items(), strict=True):
        sums = found["sums"]
        places = np.arange(len(sums["answers"]) - 1)  # none has P above 1
        axis.bar(places - 0.2, sums["expected answers"][:-1], 0.4, color=OTHERS, label="expected")
        axis.bar(places + 0.2, sums["answers"][:-1], 0.4, color=BLUE, label="came")
        axis.set_xticks(
            places,
            [f"{low:.0e}" if low < 0.01 else f"{low:.2f}" for low in sums["P from"][:-1]],
            rotation=60,
            fontsize=7,
        )
        axis.set_xlabel("P of a candidate, at least")
        axis.set_ylabel("answers")
        axis.set_title(name, fontsize=10)
    axes[0, 0].legend(fontsize=8)
    save(picture, file)
