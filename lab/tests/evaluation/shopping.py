"""Made-up events of users who take items, for tests of recommendations."""

import numpy as np

from dygcn_lab.evaluation.recommending import DAY, Events


def events_of(count=600, users=30, items=40, seed=0, timed=True, drift=10):
    """Return events whose users have some taste; the items that are taken move on by `drift` numbers."""
    random = np.random.default_rng(seed)
    user = random.integers(0, users, count)
    moved = user % 5 + np.arange(count) * drift // count
    item = np.minimum(random.geometric(0.1, count) + moved, items - 1)
    t = np.sort(random.integers(0, 100 * int(DAY), count)).astype(float) if timed else None
    return Events(user, item, t, users, items)


def pairs(events):
    return set(zip(events.user.tolist(), events.item.tolist(), strict=True))
