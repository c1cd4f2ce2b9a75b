"""Readers of the feed of a folder, and what state machines of such a folder have in common."""

import numpy as np
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, rule

import dygcn
from dygcn.live.durable.feed import FeedCursor
from tests.live.crashing import reopened

ROUNDED = 1e-5  # vectors are sums of float32


class Reader:
    """Keeps what the feed tells, as a sink does."""

    def __init__(self):
        self.cursor, self.rows = "", {}
        self.reported, self.reported_left, self.resets = [], [], 0
        self.shown = None  # the position of the last page

    def read(self, live, limit=1000):
        """Take one page; return whether there is more."""
        page = live.feed.since(self.cursor, limit)
        rows = page.rows
        self.check(live, page)
        if page.reset:
            self.rows, self.resets = {}, self.resets + 1
        assert len(rows) <= limit
        np.testing.assert_array_equal(rows.vectors, live.vectors(rows.ids.tolist()))
        for one, vector in zip(rows.ids.tolist(), rows.vectors, strict=True):
            self.rows[one] = vector.tobytes()
        for one in rows.left.tolist():
            self.rows.pop(one, None)
        self.reported += rows.ids.tolist()
        self.reported_left += rows.left.tolist()
        self.cursor, self.shown = page.next, rows.history
        return page.more

    def check(self, live, page):
        """A page is of one position, which the log confirms; pages never go back without a reset."""
        rows = page.rows
        assert len(rows.ids) == len(rows.vectors)
        assert rows.history.sequence == page.sequence
        assert not {*rows.ids.tolist()} & {*rows.left.tolist()}
        assert len({*rows.ids.tolist(), *rows.left.tolist()}) == len(rows)
        assert rows.history == live.feed.history
        assert live.feed.confirms(rows.history)
        assert page.floor == (page.sequence if page.reset else 0)
        cursor = FeedCursor.read(page.next)
        assert (cursor.page_position is not None) == page.more
        assert (cursor.epoch, cursor.sequence) == (rows.history.epoch, page.sequence)
        if self.shown is None or self.shown.epoch != rows.history.epoch:
            assert page.reset
        if not page.reset:
            assert page.sequence >= self.shown.sequence

    def catch_up(self, live, limit=1000, exact=True):
        """Take pages until there is no more; then all vectors are the exact ones, or within `error_bound`."""
        self.reported, self.reported_left, pages = [], [], 1
        while self.read(live, limit):
            pages += 1
            assert pages < 500, "it never ends"
        found = {one: live[one].tobytes() for one in live}
        if exact or not live._tolerance:
            assert self.rows == found
        else:
            self.check_bound(live, found)
        return self

    def check_bound(self, live, found):
        """Who hears no hub has the exact bits."""
        assert self.rows.keys() == found.keys()
        ids = list(found)
        bound = dict(zip(ids, live.error_bound(ids).tolist(), strict=True))
        for one, vector in found.items():
            ours, theirs = (np.frombuffer(each, np.float32) for each in (self.rows[one], vector))
            far = float(np.linalg.norm(ours.astype(np.float64) - theirs))
            assert far <= bound[one] * (1 + ROUNDED) + ROUNDED * (bound[one] > 0)


class Dated(RuleBasedStateMachine):
    """Time goes on with every batch."""

    t = 0.0

    def dated(self, events):
        self.t += 1
        return [(a, b, self.t, *rest) for a, b, _, *rest in events]


class OneFolder(Dated):
    """A folder, `live`, that publishes, is saved and ends; `restarted` looks at it then."""

    @rule()
    def flush(self):
        self.live.publish()

    @rule()
    def snapshot(self):
        self.live.snapshot()

    @rule()
    def crash(self):
        before = self.live._tolerance, self.live.digest()
        self.live = reopened(self.live)
        assert (self.live._tolerance, self.live.digest()) == before
        self.restarted()

    @rule()
    def close(self):
        before, history = (self.live._tolerance, self.live.digest()), self.live.feed.history
        self.live.close()
        self.live = dygcn.open(self.live._folder)
        assert (self.live._tolerance, self.live.digest()) == before
        assert self.live.feed.confirms(history)
        self.restarted()

    def restarted(self):
        pass


RUN = settings(
    max_examples=10,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)


def hunting(run, examples):
    """Return settings in which a seeded bug is looked for, the same way each time."""
    return settings(
        run,
        max_examples=examples,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        report_multiple_bugs=False,
    )
