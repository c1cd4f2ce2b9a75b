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
from dygcn.serving.observing.request_ids import current_request_id

Format = Literal["text", "json"]
Level = Literal["debug", "info", "warning", "error"]
LONGEST = 2_000  # characters of one value; a traceback may have more
_LONGEST_TRACEBACK = 20_000
_PLAIN = re.compile(r"[A-Za-z0-9_.,:;/@+*()\[\]{}<>#%&'!?~^|-]+")


class _Lines(logging.Formatter):
    """Makes the fields of a record: time, level, event, the event's fields, and the request id."""

    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields: dict[str, object] = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        more = getattr(record, "fields", None)
        if isinstance(more, Mapping):
            fields.update({name: value for name, value in more.items() if value is not None})
        else:
            fields["logger"] = record.name
        if request := current_request_id():
            fields["request_id"] = request
        if record.exc_info and record.exc_info[0] is not None:
            fields["traceback"] = self.formatException(record.exc_info)[-_LONGEST_TRACEBACK:]
        return self.line({name: _bounded(name, value) for name, value in fields.items()})

    def line(self, fields: dict[str, object]) -> str:
        raise NotImplementedError


class JsonLines(_Lines):
    r"""One JSON object a line, in ASCII.

    >>> record = logging.makeLogRecord({"msg": "source.lost", "levelname": "WARNING"})
    >>> record.fields = {"source": "list", "error": "gone\n2026 ERROR forged"}
    >>> print(JsonLines().format(record))
    {"time": "...Z", "level": "warning", "event": "source.lost", "source": "list",
     "error": "gone\n2026 ERROR forged"}
    """

    def line(self, fields: dict[str, object]) -> str:
        """Return the line of a record."""
        return escaped(fields)


class TextLines(_Lines):
    r"""Time, level and event, then name=value; a value with blanks or control characters is quoted.

    >>> record = logging.makeLogRecord({"msg": "source.lost", "levelname": "WARNING"})
    >>> record.fields = {"source": "list", "error": "gone\n2026 ERROR forged"}
    >>> print(TextLines().format(record))
    2...Z warning source.lost source=list error="gone\n2026 ERROR forged"
    """

    def line(self, fields: dict[str, object]) -> str:
        """Return the line of a record."""
        begin = [_shown(fields.pop(name)) for name in ("time", "level", "event")]
        return " ".join([*begin, *(f"{name}={_shown(value)}" for name, value in fields.items())])


def escaped(value: object) -> str:
    r"""Return a value as JSON in printable ASCII.

    >>> print(escaped("a\x1b[2J\x7f\u2028b"))
    "a\u001b[2J\u007f\u2028b"
    """
    return json.dumps(value, ensure_ascii=True, default=str).replace("\x7f", "\\u007f")


def _bounded(name: str, value: object) -> object:
    if isinstance(value, bool | int | float) or value is None:
        return value
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= LONGEST or name == "traceback" else f"{text[:LONGEST]}..."


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


_FORMATTERS: dict[str, type[_Lines]] = {"text": TextLines, "json": JsonLines}


def configure(form: str = "text", level: str = "info", stream: TextIO | None = None) -> logging.Handler:
    """Let every logger of the process write lines to standard error; return the handler.

    Loggers of this package write from `level` on, those of other libraries warnings and errors only. A second
    call replaces the handler of the first.
    """
    for name, value, allowed in (("format", form, get_args(Format)), ("level", level, get_args(Level))):
        if value not in allowed:
            raise OptionError(f"log.{name} is {value!r}; allowed is {', '.join(allowed)}")
    handler = _StandardError() if stream is None else logging.StreamHandler(stream)
    handler.setFormatter(_FORMATTERS[form]())
    handler.set_name("dygcn")
    root, ours = logging.getLogger(), logging.getLogger("dygcn")
    for old in [one for one in root.handlers if one.get_name() == "dygcn"]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    ours.setLevel(level.upper())
    return handler
