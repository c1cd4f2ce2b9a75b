"""Certificates for tests, as an authority of a user would sign them."""

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from dygcn.cluster.certificates import NAME, Certificates


class Authority:
    """Signs certificates, and leaves their files in a folder."""

    def __init__(self, folder):
        self.folder, self._key = folder, ec.generate_private_key(ec.SECP256R1())
        self.ca = self._sign("authority", self._key, authority=True)

    def files(self, name=NAME, days=1):
        """Return the files of one process."""
        key = ec.generate_private_key(ec.SECP256R1())
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        parts = {"certificate": self._sign(name, key, days), "key": private, "ca": self.ca}
        for part, body in parts.items():
            (self.folder / f"{name}-{part}.pem").write_bytes(body)
        return Certificates(*(str(self.folder / f"{name}-{part}.pem") for part in parts))

    def _sign(self, name, key, days=1, *, authority=False):
        today = datetime.now(UTC)
        subject, issuer = (
            x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, one)]) for one in (name, "authority")
        )
        made = (
            x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(today - timedelta(days=10))
            .not_valid_after(today + timedelta(days=days))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        return made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)
