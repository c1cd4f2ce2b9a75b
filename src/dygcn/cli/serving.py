"""The common part of `dygcn serve` and `dygcn run`: open, print the address, serve, drain."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import click
import msgspec

from dygcn.cli.printing import print_json
from dygcn.cluster.launching import launch
from dygcn.errors import MissingFolder, OptionError
from dygcn.live.durable.embedding import DurableEmbedding
from dygcn.live.durable.storage.layout import CLUSTER_FILE
from dygcn.serving.observing.logs import configure
from dygcn.serving.service.app import run_app
from dygcn.serving.service.server import bind, collect_hang_ups
from dygcn.serving.service.service import Service, open_in_one_process
from dygcn.serving.service.settings import Http, ServiceSettings, Shards, Token, check_settings, read_settings
from dygcn.serving.sources import (
    FileSettings,
    KafkaSourceSettings,
    NatsSourceSettings,
    RedisSourceSettings,
    SourceSettings,
)

_ALLOWED = (
    "redis://HOST:PORT/STREAM, nats://HOST:PORT/STREAM, kafka://HOST:PORT/TOPIC, "
    "or the path of an NDJSON file that grows"
)


class _Tokens(msgspec.Struct, forbid_unknown_fields=True):
    tokens: list[Token]


class _TokenFile(msgspec.Struct, forbid_unknown_fields=True):
    http: _Tokens


def source_from(text: str) -> SourceSettings:
    """Read a source from one word; further options need a settings file."""
    scheme, colon, rest = text.partition("://")
    if not colon:
        return FileSettings(path=text)
    place, _, name = rest.partition("/")
    if scheme in ("redis", "nats", "kafka") and place and name:
        if scheme == "redis":
            return RedisSourceSettings(url=f"redis://{place}", streams=[name])
        if scheme == "nats":
            return NatsSourceSettings(url=f"nats://{place}", stream=name)
        return KafkaSourceSettings(servers=place, topic=name)
    raise OptionError(f"{scheme + '://...'!r} is not a source; allowed is {_ALLOWED}")


def open_embedding(settings: ServiceSettings) -> DurableEmbedding:
    """Open the folder of a service as its settings say; a divided folder is opened as a cluster."""
    if settings.shards is None and not os.path.exists(Path(settings.folder) / CLUSTER_FILE):
        return open_in_one_process(settings)
    if settings.http.readers:
        raise OptionError("readers are for one process, and shards answer reads themselves; set readers to 0")
    how = msgspec.structs.asdict(settings.shards or Shards())
    kept = {name: getattr(settings, name) for name in ("snapshot_every", "keep_log")}
    return launch(settings.folder, how.pop("count"), **how, **kept)


def serve_folder(
    folder: str,
    as_json: bool,
    *,
    tokens: str | None,
    sources: Sequence[str],
    keep_log: str | None,
    shards: int | None,
    shards_on: Literal["ray", "here"],
    log_format: str | None,
    log_level: str | None,
    **http: Any,
) -> None:
    """Serve a folder with the settings of the command line; `http` has the fields of `Http`."""
    settings = ServiceSettings(
        folder=folder,
        http=Http(tokens=_read_tokens(tokens), **http),
        sources=[source_from(source) for source in sources],
        keep_log=keep_log,
        shards=None if shards is None and shards_on == "ray" else Shards(count=shards, on=shards_on),
    )
    _serve(_with_log(check_settings(settings), log_format, log_level), as_json, None)


def serve_file(config: str, as_json: bool, log_format: str | None, log_level: str | None) -> None:
    """Serve with the settings of a file, which SIGHUP reads again."""

    def read() -> ServiceSettings:
        return _with_log(read_settings(config), log_format, log_level)

    _serve(read(), as_json, read)


def _with_log(settings: ServiceSettings, form: str | None, level: str | None) -> ServiceSettings:
    log = settings.log
    log = msgspec.structs.replace(log, format=form or log.format, level=level or log.level)
    return msgspec.structs.replace(settings, log=log)


def _read_tokens(path: str | None) -> list[Token]:
    if path is None:
        return []
    try:
        raw = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        tokens = msgspec.convert(raw, _TokenFile).http.tokens
    except (OSError, ValueError, RecursionError, msgspec.ValidationError) as error:
        allowed = "allowed is [[http.tokens]], as `dygcn token` prints it"
        raise OptionError(f"{path} cannot be read as tokens: {error}; {allowed}") from None
    if not tokens:
        raise OptionError(f"{path} has no [[http.tokens]]; `dygcn token` makes one")
    return tokens


def _serve(settings: ServiceSettings, as_json: bool, reread: Callable[[], ServiceSettings] | None) -> None:
    configure(settings.log.format, settings.log.level)
    hang_ups = collect_hang_ups()
    with ExitStack() as listening:
        sockets = [listening.enter_context(one) for one in bind(settings.http)]
        service = _begun(settings)  # after binding, which may fail: replaying the log may take a while
        run_app(service, lambda address: _print_address(service, address, as_json), sockets, reread, hang_ups)
    if as_json:
        print_json({"stopped": True})
    else:
        click.echo("stopped; everything is on disk")


def _begun(settings: ServiceSettings) -> Service:
    try:
        return Service(settings, open_embedding)
    except MissingFolder:
        made = f"`dygcn fit EVENTS --out {settings.folder}`"
        raise MissingFolder(f"{settings.folder} does not exist; check the name, or make it: {made}") from None


def _print_address(service: Service, address: str, as_json: bool) -> None:
    status = service.report.status()
    started: dict[str, Any] = {
        "address": address,
        "folder": service.settings.folder,
        "sequence": status.sequence,
        "nodes": status.nodes,
        "edges": status.edges,
    }
    if as_json:
        print_json(started)
        return
    click.echo(f"{status.nodes} nodes, {status.edges} edges, sequence {status.sequence}")
    click.echo(f"page and API: {address}/   metrics: {address}/metrics   stop with Ctrl-C")
