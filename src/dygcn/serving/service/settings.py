"""All settings, from a TOML file or the command line; unknown names are errors."""

from __future__ import annotations

import ipaddress
import logging
import socket
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec

from dygcn.errors import DygcnError, OptionError
from dygcn.live.durable.embedding import SNAPSHOT_EVERY
from dygcn.live.durable.snapshots import KeepLog
from dygcn.live.durable.source_batch import IDLE_SECONDS
from dygcn.serving.observing.events import note
from dygcn.serving.observing.logs import Format, Level
from dygcn.serving.observing.tracing import Otel
from dygcn.serving.sinks import SinkSettings, read_sink
from dygcn.serving.sources import SourceSettings, read_source

MOST_READERS = 64
_LOG = logging.getLogger(__name__)
Scope = Literal["read", "write", "admin"]
Jump = float | Literal["usual", "any"]
"""How far the graph's clock may jump: in units of t, by the rule of `usual_jump`, or as far as it likes."""


class Token(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The scopes of a token. The token itself is never kept, only its SHA-256 (`dygcn token` makes both)."""

    name: str
    sha256: str
    scopes: list[Scope]


class Limits(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Limits on concurrent load; beyond them requests are refused and may be retried."""

    body_bytes: int = 16 << 20  # of one request
    bodies_bytes: int = 64 << 20  # of all requests that are being read or answered
    queued_events: int = 100_000  # waiting to be applied
    queued_rows: int = 4_000_000  # that the waiting events are expected to touch
    cut_events: int = 2_000  # applied as one batch
    cut_rows: int = 200_000
    query_rows: int = 200_000  # of state that one query may look at, or one trial write
    ids: int = 10_000  # in one request
    k: int = 1_000  # nodes in one answer
    page_rows: int = 1_000  # of one answer of /v1/changes
    feeds: int = 64  # connections that wait for changes
    connections: int = 1_000  # in all
    connections_per_peer: int = 200  # from one address (IPv6: one /64 network) other than this machine
    seconds_to_send: float = 30.0  # for a client to send its request
    rejected_share: float = 0.2  # of the last 1,000 events; from it on there is an alarm
    client_idle_seconds: float = IDLE_SECONDS  # of silence, after which a client's place may go to another


class Http(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Addresses to listen on, and who may call. Loopback needs no tokens; any other address does."""

    host: str = "127.0.0.1"
    port: int = 8470
    names: list[str] = []  # host names by which browsers may come, besides localhost and the address
    tokens: list[Token] = []
    readers: int = 0  # processes that listen and answer reads; 0: the writer listens itself


class NearestSettings(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Settings of the search for neighbours."""

    exact_up_to: int = 20_000  # nodes; beyond it an index answers, if the extra `ann` is installed
    measure_seconds: float = 30.0  # between two measurements of its recall


class Shards(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Several processes for one graph; see docs/scale.md before you need it."""

    count: int | None = None  # of shards; None: as many as the folder has, or 2
    on: Literal["ray", "here"] = "ray"  # a process for each, on a Ray cluster, or all in this one
    snapshots: str | None = None  # where shards keep theirs, for all machines; None: inside the folder
    certificate: str | None = None  # files that every machine has; None: made here, for one machine
    key: str | None = None
    ca: str | None = None


class LogSettings(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Format and level of log lines, which go to standard error."""

    format: Format = "text"
    level: Level = "info"


class ServiceSettings(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    r"""One process: sources in, vectors out, HTTP beside."""

    folder: str
    http: Http = Http()
    limits: Limits = Limits()
    nearest: NearestSettings = NearestSettings()
    log: LogSettings = LogSettings()
    otel: Otel = Otel()
    time_unit: Literal["s", "ms", "us", "ns"] | None = None  # of t: then events far ahead are refused
    clock_jump: Jump = "usual"  # how far the graph's clock may jump: in units of t, "usual" or "any"
    snapshot_every: int = SNAPSHOT_EVERY  # events
    drain_seconds: float = 25.0  # from SIGTERM to the end of the process
    keep_log: str | None = None  # of the past: a span ("7d") or a size ("2GB"); None: what the folder says
    track_surprise: bool = False  # measure how surprising each event is, for /v1/changes and /metrics
    shards: Shards | None = None  # None: one process, unless the folder is divided
    sources: list[SourceSettings] = []
    sinks: list[SinkSettings] = []


def parse_settings(text: str) -> ServiceSettings:
    """Read settings from TOML."""
    try:
        settings = msgspec.convert(tomllib.loads(text), ServiceSettings, dec_hook=by_kind)
    except (ValueError, RecursionError, msgspec.ValidationError) as error:  # tomllib raises the first two
        raise OptionError(f"the settings cannot be used: {error}") from None
    return check_settings(settings)


def by_kind(contract: type[Any], raw: Any) -> Any:
    """Read one table of a source or sink; its kind may come from another distribution."""
    return {SourceSettings: read_source, SinkSettings: read_sink}[contract](raw)


def read_settings(path: str) -> ServiceSettings:
    """Read a TOML file; relative folders are relative to the file's folder."""
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{path} cannot be read: {error}") from None
    settings = parse_settings(text)
    return msgspec.structs.replace(settings, folder=str(file.parent / settings.folder))


def check_settings(settings: ServiceSettings) -> ServiceSettings:
    """Refuse settings that contradict each other, or open the service without tokens."""
    endless, http, nearest = float("inf"), settings.http, settings.nearest
    jump = settings.clock_jump
    checks: list[tuple[str, Any, bool, str]] = [
        *((f"limits.{name}", one, 0 < one < endless, "above 0") for name, one in _fields(settings.limits)),
        ("http.port", http.port, 0 <= http.port < 1 << 16, "0 (any free one) to 65535"),
        ("http.readers", http.readers, 0 <= http.readers <= MOST_READERS, f"0 to {MOST_READERS}"),
        ("nearest.exact_up_to", nearest.exact_up_to, nearest.exact_up_to >= 0, "0 or more"),
        ("nearest.measure_seconds", nearest.measure_seconds, nearest.measure_seconds > 0, "above 0"),
        ("clock_jump", jump, not isinstance(jump, float) or jump > 0, 'above 0, "usual" or "any"'),
        ("snapshot_every", settings.snapshot_every, settings.snapshot_every >= 1, "1 or more"),
        ("drain_seconds", settings.drain_seconds, 0 < settings.drain_seconds < endless, "above 0"),
    ]
    for name, value, good, allowed in checks:
        if not good:
            raise OptionError(f"{name} is {value}; allowed is {allowed}")
    if http.readers and not hasattr(socket, "SO_REUSEPORT"):
        raise OptionError("http.readers needs SO_REUSEPORT and Unix sockets, which this system does not have")
    if settings.track_surprise and settings.shards is not None:
        raise OptionError(
            "track_surprise is true, and shards keep no history of events; allowed is one process: leave out "
            "[shards], or set track_surprise = false"
        )
    if settings.keep_log is not None:
        KeepLog.read(settings.keep_log)
    for token in settings.http.tokens:
        if len(token.sha256) != 64 or not set(token.sha256) <= set("0123456789abcdef"):
            raise OptionError(
                f"token {token.name!r}: sha256 is not 64 lower-case hexadecimal digits; "
                "`dygcn token` makes one"
            )
    if not settings.http.tokens and not is_loopback(settings.http.host):
        raise OptionError(
            f"http.host is {settings.http.host!r}, which others can reach, and there is no token; "
            "listen on 127.0.0.1, or add a token (`dygcn token` makes one)"
        )
    return settings


def _fields(settings: msgspec.Struct) -> list[tuple[str, Any]]:
    return [(name, getattr(settings, name)) for name in settings.__struct_fields__]


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class CurrentSettings:
    """The limits, tokens and host names in force.

    Everything else of the settings is read once, at the start.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self._begun_with, self.limits, self.http = settings, settings.limits, settings.http
        self._watchers: list[Callable[[], None]] = []

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call a function now and after every change."""
        self._watchers.append(watcher)
        watcher()

    def replace(self, settings: ServiceSettings) -> None:
        """Replace limits, tokens and host names; other settings stay, as the address to listen on."""
        tokens, names = settings.http.tokens, settings.http.names
        self.http = msgspec.structs.replace(self.http, tokens=tokens, names=names)
        self.limits = settings.limits
        for watcher in self._watchers:
            watcher()

    def reload(self, read: Callable[[], ServiceSettings] | None) -> bool:
        """Read the settings again; return whether they were accepted. Bad settings change nothing."""
        if read is None:
            _LOG.warning("SIGHUP: there is no settings file to read again; `dygcn run FILE` has one")
            return False
        try:
            settings = read()
        except DygcnError as error:
            note("settings.refused", error=str(error))
            return False
        before = self.http, self.limits
        self.replace(settings)
        now = self.http, self.limits
        changed = [name for name, a, b in zip(("http", "limits"), before, now, strict=True) if a != b]
        note("settings.reloaded", changed=" ".join(changed) or "nothing")  # names, never values
        pairs = (("", self._begun_with, settings), ("http.", self.http, settings.http))
        later = [
            f"{prefix}{name}"
            for prefix, ours, theirs in pairs
            for name in ours.__struct_fields__
            if name not in ("http", "limits") and getattr(ours, name) != getattr(theirs, name)
        ]
        if later:
            _LOG.warning("SIGHUP: a restart is needed for changes of: %s", ", ".join(later))
        return True
