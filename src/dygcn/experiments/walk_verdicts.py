"""What was asked of walk features, computed from finished cells: new links, newcomers, freshness."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dygcn.experiments.findings import find
from dygcn.experiments.plan import read_experiment
from dygcn.experiments.verdicts import Verdict

if TYPE_CHECKING:
    from dygcn.experiments.cells import CellStore

ASKED = {  # AUC of new links by the cosine; within NEAR
    "dblp-labelled": 0.84,
    "facebook-wall-growth": 0.87,
    "hepth-collab": 0.76,
    "bitcoin-otc": 0.82,
    "college-msg": 0.70,
    "as-733": 0.90,
    "fb100-amherst41": 0.935,
}
NEAR = 0.01
SETS = 12
NEWCOMERS = 0.60
_OLD, _BOTH, _ROWS = "exact rule over old rows", "rows anew and the exact rule", "rows anew"

Means = dict[str, dict[str, float]]


def _means(store: CellStore, name: str, measure: str) -> Means:
    """Return data set -> label -> mean, of the twelve sets that links are judged on."""
    found: Means = {}
    for each in find(read_experiment(name), store):
        if each.measure == measure:
            found.setdefault(each.dataset, {})[each.row.label] = each.mean
    return found


def walk_verdicts(store: CellStore) -> list[Verdict]:
    """Return all that was asked, and what was found."""
    new, late = (_means(store, "walks", name) for name in ("new-warm", "accuracy.held-out.newcomers"))
    verdicts = [_reached(new), _above(new, "DynWalks", 10), _newcomers(late)]
    fresh, seconds = (_means(store, "freshness", measure) for measure in ("new-warm", "seconds"))
    return [*verdicts, *(_fresh(fresh, seconds, label) for label in (_BOTH, _ROWS))]


def _reached(new: Means) -> Verdict:
    asked = "new links by the cosine of the default: " + ", ".join(f"{k} {v:g}" for k, v in ASKED.items())
    known = {name: new[name]["walks"] for name in ASKED if "walks" in new.get(name, {})}
    lost = [name for name, mean in known.items() if mean < ASKED[name] - NEAR]
    found = ", ".join(f"{name} {mean:.3f}" for name, mean in known.items())
    found += f"; more than {NEAR:g} below on {', '.join(lost) or 'none'}"
    return Verdict(f"{asked}; within {NEAR:g}", found, not lost if len(known) == len(ASKED) else None)


def _above(new: Means, rival: str, enough: int) -> Verdict:
    rows = {k: v for k, v in new.items() if {"walks", rival} <= set(v) and k != "patent-labelled"}
    lost = [f"{k} ({v['walks']:.3f}; {v[rival]:.3f})" for k, v in rows.items() if v["walks"] < v[rival]]
    found = f"{len(rows) - len(lost)} of {len(rows)}" + (f"; not on {', '.join(lost)}" if lost else "")
    holds = len(rows) - len(lost) >= enough if len(rows) == SETS else None
    return Verdict(f"new links by the cosine: {rival} reached on {enough} of {SETS}", found, holds)


def _newcomers(late: Means) -> Verdict:
    asked = f"classes of newcomers, labels held out: dblp-labelled at least {NEWCOMERS:g}"
    said = [
        f"{name}: " + ", ".join(f"{label} {rows[label]:.3f}" for label in _LABELS if label in rows)
        for name, rows in late.items()
    ]
    mine = late.get("dblp-labelled", {}).get("walks")
    return Verdict(asked, "; ".join(said), None if mine is None else mine >= NEWCOMERS)


_LABELS = ("walks", "hashed", "DynWalks")


def _fresh(fresh: Means, seconds: Means, other: str) -> Verdict:
    asked = f"the exact rule over old rows not more than {NEAR:g} below {other!r} on 9 of {SETS}"
    rows = {k: v for k, v in fresh.items() if {_OLD, other} <= set(v) and k != "patent-labelled"}
    lost = [f"{k} ({v[_OLD]:.3f}; {v[other]:.3f})" for k, v in rows.items() if v[_OLD] < v[other] - NEAR]
    shares = [seconds[k][_OLD] / seconds[k][other] for k in rows if seconds.get(k, {}).get(other)]
    found = f"{len(rows) - len(lost)} of {len(rows)}" + (f"; not on {', '.join(lost)}" if lost else "")
    if shares:
        low, middle, high = np.min(shares), np.median(shares), np.max(shares)
        found += f"; at {middle:.1%} of its seconds (median; {low:.1%} to {high:.1%})"
    return Verdict(asked, found, len(rows) - len(lost) >= 9 if len(rows) == SETS else None)
