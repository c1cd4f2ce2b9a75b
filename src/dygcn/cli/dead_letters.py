"""`dygcn dead-letters`: events that a service could not apply."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from dygcn.cli.printing import json_option, print_json, show, show_table
from dygcn.errors import OptionError

_SHOWN = 60  # characters of a reason and of an event, for people


@click.command("dead-letters")
@click.argument("url")
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
    url: str,
    action: str,
    numbers: tuple[int, ...],
    stream: str | None,
    reason: str | None,
    everything: bool,
    limit: int | None,
    corrected: str | None,
    as_json: bool,
) -> None:
    """List, replay or discard events that the service at URL could not apply.

    It may want a token of the scope admin, in DYGCN_TOKEN. To see those of a folder, serve it first.
    """
    from dygcn.client import Client  # noqa: PLC0415 - an extra, and --help needs none

    asked: dict[str, Any] = {"stream": stream, "reason": reason}
    chosen = bool(numbers) + (stream is not None or reason is not None) + everything + (corrected is not None)
    if action != "list" and chosen != 1:
        raise OptionError("say which: --number, --stream or --reason, --corrected, or --all")
    if action != "replay" and corrected is not None:
        raise OptionError("--corrected is for replay")
    events = None if corrected is None else read_corrected(corrected)
    with Client(url) as service:
        if action == "list":
            few = 100 if limit is None and not numbers else limit
            _show(service.dead_letters(**asked, limit=few), numbers, as_json)
            return
        named = [*numbers]
        if events is None and not named:
            named = [one.number for one in service.dead_letters(**asked, limit=limit).dead_letters]
        done = service.replay(named, corrected=events) if action == "replay" else service.discard(named)
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
