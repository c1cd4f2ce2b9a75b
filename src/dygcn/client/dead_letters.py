"""Dead letters of a service: listed, replayed as they are or corrected, discarded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from dygcn.client.retry import Operation, Request, Retry
from dygcn.errors import OptionError
from dygcn.schema import answers

_LETTERS = "/v1/dead-letters"
_PAGE = 1_000  # letters of a request
_IN_ADDRESS = 100  # numbers of a request that discards
JSON = {"Content-Type": "application/json"}


class DeadLetterOperations:
    """The operations on dead letters; all their requests are idempotent."""

    def __init__(self, retry: Retry) -> None:
        self._retry = retry

    def dead_letters(
        self,
        *,
        stream: str | None = None,
        reason: str | None = None,
        limit: int | None = 100,
        before: int | None = None,
    ) -> Operation[answers.DeadLetters]:
        """Return events that could not be applied, newest first.

        Parameters
        ----------
        stream, reason
            Only those of a stream; only those whose reason has these words in it.
        limit
            How many; None: all.
        before
            Only those with a lower number, to go on after the last one.
        """
        found: list[answers.ListedDeadLetter] = []
        while True:
            want = _PAGE if limit is None else min(limit - len(found), _PAGE)
            asked = {"stream": stream, "reason": reason, "before": before, "limit": want}
            query = tuple((name, str(value)) for name, value in asked.items() if value is not None)
            page = yield from self._retry.answer(Request("GET", _LETTERS, query), answers.DeadLetters)
            found += page.dead_letters
            if len(page.dead_letters) < want or len(found) == limit:
                return answers.DeadLetters(page.total, found)
            before = page.dead_letters[-1].number

    def replay(
        self,
        numbers: Iterable[int] = (),
        *,
        stream: str | None = None,
        reason: str | None = None,
        corrected: Mapping[int, Mapping[str, Any] | Sequence[Mapping[str, Any]]] | None = None,
    ) -> Operation[answers.ReplayResult]:
        """Apply dead letters again, oldest first; what cannot be applied stays, with its new reason.

        Parameters
        ----------
        numbers
            Which ones; or else:
        stream, reason
            All of a stream; all whose reason has these words in it.
        corrected
            Events to apply in the place of letters, by number; for a letter of several, a list of as many.
        """
        events = dict(corrected or {})
        wanted = yield from self._named([*numbers, *events], stream, reason)
        sequence = applied = dead = 0
        missing: list[int] = []
        for begin in range(0, len(wanted), _PAGE):
            some = wanted[begin : begin + _PAGE]
            body = {
                "numbers": [one for one in some if one not in events],
                "corrected": [{"number": one, "event": events[one]} for one in some if one in events],
            }
            request = Request("POST", f"{_LETTERS}/replay", (), msgspec.json.encode(body), JSON)
            part = yield from self._retry.answer(request, answers.ReplayResult)
            sequence, applied, dead = part.sequence, applied + part.applied, dead + part.dead
            missing += part.missing
        return answers.ReplayResult(sequence, applied, dead, missing)

    def discard(
        self, numbers: Iterable[int] = (), *, stream: str | None = None, reason: str | None = None
    ) -> Operation[answers.DiscardResult]:
        """Discard dead letters, chosen as in `replay`."""
        wanted = yield from self._named([*numbers], stream, reason)
        sequence = discarded = 0
        missing: list[int] = []
        for begin in range(0, len(wanted), _IN_ADDRESS):
            query = tuple(("number", str(one)) for one in wanted[begin : begin + _IN_ADDRESS])
            part = yield from self._retry.answer(Request("DELETE", _LETTERS, query), answers.DiscardResult)
            sequence, discarded = part.sequence, discarded + part.discarded
            missing += part.missing
        return answers.DiscardResult(sequence, discarded, missing)

    def _named(self, numbers: list[int], stream: str | None, reason: str | None) -> Operation[list[int]]:
        """Return the numbers of the chosen dead letters.

        By a filter they are listed first: what is replayed in vain gets a new number, and would come again.
        """
        if bool(numbers) == (stream is not None or reason is not None):
            raise OptionError("name either numbers (or corrected events), or a stream or words of a reason")
        if numbers:
            return sorted(set(numbers))
        found = yield from self.dead_letters(stream=stream, reason=reason, limit=None)
        return sorted(one.number for one in found.dead_letters)
