"""Log lines: one record, one line, as text or JSON, safe against forged lines.

Values may come from clients, brokers and files. Line breaks, escape sequences and other control characters
are written as escapes, so that no value can begin a line of its own or move the cursor of a terminal.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Mapping
from typing import Literal, TextIO, get_args

from dygcn.errors import OptionError
from dygcn.serving.observing.request_ids import REQUEST_ID

Format = Literal["text", "json"]
Level = Literal["debug", "info", "warning", "error"]
LONGEST = 2_000  # characters of one value; a traceback may have more
_LONGEST_TRACEBACK = 20_000
_PLAIN = re.compile(r"[A-Za-z0-9_.,:;/@+*()\[\]{}<>#%&'!?~^|-]+")


class Lines(logging.Formatter):
    """Writes time, level, event, the event's fields and the request id: JSON in ASCII, or text."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self._json = form == "json"

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        begin: dict[str, object] = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": _bounded(record.getMessage()),
        }
        fields: dict[str, object] = {}
        more = getattr(record, "fields", None)
        if isinstance(more, Mapping):
            fields.update({name: _bounded(value) for name, value in more.items() if value is not None})
        else:
            fields["logger"] = record.name
        if request := REQUEST_ID.get():
            fields["request_id"] = request
        if record.exc_info and record.exc_info[0] is not None:
            fields["traceback"] = self.formatException(record.exc_info)[-_LONGEST_TRACEBACK:]
        if self._json:
            return escaped(begin | fields)
        return " ".join(
            [*map(_shown, begin.values()), *(f"{name}={_shown(value)}" for name, value in fields.items())]
        )


def escaped(value: object) -> str:
    """Return a value as JSON in printable ASCII."""
    return json.dumps(value, ensure_ascii=True, default=str).replace("\x7f", "\\u007f")


def _bounded(value: object) -> object:
    if isinstance(value, int | float):
        return value
    text = str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    text = value if isinstance(value, str) else escaped(value)
    return text if _PLAIN.fullmatch(text) else escaped(text)


class _StandardError(logging.StreamHandler[TextIO]):
    """Writes to whatever standard error is at the moment of writing."""

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, _: TextIO) -> None:
        """Ignore another stream."""


def configure(form: str = "text", level: str = "info", stream: TextIO | None = None) -> logging.Handler:
    """Let every logger of the process write lines to standard error; return the handler.

    Loggers of this package write from `level` on, those of other libraries warnings and errors only. A second
    call replaces the handler of the first.
    """
    for name, value, allowed in (("format", form, get_args(Format)), ("level", level, get_args(Level))):
        if value not in allowed:
            raise OptionError(f"log.{name} is {value!r}; allowed is {', '.join(allowed)}")
    handler = _StandardError() if stream is None else logging.StreamHandler(stream)
    handler.setFormatter(Lines(form))
    handler.set_name("dygcn")
    root, ours = logging.getLogger(), logging.getLogger("dygcn")
    for old in [one for one in root.handlers if one.get_name() == "dygcn"]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    ours.setLevel(level.upper())
    return handler
