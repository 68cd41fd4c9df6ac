"""Keys and certificates for the control plane of a test session, signed by one certificate authority."""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HOSTS = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
LIFETIME = timedelta(days=30)


def write_certificates(folder: Path, *names: str) -> None:
    """Write ca.crt, and for each name a .key and a .crt that is valid for clients and local servers.

    Also write accounts.key and accounts.pub, which sign and verify service account tokens.
    """
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    authority = _make_certificate("authority", key, "authority", key)
    (folder / "ca.crt").write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    for name in names:
        certificate_key = _write_key(folder / f"{name}.key")
        certificate = _make_certificate(name, certificate_key, "authority", key)
        (folder / f"{name}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    public = _write_key(folder / "accounts.key").public_key()
    key_format = serialization.PublicFormat.SubjectPublicKeyInfo
    (folder / "accounts.pub").write_bytes(public.public_bytes(serialization.Encoding.PEM, key_format))


def _write_key(file: Path) -> ec.EllipticCurvePrivateKey:
    key = ec.generate_private_key(ec.SECP256R1())
    key_format = serialization.PrivateFormat.TraditionalOpenSSL
    file.touch(0o600)
    file.write_bytes(key.private_bytes(serialization.Encoding.PEM, key_format, serialization.NoEncryption()))
    return key


def _make_certificate(
    name: str, certificate_key: ec.EllipticCurvePrivateKey, issuer: str, key: ec.EllipticCurvePrivateKey
) -> x509.Certificate:
    now = datetime.now(UTC)
    addresses = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), *map(x509.DNSName, HOSTS)]
    is_authority = name == issuer
    builder = (
        x509.CertificateBuilder()
        .subject_name(_make_name(name))
        .issuer_name(_make_name(issuer))
        .public_key(certificate_key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(certificate_key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    if is_authority:
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        return builder.add_extension(usage, critical=True).sign(key, hashes.SHA256())
    return builder.add_extension(x509.SubjectAlternativeName(addresses), critical=False).sign(key, hashes.SHA256())


def _make_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"fairlead-test-{name}")])
