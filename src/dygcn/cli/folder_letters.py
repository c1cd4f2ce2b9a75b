"""Dead letters of a folder that no service has open: what `dygcn.client` offers of a service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from dygcn.live.durable.dead_letters import MOST, chosen, parts_of
from dygcn.live.durable.storage.dead_letters import MOST_DEAD_LETTERS
from dygcn.schema import answers
from dygcn.serving.service.clock import latest_of

if TYPE_CHECKING:
    from dygcn.live import DurableEmbedding


class FolderLetters:
    """The dead letters of a durable embedding."""

    def __init__(self, live: DurableEmbedding) -> None:
        self._live = live

    def dead_letters(
        self, *, stream: str | None, reason: str | None, limit: int | None
    ) -> answers.DeadLetters:
        """Return letters, newest first."""
        log = self._live._log
        found = log.dead_letters(limit or MOST_DEAD_LETTERS, None, stream=stream, reason=reason)
        return answers.DeadLetters(
            log.count_dead_letters(), [answers.ListedDeadLetter.of(*one) for one in found]
        )

    def replay(self, numbers: list[int], *, mended: Mapping[int, Any] | None = None) -> answers.ReplayResult:
        """Apply letters again, oldest first, each in the transaction that settles it."""
        live, events = self._live, {one: msgspec.json.encode(event) for one, event in (mended or {}).items()}
        applied = dead = 0
        missing: list[int] = []
        wanted = sorted({*numbers, *events})
        for begin in range(0, len(wanted), MOST):
            some = wanted[begin : begin + MOST]
            given = {one: events[one] for one in some if one in events}
            found, gone = chosen(live._log, [one for one in some if one not in events], given)
            latest = latest_of(live._state, None, "usual")
            receipts = live._ingest(parts_of(found, live.model.ids, latest, bool(live.model.relations)))
            applied, dead = applied + sum(r.applied for r in receipts), dead + sum(r.dead for r in receipts)
            missing += gone
        return answers.ReplayResult(live.sequence, applied, dead, missing)

    def discard(self, numbers: list[int]) -> answers.DiscardResult:
        """Take letters away."""
        log = self._live._log
        known = {number for number, _ in log.letters(numbers)}
        missing = sorted(set(numbers) - known)
        return answers.DiscardResult(self._live.sequence, log.discard(sorted(known)), missing)
