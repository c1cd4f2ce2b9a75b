"""The history by lists: every event is kept, and every column is computed from all of them."""

from math import log1p

import numpy as np

FAR, FADE = 15.0, 0.75


class Twin:
    """All events of a history, in order."""

    def __init__(self, span):
        self.unit, self.fast, self.slow = span / 1e5, span / 200, span / 4
        self.events, self.clock, self.edges, self.gone = [], -np.inf, set(), {}

    def apply(self, events):
        """Keep events (u, v, t, op) that count; note which edges are there, and when others went."""
        for u, v, t, op in events:
            known = any({u, v} == {a, b} for a, b, _ in self.events)
            if u == v or (op < 0 and not known):
                continue
            self.clock = max(self.clock, t)
            if op > 0:
                self.events.append((u, v, t))
                self.edges.add(frozenset((u, v)))
            else:
                self.edges.discard(frozenset((u, v)))
                self.gone[frozenset((u, v))] = t

    def faded(self, times, now, half_life):
        """Return what is left at `now` of events at some times: an event is worth one until it is past."""
        last = max(times)
        worth = sum(2.0 ** (-(last - t) / half_life) for t in times)
        return worth * 2.0 ** (-max(now - last, 0.0) / half_life)

    def age(self, now, times):
        return log1p(max(now - max(times), 0.0) / self.unit)

    def walk(self, u):
        """Return the chance of each end of a walk of three steps over the last ten partners."""

        def step(mass):
            found = {}
            for node, chance in mass.items():
                ring = [b if a == node else a for a, b, _ in self.events if node in (a, b)][-10:][::-1]
                weights = [FADE**k for k in range(len(ring))]
                for other, weight in zip(ring, weights, strict=True):
                    found[other] = found.get(other, 0.0) + chance * weight / sum(weights)
            return found

        second = step(step({u: 1.0}))
        second.pop(u, None)
        return step(second)

    def place(self, ring, v):
        distinct = list(dict.fromkeys(reversed(ring)))
        return 1 / (1 + distinct.index(v)) if v in distinct else 0.0

    def columns(self, u, v, now):
        """Return the columns of one candidate."""
        row = np.zeros(20)
        own = [(b, t) for a, b, t in self.events if a == u]
        firsts = {}
        for a, b, t in self.events:
            firsts.setdefault((a, b), t)
        row[11] = self.age(now, [t for _, t in own]) if own else 0.0
        row[12] = 0.5
        seen = set()
        for b, _ in own:
            row[12] = 0.8 * row[12] + 0.2 * (b in seen)
            seen.add(b)
        met = [t for _, b, t in self.events if b == v]
        known = any(v in (a, b) for a, b, _ in self.events)
        if met:
            new = [t for (_, b), t in firsts.items() if b == v]
            row[5] = log1p(self.faded(met, now, self.fast))
            row[6] = log1p(self.faded(met, now, self.slow))
            row[7], row[9] = self.age(now, met), self.age(now, new)
            row[8] = log1p(self.faded(new, now, self.fast))
        else:
            row[7] = row[9] = FAR
            row[16] = float(known)
        there = [t for a, b, t in self.events if (a, b) == (u, v)]
        back = [t for a, b, t in self.events if (a, b) == (v, u)]
        if there:
            row[:5] = (
                1,
                self.age(now, there),
                self.place([b for b, _ in own][-20:], v),
                log1p(len(there)),
                log1p(self.faded(there, now, self.fast)),
            )
        row[10] = log1p(1000 * self.walk(u).get(v, 0.0))
        if there or back:
            ages = [self.age(now, times) if times else np.inf for times in (there, back)]
            row[13:16] = 1, min(ages), ages[1] < ages[0]
            partners = [b if a == u else a for a, b, _ in self.events if u in (a, b)][-10:]
            row[17] = self.place(partners, v)
            pair = frozenset((u, v))
            row[18:20] = (1, 0) if pair in self.edges else (0, self.age(now, [self.gone[pair]]))
        return row
