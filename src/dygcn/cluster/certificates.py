"""Certificates of a cluster: only a process that has one may connect to the others.

Each process shows its certificate to every other one and demands the other's (mutual TLS), so a stranger is
refused while the connection is made, before one byte of a message is received. There is no other secret.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from dygcn._extras import extra, late
from dygcn.engine._disk import replace_own
from dygcn.errors import OptionError

NAME = "dygcn-shards"  # for which every certificate of a cluster is made, whatever the address of a process
_MADE = "certificate.pem"
_x509: Any = late("cryptography.x509")
_ec: Any = late("cryptography.hazmat.primitives.asymmetric.ec")
_hashes: Any = late("cryptography.hazmat.primitives.hashes")
_forms: Any = late("cryptography.hazmat.primitives.serialization")
_ALWAYS = datetime(2000, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


class Certificates(NamedTuple):
    """Names of PEM files, which every process reads on its own machine; keys do not travel."""

    certificate: str
    key: str
    ca: str

    def read(self) -> Credentials:
        """Read the files; raise `OptionError` if one cannot be read."""
        try:
            return Credentials(*(Path(file).read_bytes() for file in self))
        except OSError as error:
            raise OptionError(
                f"{error.filename} cannot be read ({error.strerror}); processes of shards need certificate, "
                "key and ca, in PEM, under the same names on every machine"
            ) from None


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """Contents of certificate files. They have no repr, since any of them may hold a key."""

    certificate: bytes
    key: bytes
    ca: bytes


def given(files: Sequence[str | os.PathLike[str] | None]) -> Certificates | None:
    """Return the certificate, key and ca of the user: all three, or None if none is given."""
    named = [None if file is None else os.path.abspath(file) for file in files]
    if all(file is None for file in named):
        return None
    if None in named:
        raise OptionError("certificate, key and ca belong together: give all three, or none")
    return Certificates(*(str(file) for file in named))


def made_in(folder: Path) -> Certificates:
    """Return the certificate of a one-machine cluster; the first call makes it, with its key in one file."""
    file = folder / _MADE
    if not file.exists():
        replace_own(file, folder / f"{uuid.uuid4().hex}.part", _new())
    return Certificates(*[os.path.abspath(file)] * 3)


def _new() -> bytes:
    with extra("ray"):
        key = _ec.generate_private_key(_ec.SECP256R1())
    name = _x509.Name([_x509.NameAttribute(_x509.NameOID.COMMON_NAME, NAME)])
    certificate = (
        _x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(_x509.random_serial_number())
        .not_valid_before(_ALWAYS[0])
        .not_valid_after(_ALWAYS[1])
        .add_extension(_x509.SubjectAlternativeName([_x509.DNSName(NAME)]), critical=False)
        .add_extension(_x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, _hashes.SHA256())
    )
    private = key.private_bytes(_forms.Encoding.PEM, _forms.PrivateFormat.PKCS8, _forms.NoEncryption())
    return bytes(private + certificate.public_bytes(_forms.Encoding.PEM))
