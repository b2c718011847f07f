"""Certificates for tests: an authority, pairs that it signs, files as brokers take them."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

from logstore.ports.clock import SystemClock

PEM = serialization.Encoding.PEM
NOW = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)
PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def common_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


@dataclass(frozen=True)
class Pair:
    key: PrivateKey
    certificate: x509.Certificate

    @property
    def key_pem(self) -> str:
        form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        return self.key.private_bytes(PEM, form, plain).decode()

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(PEM).decode()

    @property
    def pem(self) -> str:
        return self.key_pem + self.certificate_pem

    def encrypted_pem(self, password: str) -> str:
        form = serialization.PrivateFormat.PKCS8
        secret = serialization.BestAvailableEncryption(password.encode())
        return self.key.private_bytes(PEM, form, secret).decode() + self.certificate_pem

    def pkcs12(self, password: str) -> bytes:
        secret = serialization.BestAvailableEncryption(password.encode())
        key, certificate = self.key, self.certificate
        return pkcs12.serialize_key_and_certificates(b"logstore", key, certificate, None, secret)

    def write(self, path: Path) -> Path:
        path.write_text(self.pem)
        return path


class Authority:
    def __init__(self, name: str = "authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = common_name(name)
        builder = _builder(self._name, self._name, self._key, NOW + timedelta(days=30))
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        self.certificate = builder.add_extension(constraints, critical=True).sign(
            self._key, hashes.SHA256()
        )

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(PEM).decode()

    def write(self, path: Path) -> Path:
        path.write_text(self.pem)
        return path

    def pair(
        self,
        subject: x509.Name | str = "broker",
        *,
        key: PrivateKey | None = None,
        ends: datetime = NOW + timedelta(days=7),
    ) -> Pair:
        """A pair for 127.0.0.1 and localhost, or for a client."""
        own = key or ec.generate_private_key(ec.SECP256R1())
        name = common_name(subject) if isinstance(subject, str) else subject
        names = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
        builder = _builder(name, self._name, own, ends)
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return Pair(own, builder.sign(self._key, hashes.SHA256()))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: PrivateKey, ends: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(NOW, ends) - timedelta(days=1))
        .not_valid_after(ends)
    )
