"""The columns that a history has of an asking node (u) and a candidate (v).

Ages and counts are inside a logarithm. In a conditional logit, traits of candidates weigh otherwise in known
pairs than in others, and traits of u move known pairs against others: `expanded` separates them.
"""

from __future__ import annotations

import numpy as np

from dygcn.engine.records import Float64

ANSWERS = 20  # destinations that a node remembers, the last ones
PARTNERS = 10  # partners in either direction that a walk can step to
FADE = 0.75  # how likely a walk steps to the partner before, of two
REPEATS = 0.2  # what one event changes in the habit of repeating
FAR = 15.0  # log age of what never happened
ANSWERED, PARTNERED = range(2)  # columns of `counts`
HABIT, FAST, SLOW, NEW = range(4)  # columns of `marks`
ASKED, MET, FIRST = range(3)  # columns of `times`
PAIRS, PLAYED, COUNTED = range(3)  # of `sizes`
WALK_SCALE = 1000.0  # of the chance of a walk, inside a logarithm
RAW_COLUMNS = 20  # see `columns.RAW`
MOST = 2147483647  # events of a pair that are counted: of more, as many
NEVER = -np.inf  # when what never happened did
RAW = (
    "pair known",
    "pair age",
    "pair place",
    "pair count",
    "pair fading count",
    "answer fading count",
    "answer slow count",
    "answer age",
    "answer new contacts",
    "answer new contact age",
    "walks",
    "asker age",
    "asker habit",
    "linked either way",
    "linked age",
    "answered last by the other",
    "candidate asks and never answers",
    "linked place",
    "edge is there",
    "edge gone since",
)
_PAIR, _EITHER, _CANDIDATE, _ASKER = slice(0, 5), slice(13, 20), slice(5, 11), slice(11, 13)
_COUNTS = [5, 6, 8]  # log1p makes all small counts alike; the logarithms below tell them apart
_FLOORS = (1e-2, 1e-4)
KNOWN = 13  # the column that separates the two regimes
_TRAITS = (*RAW[_CANDIDATE], *(f"{RAW[at]} above {floor:g}" for floor in _FLOORS for at in _COUNTS))
NAMES = (
    *RAW[_PAIR],
    *RAW[_EITHER],
    *(f"{name}, new pair" for name in _TRAITS),
    *(f"{name}, known pair" for name in _TRAITS),
    *(f"{name}, known pair" for name in RAW[_ASKER]),
)


def expanded(raw: Float64) -> Float64:
    """Return the columns that the logit weights."""
    known = raw[..., KNOWN : KNOWN + 1]
    counts = np.expm1(raw[..., _COUNTS])
    traits = raw[..., _CANDIDATE], *(np.log(counts + floor) for floor in _FLOORS)
    candidate, asker = np.concatenate(traits, axis=-1), raw[..., _ASKER]
    parts = raw[..., _PAIR], raw[..., _EITHER], candidate * (1 - known), candidate * known, asker * known
    return np.concatenate(parts, axis=-1)
