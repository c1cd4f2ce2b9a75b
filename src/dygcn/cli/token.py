"""`dygcn token`: a new token for the service."""

from __future__ import annotations

from typing import cast

import click
import msgspec

from dygcn.cli.printing import json_option, print_json
from dygcn.errors import OptionError
from dygcn.serving.service.auth import new_token
from dygcn.serving.service.settings import Scope


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
def command(name: str, scopes: tuple[str, ...], as_json: bool) -> None:
    """Make a token for NAME. It is shown once; the settings keep only its hash.

    Standard output is what CONFIG.toml of `dygcn run` takes, or the file of `dygcn serve --tokens`, as in
    `dygcn token app >> CONFIG.toml`; the token itself goes to standard error.
    """
    if not name.isprintable():
        raise OptionError(f"NAME is {name!r}; allowed are printable characters")
    secret, token = new_token(name, cast("tuple[Scope, ...]", scopes))
    if as_json:
        print_json({"token": secret, "name": name, "sha256": token.sha256, "scopes": token.scopes})
        return
    click.echo(f"token (shown only now, for the client): {secret}", err=True)
    click.echo("for CONFIG.toml, or the file of `dygcn serve --tokens`:", err=True)
    listed = ", ".join(f'"{scope}"' for scope in token.scopes)
    quoted = msgspec.json.encode(name).decode()  # JSON escapes quotes as TOML does
    click.echo(f'\n[[http.tokens]]\nname = {quoted}\nsha256 = "{token.sha256}"\nscopes = [{listed}]')
