"""Commands of ours on a TLS listener: they speak to it by `--command-config`, else say why not."""

import json
from pathlib import Path

import pytest

from logstore.cli.main import main
from tests.broker.tls.conftest import secured_broker
from tests.certificates import Authority


def test_commands_speak_tls_by_their_file(
    authority: Authority, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "client.properties"
    own = authority.pair("alice").write(tmp_path / "alice.pem")
    trusted = authority.write(tmp_path / "ca.pem")
    file.write_text(
        f"security.protocol=SSL\nssl.truststore.location={trusted}\nssl.keystore.location={own}\n"
    )
    more = {"ssl.client.auth": "required", "ssl.truststore.location": str(trusted)}
    with secured_broker(authority, tmp_path, more) as running:
        running.create_topic("t")
        place = ["--bootstrap", f"127.0.0.1:{running.listener.port}"]
        secured = [*place, "--command-config", str(file), "--json"]
        assert main(["topics", "list", *secured]) == 0
        assert [one["name"] for one in json.loads(capsys.readouterr().out)] == ["t"]
        assert main(["groups", "list", *secured]) == 0
        assert main(["consume", "t", *secured]) == 0
        assert main(["topics", "list", *place]) != 0
        capsys.readouterr()
        file.write_text("security.protocol=SSL\n")
        assert main(["topics", "list", *secured]) != 0
        assert "CERTIFICATE_VERIFY_FAILED" in capsys.readouterr().err
