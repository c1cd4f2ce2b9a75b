"""Settings: what is wrong is named, what is unknown is refused, and no door is opened by mistake."""

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dygcn.errors import OptionError
from dygcn.serving.service import settings as module
from dygcn.serving.service.settings import (
    Http,
    Limits,
    ServiceSettings,
    Token,
    by_kind,
    check_settings,
    is_loopback,
    parse_settings,
    read_settings,
)

HASH = "0123456789abcdef" * 4
WHOLE = f"""
folder = "friends"
time_unit = "ms"
snapshot_every = 1000

[http]
host = "0.0.0.0"
port = 8080
names = ["vectors.example"]

[[http.tokens]]
name = "dashboard"
sha256 = "{HASH}"
scopes = ["read"]

[limits]
body_bytes = 1000
queued_events = 10
seconds_to_send = 2

[nearest]
exact_up_to = 5

[[sinks]]
kind = "parquet"
folder = "out"
"""


def test_everything_can_be_set():
    settings = parse_settings(WHOLE)
    assert settings.folder == "friends"
    assert settings.time_unit == "ms"
    assert settings.http.tokens == [Token("dashboard", HASH, ["read"])]
    assert (settings.limits.body_bytes, settings.limits.queued_events) == (1000, 10)
    assert settings.limits.cut_events == Limits().cut_events
    assert settings.nearest.exact_up_to == 5
    assert type(settings.sinks[0]).__name__ == "ParquetSettings"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('folder = "f"\nprot = 1', "prot"),
        ('folder = "f"\n[http]\nprot = 1', "prot"),
        ('folder = "f"\n[limits]\nbody = 1', "body"),
        ('folder = "f"\n[nearest]\nexact = 1', "exact"),
        ('folder = "f"\n[[http.tokens]]\nname = "a"\ntoken = "x"', "token"),
        ('folder = "f"\n[[sinks]]\nkind = "parquet"\nfolder = "o"\ncolour = 1', "colour"),
        ('folder = "f"\n[[sinks]]\nkind = "carrier-pigeon"', "carrier-pigeon"),
        ('folder = "f"\n[[sources]]\nkind = "carrier-pigeon"', "carrier-pigeon"),
        ("[http]\nport = 1", "folder"),
        ("folder = 7", "folder"),
        ('folder = "f"\n[http]\nport = "8080"', "port"),
        ('folder = "f"\ntime_unit = "h"', "time_unit"),
        ('folder = "f"\n[[http.tokens]]\nname="a"\nsha256="b"\nscopes=["root"]', "root"),
        ('folder = "f"\n[http]\nport = 70000', "http.port"),
        ('folder = "f"\n[http]\nport = -1', "http.port"),
        ('folder = "f"\nsnapshot_every = 0', "snapshot_every"),
        ('folder = "f"\n[nearest]\nexact_up_to = -1', "nearest.exact_up_to"),
        ('folder = "f"\n[nearest]\nmeasure_seconds = nan', "nearest.measure_seconds"),
        ('folder = "f"\n[limits]\nseconds_to_send = inf', "limits.seconds_to_send"),
        ('folder = "f"\n[limits]\nseconds_to_send = nan', "limits.seconds_to_send"),
        ("folder = ", "Invalid value"),
        ("\x00", "cannot be used"),
        ('folder = "f"\nx = ' + "[" * 5000, "cannot be used"),
        ('folder = "f"\nsnapshot_every = ' + "9" * 5000, "cannot be used"),
    ],
)
def test_what_is_wrong_is_named(text, named):
    with pytest.raises(OptionError, match=named):
        parse_settings(text)


@pytest.mark.parametrize("name", Limits.__struct_fields__)
def test_every_limit_is_above_zero(name):
    for value in (0, -1):
        with pytest.raises(OptionError, match=f"limits.{name} is {value}"):
            check_settings(ServiceSettings(folder="f", limits=Limits(**{name: value})))


@pytest.mark.parametrize("wrong", ["", "abc", HASH.upper(), HASH + "0", HASH[:-1] + "g"])
def test_a_token_is_kept_as_a_hash_and_nothing_else(wrong):
    with pytest.raises(OptionError, match="'boss': sha256 is not 64") as error:
        check_settings(ServiceSettings(folder="f", http=Http(tokens=[Token("boss", wrong, ["read"])])))
    assert wrong == "" or wrong not in str(error.value)  # it may be the token itself, put there by mistake


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("localhost", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("", False),
        ("::", False),
        ("10.0.0.1", False),
        ("vectors.example", False),
        ("127.0.0.1.example", False),
        ("127.evil.example", False),
        ("127...", False),
        ("127", False),
        ("localhost.example", False),
        (" 127.0.0.1", False),
        ("128.0.0.1", False),
    ],
)
def test_only_loopback_needs_no_token(host, loopback):
    assert is_loopback(host) is loopback
    open_to_all = ServiceSettings(folder="f", http=Http(host=host))
    guarded = ServiceSettings(folder="f", http=Http(host=host, tokens=[Token("a", HASH, ["read"])]))
    assert check_settings(guarded) is guarded
    if loopback:
        assert check_settings(open_to_all) is open_to_all
    else:
        with pytest.raises(OptionError, match="there is no token"):
            check_settings(open_to_all)


def test_a_check_of_the_address_that_is_skipped_would_be_noticed(monkeypatch):
    monkeypatch.setattr(module, "is_loopback", lambda host: True)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        test_only_loopback_needs_no_token("0.0.0.0", False)


def test_a_relative_folder_is_taken_from_where_the_file_is(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text('folder = "friends"')
    assert read_settings(str(file)).folder == str(tmp_path / "friends")
    file.write_text('folder = "/elsewhere/friends"')
    assert read_settings(str(file)).folder == "/elsewhere/friends"


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    for wrong in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(OptionError, match=str(wrong)):
            read_settings(str(wrong))
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(OptionError, match="cannot be read"):
        read_settings(str(binary))


def test_settings_survive_a_round_trip():
    settings = parse_settings(WHOLE)
    assert msgspec.convert(msgspec.to_builtins(settings), ServiceSettings, dec_hook=by_kind) == settings


_WORDS = st.sampled_from(
    [
        *("folder", "http", "limits", "port", "tokens", "sinks", "kind", '"f"', "=", "[", "]", "[[", "]]"),
        *("\n", "1", "-1", "nan", "inf", "{", "}", ",", "'''", "#", ".", "1979-05-27", "true", "é"),
    ]
)


@given(st.one_of(st.text(), st.lists(_WORDS).map(" ".join), st.lists(_WORDS).map("".join)))
def test_any_text_gives_settings_or_one_typed_error(text):
    with suppress(OptionError):
        assert isinstance(parse_settings(text), ServiceSettings)
