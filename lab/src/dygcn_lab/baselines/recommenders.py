"""Every rival of recommendations, by name."""

from __future__ import annotations

from dygcn_lab.baselines.als import ALS, ALS_CLOCK
from dygcn_lab.baselines.ease import EASE, EASE_CLOCK
from dygcn_lab.baselines.recommending import ItemItem, Popularity, Rival, Rp3Beta

RECENT = Rival(Popularity, {"half_life": 7}, {"half_life": (0.5, 1, 2, 4, 7, 14, 30, 60, 180)}, times=True)
RIVALS = {
    "popularity": Rival(Popularity),
    "recent popularity": RECENT,
    "item-item": Rival(
        ItemItem,
        {"shrink": 0, "nearest": None},
        {"shrink": (0, 5, 20, 100), "nearest": (None, 20, 50, 100, 300)},
    ),
    "RP3beta": Rival(
        Rp3Beta,
        {"alpha": 1.0, "beta": 0.5},
        {"alpha": (0.4, 0.6, 0.8, 1.0, 1.2, 1.5), "beta": (0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)},
    ),
    "EASE": EASE,
    "ALS": ALS,
    "EASE, clock": EASE_CLOCK,
    "ALS, clock": ALS_CLOCK,
}
