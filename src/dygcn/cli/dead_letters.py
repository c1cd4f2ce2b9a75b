"""`dygcn dead-letters`: events that could not be applied, of a folder or of a service."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec

from dygcn.cli.options import open_unserved
from dygcn.cli.printing import json_option, print_json, show, show_table
from dygcn.errors import MissingFolder, OptionError
from dygcn.live.durable.dead_letters import MOST, chosen, parts_of
from dygcn.live.durable.embedding import DurableEmbedding
from dygcn.live.durable.storage.dead_letters import MOST_DEAD_LETTERS
from dygcn.live.durable.storage.layout import is_durable
from dygcn.schema import answers
from dygcn.serving.service.ingest_queue import latest_of

_SHOWN = 60  # characters of a reason and of an event, for people


@click.command("dead-letters")
@click.argument("place", metavar="FOLDER|URL")
@click.argument("action", type=click.Choice(["list", "replay", "discard"]))
@click.option("--number", "numbers", type=int, multiple=True, help="This letter; may be repeated.")
@click.option("--stream", help="Those of a stream.")
@click.option("--reason", help="Those whose reason has these words in it.")
@click.option("--all", "everything", is_flag=True, help="All of them; for replay and discard.")
@click.option("--limit", type=click.IntRange(1), help="At most so many, the newest.  [default: list 100]")
@click.option(
    "--corrected",
    type=click.Path(exists=True, dir_okay=False),
    help='Replay the events of an NDJSON file: {"number": 17, "event": {...}} a line.',
)
@json_option
def dead_letters(
    place: str,
    action: str,
    numbers: tuple[int, ...],
    stream: str | None,
    reason: str | None,
    everything: bool,
    limit: int | None,
    corrected: str | None,
    as_json: bool,
) -> None:
    """List, replay or discard events that could not be applied, of a folder or a service.

    A FOLDER must not be being served. A service may want a token of the scope admin, in DYGCN_TOKEN.
    """
    asked = {"stream": stream, "reason": reason}
    chosen = bool(numbers) + (stream is not None or reason is not None) + everything + (corrected is not None)
    if action != "list" and chosen != 1:
        raise OptionError("say which: --number, --stream or --reason, --corrected, or --all")
    if action != "replay" and corrected is not None:
        raise OptionError("--corrected is for replay")
    events = None if corrected is None else read_corrected(corrected)
    with _opened(place) as box:
        if action == "list":
            few = 100 if limit is None and not numbers else limit
            _show(box.dead_letters(**asked, limit=few), numbers, as_json)
            return
        named = [*numbers]
        if events is None and not named:
            named = [one.number for one in box.dead_letters(**asked, limit=limit).dead_letters]
        done = box.replay(named, corrected=events) if action == "replay" else box.discard(named)
    counts = msgspec.to_builtins(done)
    del counts["sequence"]
    show(counts, as_json)


def _show(found: Any, numbers: tuple[int, ...], as_json: bool) -> None:
    letters = [one for one in found.dead_letters if not numbers or one.number in numbers]
    if as_json:
        print_json({"total": found.total, "dead_letters": letters})
        return
    rows = [(one.number, one.stream, one.reason[:_SHOWN], one.event[:_SHOWN]) for one in letters]
    show_table(("number", "stream", "reason", "event"), rows, False, None)
    if found.total > len(letters):
        click.echo(f"{len(letters)} of {found.total}", err=True)


def read_corrected(path: str) -> dict[int, Any]:
    """Read a file of corrected events, by the numbers of their dead letters."""
    found = {}
    for line, text in enumerate(Path(path).read_bytes().splitlines(), 1):
        if not text.strip():
            continue
        try:
            one = msgspec.json.decode(text, type=_Mended)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            allowed = '{"number": 17, "event": {...}}'
            raise OptionError(
                f"{path}, line {line} is no corrected event: {error}; allowed is {allowed}"
            ) from None
        found[one.number] = one.event
    if not found:
        raise OptionError(f"{path} has no corrected event in it")
    return found


class _Mended(msgspec.Struct, forbid_unknown_fields=True):
    number: int
    event: dict[str, Any]


@contextmanager
def _opened(place: str) -> Iterator[Any]:
    """Open a folder or connect to a service, importing only what that needs; both have the same methods."""
    if place.startswith(("http://", "https://")):
        from dygcn.client import Client  # noqa: PLC0415 - an extra

        with Client(place) as client:
            yield client
        return
    if "://" in place:
        raise OptionError(f"{place} is no address of a service; allowed is http:// or https://, or a folder")
    if not os.path.isdir(place):
        raise MissingFolder(f"{place} does not exist; check the name")
    if not is_durable(place):
        raise OptionError(f"{place} is not durable: it has no log, and so no dead letters")
    instead = "name the address of that service instead, such as http://127.0.0.1:8470"
    with open_unserved(place, instead) as live:
        yield _FolderLetters(live)


class _FolderLetters:
    def __init__(self, live: DurableEmbedding) -> None:
        self._live = live

    def dead_letters(self, *, limit: int | None, **asked: str | None) -> answers.DeadLetters:
        """Return dead letters, newest first."""
        log = self._live._log
        found = log.dead_letters(limit or MOST_DEAD_LETTERS, None, **asked)
        listed = [answers.ListedDeadLetter.of(*one) for one in found]
        return answers.DeadLetters(log.count_dead_letters(), listed)

    def replay(self, numbers: list[int], *, corrected: Mapping[int, Any] | None) -> answers.ReplayResult:
        """Apply dead letters again, oldest first, each in the transaction that deletes it."""
        live = self._live
        events = {one: msgspec.json.encode(event) for one, event in (corrected or {}).items()}
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
        """Delete dead letters."""
        log = self._live._log
        known = {number for number, _ in log.letters(numbers)}
        missing = sorted(set(numbers) - known)
        return answers.DiscardResult(self._live.sequence, log.discard(sorted(known)), missing)
