"""Commands of the service: `serve`, `run` and `token`."""

from __future__ import annotations

from typing import Any, cast

import click
import msgspec

from dygcn.cli.options import folder_argument, log_options
from dygcn.cli.printing import json_option, print_json
from dygcn.errors import OptionError
from dygcn.serving.service.auth import new_token
from dygcn.serving.service.settings import Scope


@click.command("serve")
@folder_argument
@click.option("--host", default="127.0.0.1", show_default=True, help="Any other address needs a token.")
@click.option("--port", default=8470, show_default=True, help="0: any free one.")
@click.option("--readers", default=0, show_default=True, help="Processes that listen and answer reads.")
@click.option("--tokens", type=click.Path(), help="A TOML file with [[http.tokens]]; see `dygcn token`.")
@click.option(
    "--source",
    "sources",
    multiple=True,
    help="redis://HOST:PORT/STREAM, nats://HOST:PORT/STREAM, kafka://HOST:PORT/TOPIC, or a file that grows.",
)
@click.option(
    "--keep-log",
    metavar="HOW-MUCH",
    help="Of the past, for as_of: a span (7d) or a size (2GB).  [default: what the folder says; 256MB]",
)
@click.option("--shards", type=int, help="Divide the graph among so many processes; see docs/scale.md.")
@click.option(
    "--shards-on",
    type=click.Choice(["ray", "here"]),
    default="ray",
    show_default=True,
    help="Where shards run: on a Ray cluster (RAY_ADDRESS, or a new one here), or in this process.",
)
@log_options
@json_option
def serve(folder: str, as_json: bool, **options: Any) -> None:
    """Serve the embedding in DIR over HTTP, durably, until it is stopped.

    Acknowledged events are on disk. SIGTERM applies the queued events, then ends the process.
    """
    from dygcn.cli.serving import serve_folder  # noqa: PLC0415 - needs the extra `serve`, and --help does not

    serve_folder(folder, as_json, **options)


@click.command("run")
@click.argument("config", metavar="CONFIG.toml", type=click.Path())
@log_options
@json_option
def run(config: str, as_json: bool, **log: str | None) -> None:
    """Run the sources, the embedding, the sinks and HTTP of CONFIG.toml until it is stopped."""
    from dygcn.cli.serving import serve_file  # noqa: PLC0415

    serve_file(config, as_json, **log)


@click.command("token")
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    default=("read",),
    show_default=True,
    type=click.Choice(["read", "write", "admin"]),
    help="May be given several times; admin may do everything.",
)
@json_option
def token(name: str, scopes: tuple[str, ...], as_json: bool) -> None:
    """Make a token for NAME. It is shown once; the settings keep only its hash.

    Standard output is what CONFIG.toml of `dygcn run` takes, or the file of `dygcn serve --tokens`, as in
    `dygcn token app >> CONFIG.toml`; the token itself goes to standard error.
    """
    if not name or not name.isprintable():
        raise OptionError(f"NAME is {name!r}; allowed are printable characters, at least one")
    secret, made = new_token(name, cast("tuple[Scope, ...]", scopes))
    if as_json:
        print_json({"token": secret, "name": name, "sha256": made.sha256, "scopes": made.scopes})
        return
    click.echo(f"token (shown only now, for the client): {secret}", err=True)
    click.echo("for CONFIG.toml, or the file of `dygcn serve --tokens`:", err=True)
    listed = ", ".join(f'"{scope}"' for scope in made.scopes)
    quoted = msgspec.json.encode(name).decode()  # JSON escapes quotes as TOML does
    click.echo(f'\n[[http.tokens]]\nname = {quoted}\nsha256 = "{made.sha256}"\nscopes = [{listed}]')
