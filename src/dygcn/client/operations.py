"""The operations of a client: the request of each, and how its answer is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, Unpack
from urllib.parse import quote

import msgspec
import numpy as np

from dygcn.client.retry import (
    Operation,
    Pause,
    Request,
    Response,
    Retry,
    check_about,
    check_among,
    error_of,
    read_problem,
    unreadable,
    vectors_of,
)
from dygcn.client.sending import ARROW, Sender
from dygcn.engine.events import ColumnOptions, as_dicts, read_graph, read_update
from dygcn.engine.records import DEFAULT_K, EventBatch
from dygcn.errors import OptionError
from dygcn.schema import answers

_LETTERS = "/v1/dead-letters"
_PAGE = 1_000  # letters of a request
_IN_ADDRESS = 100  # numbers of a request that discards
JSON = {"Content-Type": "application/json"}


Id = int | str | tuple[str, int | str]
T = TypeVar("T")
_BETWEEN_LOOKS = 0.1  # seconds


class Operations:
    """The operations of a client. Reads may be retried; events go through a `Sender`."""

    def __init__(self, retry: Retry, name: str | None = None) -> None:
        self._retry, self._sender = retry, Sender(retry, name)

    # ---- vectors and neighbours ----------------------------------------------------------------------

    def vector(self, node: Id, *, as_of: int | str | None = None) -> Operation[answers.OneVector]:
        """Return the vector of a node.

        Parameters
        ----------
        as_of
            A moment of the past: a sequence, or a time with its zone (``"2026-11-10T12:00Z"``).

        Raises
        ------
        UnknownNode
            If it is not in the graph.
        """
        return self._get(f"/v1/vectors/{in_path(node)}", answers.OneVector, node, as_of=as_of)

    def vectors(self, ids: Iterable[Id], *, as_of: int | str | None = None) -> Operation[answers.ManyVectors]:
        """Return the vectors of many nodes, as of one sequence; they travel as Arrow.

        Parameters
        ----------
        ids
            At most as many as the service takes in one request (10,000 unless its settings say more).
        as_of
            As in `vector`.
        """
        asked = [plain(one) for one in ids]
        headers = JSON | {"Accept": ARROW}
        request = Request("POST", "/v1/vectors", _query(as_of=as_of), encode({"ids": asked}), headers)
        response = yield from self._retry.request(request)
        return vectors_of(response.body, asked)

    def nearest(self, node: Any, k: int = DEFAULT_K, *, kind: str | None = None) -> Operation[Any]:
        """Return the nodes nearest to a node or to a vector by cosine; with a list of ids, those of each.

        Parameters
        ----------
        node
            An id or a vector of floats, and a `ScoredNodes` is returned; or a list of ids, and a `NearestOf`.
        k
            How many.
        kind
            Where nodes have kinds, only nodes of this one; by default of the node's own.
        """
        values = _several(node)
        if values is None:
            return (yield from self._get(f"/v1/nearest/{in_path(node)}", answers.ScoredNodes, k=k, kind=kind))
        if any(isinstance(one, float | np.floating) for one in values):
            return (yield from self._post("/v1/nearest", answers.ScoredNodes, vector=values, k=k))
        asked = [plain(one) for one in values]
        found = yield from self._post("/v1/nearest", answers.NearestOf, ids=asked, k=k, kind=kind)
        check_among((one.id for one in found.of), asked)
        return found

    def recommend(
        self,
        node: Id,
        k: int = DEFAULT_K,
        *,
        among: Iterable[Id] | None = None,
        exclude_linked: bool = True,
        links: str | None = None,
        kind: str | None = None,
    ) -> Operation[answers.Recommended]:
        """Return the nodes that a node is likeliest to link with; the options are those of the embedding."""
        some = None if among is None else list(map(plain, among))
        asked = {
            "id": plain(node),
            "k": k,
            "kind": kind,
            "among": some,
            "exclude_linked": exclude_linked,
            "links": links,
        }
        return self._post("/v1/recommend", answers.Recommended, node, **asked)

    def score(
        self, a: Any, b: Any, links: str = "new", *, probability: bool = False
    ) -> Operation[answers.Scores]:
        """Return how likely pairs are linked next: log-odds, or probabilities.

        Parameters
        ----------
        a, b
            Ids, as many of one as of the other, or one id on a side.
        links, probability
            As in `dygcn.LiveEmbedding.score`.
        """
        first, second = (list(map(plain, [ids] if _several(ids) is None else ids)) for ids in (a, b))
        if len(first) != len(second) and 1 not in (len(first), len(second)):
            raise OptionError(f"there are {len(first)} ids on one side and {len(second)} on the other")
        size = len(first) if len(second) == 1 else len(second)
        pairs = (ids * size if len(ids) == 1 else ids for ids in (first, second))
        wanted = list(zip(*pairs, strict=True))
        asked = {"pairs": wanted, "links": links, "probability": probability}
        found = yield from self._post("/v1/score", answers.Scores, **asked)
        if len(found.scores) != len(wanted):
            raise unreadable(f"it has {len(found.scores)} scores for {len(wanted)} pairs")
        return found

    def neighbors(self, node: Id, limit: int = 100) -> Operation[answers.Neighbors]:
        """Return the nodes that a node has an edge with."""
        return self._get(f"/v1/neighbors/{in_path(node)}", answers.Neighbors, node, limit=limit)

    # ---- why, and what if ----------------------------------------------------------------------------

    def explain(self, node: Id, k: int = DEFAULT_K) -> Operation[answers.ExplainedVector]:
        """Return what each neighbour of a node adds to its vector, order by order."""
        return self._get(f"/v1/explain/{in_path(node)}", answers.ExplainedVector, node, k=k)

    def explain_change(
        self,
        node: Id,
        events: object = None,
        *,
        add: object = None,
        remove: object = None,
        now: float | None = None,
    ) -> Operation[answers.ExplainedMove]:
        """Return how far each event of a change would move a node; the graph does not change."""
        change = as_dicts(_read_change(events, add, remove))
        return self._post(
            "/v1/explain-change", answers.ExplainedMove, node, id=plain(node), events=change, now=now
        )

    def what_if(
        self,
        events: object = None,
        *,
        add: object = None,
        remove: object = None,
        remove_nodes: Iterable[Id] = (),
        now: float | None = None,
        moved: int = 100,
        vectors: Iterable[Id] = (),
        nearest: Iterable[Id] = (),
        recommend: Iterable[Id] = (),
        scores: Iterable[tuple[Id, Id]] = (),
        k: int = DEFAULT_K,
        links: str = "new",
    ) -> Operation[answers.WhatIfAnswer]:
        """Return the result of a change that is tried and rolled back.

        Parameters
        ----------
        events, add, remove
            The change, as in `update`.
        remove_nodes
            Nodes to remove with all of their edges, after the events.
        now
            The time of events without one.
        moved
            How many of the nodes that would move are named.
        vectors, nearest, recommend, scores
            What is asked about the graph as it would be: ids, and for scores pairs.
        k
            How many nodes an answer has.
        links
            Which links the scores are about.
        """
        asked: dict[str, Any] = {"moved": moved, "k": k, "links": links, "now": now}
        if events is not None or add is not None or remove is not None:
            asked["events"] = as_dicts(_read_change(events, add, remove))
        about = {"vectors": vectors, "nearest": nearest, "recommend": recommend, "remove_nodes": remove_nodes}
        asked |= {name: list(map(plain, values)) for name, values in about.items()}
        asked["scores"] = [(plain(a), plain(b)) for a, b in scores]
        return self._post("/v1/what-if", answers.WhatIfAnswer, **asked)

    # ---- events and changes --------------------------------------------------------------------------

    def update(
        self,
        events: object = None,
        *,
        add: object = None,
        remove: object = None,
        kinds: Sequence[str] | bool | None = None,
        **names: Unpack[ColumnOptions],
    ) -> Operation[answers.Sent]:
        """Send events; return when they are on disk and can be read.

        With a name each event is applied once, whatever breaks on the way. If the call fails, send the same
        events again: those that arrived are not applied twice. Many events go in parts of 10,000.

        Parameters
        ----------
        events, add, remove, **names
            As in `dygcn.LiveEmbedding.update`.
        kinds
            What both columns of a table hold, as in `dygcn.fit`; ids of rows may be (kind, id).

        Raises
        ------
        EventError
            If an event is bad; then none was sent.
        UnknownOutcome
            Without a name: if the connection broke, and the events may have arrived or not.
        SequenceGap
            If the service has fewer events of this name than it acknowledged: it was restored from a backup,
            say. Send events again from the number ``expected`` of the error on.
        """
        if kinds is None:
            return (yield from self._sender.send(_read_change(events, add, remove, **names)))
        if remove is not None or (events is None) == (add is None):
            raise OptionError("kinds= is for one table of events, or of edges to add")
        _, batch = read_graph(add if events is None else events, None, kinds, **names)
        return (yield from self._sender.send(batch))

    def position(self) -> Operation[int]:
        """Return the offset: how many events of the client's name the service has accepted.

        A program that can read its events again, and counts them from 0, goes on with this number after it
        was restarted.
        """
        return self._sender.position()

    def page(self, since: str = "", *, limit: int = 1_000, wait: float = 0.0) -> Operation[answers.Changes]:
        """Return one page of changes; `changes` continues from page to page.

        Parameters
        ----------
        since
            The cursor `next` or `latest` of an answer; ``""``: from the beginning.
        limit
            Rows of a page.
        wait
            Seconds that the service waits for changes, if there are none.
        """
        request = Request("GET", "/v1/changes", _query(since=since, limit=limit, wait=wait))
        return self._retry.answer(request, answers.Changes, wait=wait)

    def forget(self, node: Id) -> Operation[answers.NodeForgotten]:
        """Forget an id: remove it from graph, model, log, snapshots, dead letters and sinks of the service.

        The service answers when no file names the id, and drops old events of it from then on. It takes a
        token with the scope ``admin``.
        """
        return self._read(Request("DELETE", f"/v1/nodes/{in_path(node)}"), answers.NodeForgotten, None)

    # ---- dead letters: all their requests are idempotent -------------------------------------------------

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

    # ---- about ---------------------------------------------------------------------------------------

    def status(self) -> Operation[answers.ServiceStatus]:
        """Return everything worth knowing at a glance."""
        return self._get("/v1/status", answers.ServiceStatus)

    def ready(self, wait: float = 0.0) -> Operation[bool]:
        """Return whether the service accepts requests, after at most `wait` seconds."""
        clock = self._retry.clock
        until = clock() + wait
        while True:
            received = yield Request("GET", "/readyz", seconds=self._retry.timeout)
            if isinstance(received, Response) and received.status not in (200, 503):
                raise error_of(received, read_problem(received))
            if isinstance(received, Response) and received.status == 200:
                return True
            if clock() + _BETWEEN_LOOKS >= until:
                return False
            yield Pause(_BETWEEN_LOOKS)

    # ---- requests ------------------------------------------------------------------------------------

    def _get(
        self, path: str, shape: Callable[..., T], about: Id | None = None, /, **query: object
    ) -> Operation[T]:
        return self._read(Request("GET", path, _query(**query)), shape, about)

    def _post(
        self, path: str, shape: Callable[..., T], about: Id | None = None, /, **body: object
    ) -> Operation[T]:
        return self._read(Request("POST", path, (), encode(body), JSON), shape, about)

    def _read(self, request: Request, shape: Callable[..., T], about: Id | None) -> Operation[T]:
        found: Any = yield from self._retry.answer(request, shape)
        if about is not None:
            check_about(found.id, plain(about))
        answer: T = found
        return answer


def _read_change(events: object, add: object, remove: object, **names: Unpack[ColumnOptions]) -> EventBatch:
    sides = ends_plain(events), ends_plain(add), ends_plain(remove)
    return read_update(*sides, None, related=True, **names)


def _query(**values: object) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(value)) for name, value in values.items() if value is not None)


def _several(ids: object) -> list[Any] | None:
    """Return several ids, or the numbers of a vector, as a list; None for a single id, such as (kind, id)."""
    one = isinstance(ids, tuple) and len(ids) == 2 and isinstance(ids[0], str)
    if one or isinstance(ids, str) or not isinstance(ids, Iterable):
        return None
    return ids.tolist() if isinstance(ids, np.ndarray) else list(ids)


def plain(id: object) -> Any:
    """Return an id as a plain number or text; (kind, id) as ``kind:id``."""
    if isinstance(id, tuple) and len(id) == 2 and isinstance(id[0], str):
        return f"{id[0]}:{plain(id[1])}"
    return id.item() if isinstance(id, np.generic) else id


def ends_plain(rows: object) -> object:
    """Return a list of events with each (kind, id) as text; other tables of events unchanged."""
    if not isinstance(rows, list):
        return rows
    return [_ends_of(row) for row in rows]


def _ends_of(row: Any) -> Any:
    if isinstance(row, dict):
        return {name: plain(one) if name in ("src", "dst") else one for name, one in row.items()}
    return (*map(plain, row[:2]), *row[2:]) if isinstance(row, tuple) else row


def in_path(id: object) -> str:
    """Return an id escaped for a URL path; dots too, since ``..`` would mean the parent folder."""
    return quote(str(plain(id)), safe="").replace(".", "%2E")


def encode(body: dict[str, Any]) -> bytes:
    """Return a body as JSON; arrays become lists."""
    return msgspec.json.encode(body, enc_hook=_as_list)


def _as_list(value: object) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is neither an id, nor a number, nor a list of them")
