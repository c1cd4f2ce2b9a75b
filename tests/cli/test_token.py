"""`dygcn token`: shown once, kept as a hash, and fit for the files that it says it is for."""

import json
import tomllib

import pytest
from click.testing import CliRunner

from dygcn.cli import main
from dygcn.cli.serving import _read_tokens
from dygcn.serving.service.auth import Authorizer, hashed
from dygcn.serving.service.settings import Http, Token, parse_settings


def token(*arguments, code=0):
    result = CliRunner().invoke(main, ["token", *arguments])
    assert result.exit_code == code, result.output
    return result


def test_for_machines():
    result = json.loads(token("dashboard", "--scope", "read", "--scope", "write", "--json").stdout)
    assert set(result) == {"token", "name", "sha256", "scopes"}
    assert result["sha256"] == hashed(result["token"])
    assert result["scopes"] == ["read", "write"]
    doors = Authorizer(Http(tokens=[Token(result["name"], result["sha256"], result["scopes"])]))
    header = f"Bearer {result['token']}"
    assert [doors.status(scope, header, None) for scope in ("read", "write", "admin")] == [200, 200, 403]


@pytest.mark.parametrize("name", ["dashboard", 'a "quoted" one', "back\\slash", "é 日本", "'''", "a]\\u0041"])
def test_for_people_it_can_be_pasted(name):
    shown = token(name)
    secret = shown.stderr.splitlines()[0].removeprefix("token (shown only now, for the client): ")
    pasted = shown.stdout
    [found] = tomllib.loads(pasted)["http"]["tokens"]
    assert found == {"name": name, "sha256": hashed(secret), "scopes": ["read"]}
    assert secret not in pasted
    settings = parse_settings('folder = "f"\n[http]\nport = 1\n' + pasted + token("another").stdout)
    assert [one.name for one in settings.http.tokens] == [name, "another"]


def test_a_file_of_tokens_takes_what_is_printed(tmp_path):
    file = tmp_path / "tokens.toml"
    file.write_text("".join(token(name, "--scope", "write").stdout for name in ("one", "other")))
    assert [one.name for one in _read_tokens(str(file))] == ["one", "other"]


def test_the_default_is_to_read():
    assert json.loads(token("x", "--json").stdout)["scopes"] == ["read"]


def test_every_token_is_another():
    assert len({json.loads(token("x", "--json").stdout)["token"] for _ in range(20)}) == 20


def test_what_is_refused():
    assert "root" in token("x", "--scope", "root", code=2).output
    assert "NAME" in token(code=2).output
    assert "printable" in token("a\nb", code=2).stderr
