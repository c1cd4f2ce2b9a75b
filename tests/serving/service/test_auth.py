"""Authorizer: tokens by their hash, scopes, and the names by which a browser may call."""

import base64
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dygcn.serving.service import auth as module
from dygcn.serving.service.auth import OPEN, Authorizer, hashed, new_token
from dygcn.serving.service.settings import Http, Token

SECRETS = {name: new_token(name, [name]) for name in ("read", "write", "admin")}
BOTH, BOTH_TOKEN = new_token("both", ["read", "write"])
NOTHING, NOTHING_TOKEN = new_token("nothing", [])
GUARDED = Authorizer(Http(tokens=[token for _, token in SECRETS.values()] + [BOTH_TOKEN, NOTHING_TOKEN]))
HOST = "localhost:8470"


def basic(name, password):
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


@pytest.mark.parametrize(
    ("holder", "allowed"),
    [("read", {"read"}), ("write", {"write"}), ("admin", {"read", "write", "admin"})],
)
def test_a_token_opens_its_scope_and_admin_opens_all(holder, allowed):
    secret = SECRETS[holder][0]
    for scope in ("read", "write", "admin"):
        expected = 200 if scope in allowed else 403
        assert GUARDED.status(scope, f"Bearer {secret}", HOST) == expected
        assert GUARDED.status(scope, f"bearer  {secret} ", HOST) == expected
        assert GUARDED.status(scope, basic("anyone", secret), HOST) == expected
    assert GUARDED.status(OPEN, None, HOST) == 200


def test_several_scopes_and_none():
    assert [GUARDED.status(scope, f"Bearer {BOTH}", HOST) for scope in ("read", "write", "admin")] == [
        200,
        200,
        403,
    ]
    assert GUARDED.status("read", f"Bearer {NOTHING}", HOST) == 403


SECRET = SECRETS["admin"][0]


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer  ",
        "Bearer wrong",
        SECRET,
        f"Bearer{SECRET}",
        f"Bearer\t{SECRET}",
        f"Token {SECRET}",
        f"Bearer {SECRET}x",
        f"Bearer x{SECRET}",
        f"Bearer {SECRET[:-1]}",
        f"Bearer {SECRET.swapcase()}",
        f"Bearer {hashed(SECRET)}",  # whoever reads the settings has nothing
        f"Bearer {SECRET}, Bearer {SECRET}",
        "Basic",
        "Basic !!!",
        "Basic é",
        "Basic " + base64.b64encode(b"\xff\xfe:\xff").decode(),
        "Basic " + base64.b64encode(SECRET.encode()).decode(),
        basic(SECRET, ""),
        basic("", "wrong"),
        basic(SECRET, "wrong"),
        "Bearer \udcff",
        "Bearer \x00",
        "Digest username=admin",
    ],
    ids=count(),
)
def test_without_a_known_token_nothing_opens(header):
    for scope in ("read", "write", "admin"):
        assert GUARDED.status(scope, header, HOST) == 401


@given(st.text())
def test_no_text_opens_a_door(text):
    for header in (text, f"Bearer {text}", f"Basic {text}"):
        assert GUARDED.status("read", header, HOST) == 401


@given(st.binary())
def test_no_password_opens_a_door(text):
    assert GUARDED.status("read", "Basic " + base64.b64encode(text).decode(), HOST) == 401


def test_a_skipped_scope_would_be_noticed(monkeypatch):
    monkeypatch.setattr(GUARDED, "_tokens", [Token("read", hashed(SECRETS["read"][0]), ["admin"])])
    with pytest.raises(AssertionError):
        test_a_token_opens_its_scope_and_admin_opens_all("read", {"read"})


def test_a_comparison_that_says_yes_would_be_noticed(monkeypatch):
    monkeypatch.setattr(module.hmac, "compare_digest", lambda one, other: True)
    with pytest.raises(AssertionError):
        test_without_a_known_token_nothing_opens("Bearer wrong")


def test_every_token_is_compared(monkeypatch):
    compared = []
    real = module.hmac.compare_digest
    monkeypatch.setattr(
        module.hmac, "compare_digest", lambda one, other: compared.append(one) or real(one, other)
    )
    GUARDED.status("read", f"Bearer {SECRETS['read'][0]}", HOST)
    assert len(compared) == 5


def test_tokens_are_long_random_and_not_kept():
    made = {new_token("x", ["read"])[0] for _ in range(50)}
    assert len(made) == 50
    assert all(len(secret) >= 43 for secret in made)
    secret, token = new_token("x", ["read", "write"])
    assert secret not in repr(token)
    assert token.scopes == ["read", "write"]


# ---- names -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:8470", 200),
        ("LOCALHOST:1", 200),
        ("127.0.0.1:8470", 200),
        ("[::1]:8470", 200),
        ("[::1]", 200),
        ("vectors.example", 200),
        ("Vectors.Example:443", 200),
        (None, 421),
        ("", 421),
        ("evil.example", 421),
        ("evil.example:8470", 421),
        ("localhost.evil.example", 421),
        ("localhost:8470.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("evil.example:localhost", 421),
        ("localhost:", 421),
        (":8470", 421),
        ("localhost:80:80", 421),
        ("user@localhost", 421),
        ("8.8.8.8", 421),
    ],
)
def test_a_page_of_another_site_gets_nothing(host, status):
    doors = Authorizer(Http(names=["vectors.example"]))
    for scope in (OPEN, "read", "write", "admin"):
        assert doors.status(scope, None, host) == status


def test_where_tokens_are_needed_any_name_will_do():
    """A page of another site does not have the token."""
    assert GUARDED.status("read", f"Bearer {SECRET}", "evil.example") == 200
    assert GUARDED.status("read", None, "evil.example") == 401
