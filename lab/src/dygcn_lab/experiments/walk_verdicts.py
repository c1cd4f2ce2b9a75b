"""What was asked of walk features, computed from finished cells: new links, newcomers, freshness."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dygcn_lab.experiments.cells import CellStore
from dygcn_lab.experiments.verdicts import Means, Verdict, counted, means_of

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
_FROZEN = ("frozen rows", "nothing updated")


def walk_verdicts(store: CellStore) -> list[Verdict]:
    """Return all that was asked, and what was found: freshness first."""
    fresh, seconds = (means_of(store, "freshness", measure) for measure in ("new-warm", "seconds"))
    new, late = (means_of(store, "walks", name) for name in ("new-warm", "accuracy.held-out.newcomers"))
    verdicts = [_above_frozen(fresh), *(_fresh(fresh, seconds, label) for label in (_BOTH, _ROWS))]
    return [*verdicts, _reached(new), _above(new, "DynWalks", 10), _newcomers(late)]


def fresh_words(store: CellStore) -> str:
    """Say what the exact rule is worth, beside freezing vectors and beside making them anew."""
    fresh, seconds = (means_of(store, "freshness", measure) for measure in ("new-warm", "seconds"))
    rows = _link_sets(fresh, {_OLD, _BOTH, _ROWS, *_FROZEN})
    if not rows:
        return "**Fresh vectors.** Not run."
    frozen = {name: means[_OLD] - max(means[label] for label in _FROZEN) for name, means in rows.items()}
    anew, both = ({k: v[_OLD] - v[label] for k, v in rows.items()} for label in (_ROWS, _BOTH))
    above = [name for name, apart in frozen.items() if apart > 0]
    near = ([name for name, apart in each.items() if apart >= -NEAR] for each in (anew, both))
    share = np.median([seconds[name][_OLD] / seconds[name][_BOTH] for name in rows])
    return (
        "**Fresh vectors.** New links, AUC by the cosine: the exact rule over the rows of the end of fitting"
        f" is above frozen vectors on {_on(rows, above)}, by {np.median(list(frozen.values())):.3f} in the"
        f" median. It is not more than {NEAR:g} below rows that are factorised anew at every step on"
        f" {_on(rows, next(near))}, and below such rows propagated on {_on(rows, next(near))}, at"
        f" {share:.1%} of their seconds in the median."
    )


def _on(rows: Means, names: Sequence[str]) -> str:
    rest = [name for name in rows if name not in names]
    return f"{len(names)} of {len(rows)}" + (f" (not on {', '.join(rest)})" if rest else "")


def _link_sets(rows: Means, labels: set[str]) -> Means:
    """Return the twelve sets that links are judged on, as far as all rows were run."""
    return {k: v for k, v in rows.items() if labels <= set(v) and k != "patent-labelled"}


def _above_frozen(fresh: Means) -> Verdict:
    rows = _link_sets(fresh, {_OLD, *_FROZEN})
    best = {k: max(_FROZEN, key=v.__getitem__) for k, v in rows.items()}
    lost = [
        f"{k} ({v[_OLD]:.3f}; {best[k]} {v[best[k]]:.3f})" for k, v in rows.items() if v[_OLD] <= v[best[k]]
    ]
    apart = [v[_OLD] - v[best[k]] for k, v in rows.items()]
    more = f"; by {np.median(apart):.3f} in the median" if apart else ""
    asked = "new links by the cosine: the exact rule over old rows above frozen rows and frozen vectors"
    return counted(f"{asked} on {SETS} of {SETS}", len(rows), lost, SETS, SETS, more)


def _reached(new: Means) -> Verdict:
    asked = "new links by the cosine of the default: " + ", ".join(f"{k} {v:g}" for k, v in ASKED.items())
    known = {name: new[name]["walks"] for name in ASKED if "walks" in new.get(name, {})}
    lost = [name for name, mean in known.items() if mean < ASKED[name] - NEAR]
    found = ", ".join(f"{name} {mean:.3f}" for name, mean in known.items())
    found += f"; more than {NEAR:g} below on {', '.join(lost) or 'none'}"
    return Verdict(f"{asked}; within {NEAR:g}", found, not lost if len(known) == len(ASKED) else None)


def _above(new: Means, rival: str, enough: int) -> Verdict:
    rows = _link_sets(new, {"walks", rival})
    lost = [f"{k} ({v['walks']:.3f}; {v[rival]:.3f})" for k, v in rows.items() if v["walks"] < v[rival]]
    asked = f"new links by the cosine: {rival} reached on {enough} of {SETS}"
    return counted(asked, len(rows), lost, enough, SETS)


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
    rows = _link_sets(fresh, {_OLD, other})
    lost = [f"{k} ({v[_OLD]:.3f}; {v[other]:.3f})" for k, v in rows.items() if v[_OLD] < v[other] - NEAR]
    shares = [seconds[k][_OLD] / seconds[k][other] for k in rows if seconds.get(k, {}).get(other)]
    more = ""
    if shares:
        low, middle, high = np.min(shares), np.median(shares), np.max(shares)
        more = f"; at {middle:.1%} of its seconds (median; {low:.1%} to {high:.1%})"
    return counted(asked, len(rows), lost, 9, SETS, more)
