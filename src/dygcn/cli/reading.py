"""Events from standard input, or from a file whose name does not say its format."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from dygcn.errors import EventError

FORMATS = ("csv", "tsv", "ndjson", "parquet")
_LOOKED_AT = 1 << 16  # bytes

format_option: Callable[..., Any] = click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="Format of EVENTS.  [default: by the suffix; of standard input, by its first bytes]",
)


@contextmanager
def events_file(events: str, form: str | None) -> Iterator[str]:
    """Yield a path whose suffix says the format: the path itself, or that of a copy while the block runs.

    A copy, because every check of a file of events looks at it twice: at its shape first, then at its rows.
    """
    if events != "-" and form is None:
        yield events
        return
    with tempfile.TemporaryDirectory(prefix="dygcn-") as folder:
        with _opened(events) as source:
            begin = source.read(_LOOKED_AT)
            name = "stdin" if events == "-" else Path(events).stem
            path = Path(folder) / f"{name}.{form or format_of(begin)}"
            with path.open("wb") as copy:
                copy.write(begin)
                shutil.copyfileobj(source, copy)
        try:
            yield os.fspath(path)
        except EventError as error:  # the copy is none of the user's files
            named = "standard input" if events == "-" else repr(events)
            raise EventError(error.reason.replace(repr(str(path)), named), error.row) from None


def format_of(begin: bytes) -> str:
    r"""Return the format of a file by its first bytes.

    Examples
    --------
    >>> [format_of(begin) for begin in (b"src,dst\n1,2\n", b"src\tdst\n", b' {"src": 1}', b"PAR1\x15")]
    ['csv', 'tsv', 'ndjson', 'parquet']
    """
    if begin.startswith(b"PAR1"):
        return "parquet"
    if begin.lstrip().startswith(b"{"):
        return "ndjson"
    header = begin.partition(b"\n")[0]
    return "tsv" if header.count(b"\t") > header.count(b",") else "csv"


@contextmanager
def _opened(events: str) -> Iterator[Any]:
    if events == "-":
        yield sys.stdin.buffer
    else:
        with open(events, "rb") as file:
            yield file
