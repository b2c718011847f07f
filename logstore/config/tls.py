"""Settings of TLS, by Kafka's names; a listener may have its own (`listener_settings.py`). Pure."""

from collections.abc import Mapping
from typing import Final

from logstore.config.kinds import Setting, SettingKind

PEM, PKCS12 = "PEM", "PKCS12"
NONE, REQUESTED, REQUIRED = "none", "requested", "required"
_NOT_SET = ""

KEYSTORE_TYPE: Final = "ssl.keystore.type"
KEYSTORE_LOCATION: Final = "ssl.keystore.location"
KEYSTORE_CHAIN: Final = "ssl.keystore.certificate.chain"
KEYSTORE_KEY: Final = "ssl.keystore.key"
KEYSTORE_PASSWORD: Final = "ssl.keystore.password"
KEY_PASSWORD: Final = "ssl.key.password"
TRUSTSTORE_TYPE: Final = "ssl.truststore.type"
TRUSTSTORE_LOCATION: Final = "ssl.truststore.location"
TRUSTSTORE_CERTIFICATES: Final = "ssl.truststore.certificates"
TRUSTSTORE_PASSWORD: Final = "ssl.truststore.password"
CLIENT_AUTH: Final = "ssl.client.auth"
PROTOCOLS: Final = "ssl.enabled.protocols"
NAME_CHECK: Final = "ssl.endpoint.identification.algorithm"
INTER_BROKER: Final = "inter.broker.listener.name"
MAPPING_RULES: Final = "ssl.principal.mapping.rules"

TLS_1_2, TLS_1_3 = "TLSv1.2", "TLSv1.3"
STORE_TYPES = (PEM, PKCS12)

_CONVERT = (
    "a Java key store is not read here; convert it: keytool -importkeystore -srckeystore FILE.jks "
    "-destkeystore FILE.p12 -deststoretype PKCS12, and set PKCS12"
)
REPLACED: Mapping[str, str] = {
    "principal.builder.class": "no classes are loaded here; "
    f"{MAPPING_RULES} makes names of the subjects of certificates"
}
"""Kafka's names that nothing here has, and what to do instead."""

TLS_SETTINGS = (
    Setting(
        name=INTER_BROKER,
        kind=SettingKind.STRING,
        default=_NOT_SET,
        documentation="Listener by which brokers reach each other, by TLS and with a login where "
        "it asks for them. Default: the first of --listen. All brokers have one of this name.",
    ),
    Setting(
        name=KEYSTORE_TYPE,
        kind=SettingKind.STRING,
        default=PEM,
        documentation="Form of the key and the certificates of a listener: PEM, or PKCS12, which "
        "needs the extra `security`.",
        one_of=STORE_TYPES,
        refused=(("JKS", _CONVERT),),
    ),
    Setting(
        name=KEYSTORE_LOCATION,
        kind=SettingKind.STRING,
        default=_NOT_SET,
        documentation="File with the private key and the certificates, the listener's own first; "
        "or a folder with tls.key and tls.crt, as Kubernetes mounts a Secret. It is looked at "
        "every 10 s: new connections take a new pair.",
    ),
    Setting(
        name=KEYSTORE_CHAIN,
        kind=SettingKind.STRING,
        default=_NOT_SET,
        documentation="The certificates themselves as PEM text, the listener's own first; in place "
        "of ssl.keystore.location, together with ssl.keystore.key.",
    ),
    Setting(
        name=KEYSTORE_KEY,
        kind=SettingKind.STRING,
        default=_NOT_SET,
        documentation="The private key itself as PEM text. A secret.",
    ),
    Setting(
        name=KEYSTORE_PASSWORD,
        kind=SettingKind.STRING,
        default=_NOT_SET,
        documentation="Password of a PKCS12 file. A secret.",
    ),
    Setting(
        name=KEY_PASSWORD,
        kind=SettingKind.STRING,
        default=_NOT_SET,
        documentation="Password of an encrypted private key. A secret.",
    ),
    Setting(
        name=TRUSTSTORE_TYPE,
        kind=SettingKind.STRING,
        default=PEM,
        documentation="Form of the certificates that are trusted: PEM, or PKCS12, which needs the "
        "extra `security`.",
        one_of=STORE_TYPES,
        refused=(("JKS", _CONVERT),),
    ),
    Setting(
        name=TRUSTSTORE_LOCATION,
        kind=SettingKind.STRING,
        default=_NOT_SET,
        documentation="File with the certificates of authorities whose certificates are trusted; "
        "or a folder with ca.crt. Looked at every 10 s, as ssl.keystore.location is.",
    ),
    Setting(
        name=TRUSTSTORE_CERTIFICATES,
        kind=SettingKind.STRING,
        default=_NOT_SET,
        documentation="These certificates themselves as PEM text.",
    ),
    Setting(
        name=TRUSTSTORE_PASSWORD,
        kind=SettingKind.STRING,
        default=_NOT_SET,
        documentation="Password of a PKCS12 file of trusted certificates. A secret.",
    ),
    Setting(
        name=CLIENT_AUTH,
        kind=SettingKind.STRING,
        default=NONE,
        documentation="Whether a client of a TLS listener shows a certificate: required; requested "
        "(one without stays User:ANONYMOUS); none. Its subject names its principal.",
        one_of=(NONE, REQUESTED, REQUIRED),
    ),
    Setting(
        name=MAPPING_RULES,
        kind=SettingKind.STRING,
        default=_NOT_SET,
        documentation="How the subject of a client's certificate becomes the name of its "
        "principal: RULE:pattern/replacement/[LU] and DEFAULT (the subject itself), with commas "
        "between; the first rule whose pattern is the whole subject counts. Default: DEFAULT.",
    ),
    Setting(
        name=NAME_CHECK,
        kind=SettingKind.STRING,
        default=_NOT_SET,
        documentation="https: this broker checks that the certificates of other brokers are for "
        "the addresses at which it reaches them. Default: only that they are trusted, since "
        "brokers may be known by addresses that no certificate has.",
        one_of=("", "https"),
    ),
    Setting(
        name=PROTOCOLS,
        kind=SettingKind.LIST,
        default=f"{TLS_1_2},{TLS_1_3}",
        documentation="Versions of TLS that are spoken.",
        one_of=(TLS_1_2, TLS_1_3),
    ),
)
