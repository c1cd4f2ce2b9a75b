"""Authorization: tokens and scopes, and the host names by which a browser may call."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Sequence

from dygcn.serving.service.settings import Http, Scope, Token, is_loopback

_REMEMBERED, _LONGEST = 1_000, 1_000  # pairs of headers, bytes of a pair: a client chooses them
OPEN = "open"  # the scope of /livez and /readyz


def new_token(name: str, scopes: Sequence[Scope]) -> tuple[str, Token]:
    """Return a token and what to put into the settings for it."""
    secret = secrets.token_urlsafe(32)
    return secret, Token(name, hashed(secret), list(scopes))


def hashed(secret: str) -> str:
    """Return the stored hash of a token; tokens are random, so plain SHA-256 is enough."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


class Authorizer:
    """Allows or refuses a request by its headers. Stores nothing about callers."""

    def __init__(self, http: Http) -> None:
        self._tokens = http.tokens
        self._names = {name.lower() for name in (*http.names, http.host, "localhost", "127.0.0.1", "[::1]")}
        self._check_names = is_loopback(http.host) and not http.tokens
        self._readers: set[tuple[bytes | None, bytes | None]] = set()  # headers that were found to be good

    def status(self, scope: str, authorization: str | None, host: str | None) -> int:
        """Return 200; 401: no valid token; 403: scope missing; 421: unknown host name."""
        if self._check_names:
            name = (host or "").lower()
            head, colon, port = name.rpartition(":")
            if (head if colon and port.isdigit() and not name.endswith("]") else name) not in self._names:
                return 421  # a page of another site that made its name point here
        if scope == OPEN or not self._tokens:
            return 200
        secret = _secret(authorization)
        if secret is None:
            return 401
        digest, found = hashed(secret), None
        for token in self._tokens:  # every one is compared, so that time tells nothing
            if hmac.compare_digest(token.sha256, digest):
                found = token
        if found is None:
            return 401
        return 200 if scope in found.scopes or "admin" in found.scopes else 403

    def allows_read(self, authorization: bytes | None, host: bytes | None) -> bool:
        """Return whether a request may read; headers that passed are cached, as hashing is slow."""
        if (authorization, host) in self._readers:
            return True
        texts = (one.decode("latin-1") if one is not None else None for one in (authorization, host))
        allowed = self.status("read", *texts) == 200
        if allowed and len(authorization or b"") + len(host or b"") <= _LONGEST:
            if len(self._readers) >= _REMEMBERED:
                self._readers.clear()
            self._readers.add((authorization, host))
        return allowed


def _secret(authorization: str | None) -> str | None:
    kind, _, rest = (authorization or "").partition(" ")
    if kind.lower() == "bearer":
        return rest.strip() or None
    if kind.lower() == "basic":
        try:
            return base64.b64decode(rest, validate=True).decode("utf-8").partition(":")[2] or None
        except (binascii.Error, ValueError):
            return None
    return None
