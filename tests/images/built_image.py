"""The very Dockerfile, built without an engine and run: `make image`, not part of `make test`.

buildah builds in a chroot, on a Debian that debootstrap makes once; processes run in the root
of the image, mounted read-only, as its user, on the network of this machine.
"""

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email import message_from_string
from pathlib import Path

import pytest

from logstore.ports.clock import SystemClock
from logstore.version import VERSION
from tests.children import child_of
from tests.images.sbom import SBOM, listed, locked
from tests.images.test_dockerfile import EXTRAS
from tests.scenarios.harness.process import ROOT
from tests.servers.child import cache_folder, free_port, install_once

SUITE = "bookworm"
CLOCK = SystemClock()
BUILD_S, READY_S, CALL_S = 3600.0, 120.0, 120.0
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
"""Of this machine: its package index may be behind an authority of its own."""
RUN_AS = r"""
mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" &&
mount -t tmpfs -o mode=1777 none "$0/tmp" && mount --bind "$1" "$0/state" &&
mount -t proc none "$0/proc" && mount --rbind /dev "$0/dev" && cd / &&
user=$2 && root=$0 && shift 2 && exec chroot --userspec="$user" "$root" "$@"
"""


def can_build() -> bool:
    return os.geteuid() == 0 and all(map(shutil.which, ("buildah", "debootstrap")))


@dataclass(frozen=True, slots=True)
class Image:
    root: Path
    environment: list[str]
    user: str
    served: list[str]
    health: list[str]
    size_bytes: int

    def command(self, state: Path, words: list[str], *more: str) -> list[str]:
        """The command line that runs `words` in the image, with `more` in the environment."""
        run = ["unshare", "--mount", "sh", "-c", RUN_AS, str(self.root), str(state), self.user]
        return [*run, "env", "-i", *self.environment, *more, *words]


def buildah(*arguments: str, timeout_s: float = CALL_S) -> str:
    store = cache_folder("image-store")
    command = ["buildah", "--storage-driver", "vfs", "--root", str(store / "root")]
    command += ["--runroot", str(store / "run"), *arguments]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout.strip()


def base() -> str:
    """Name of the base image: made once, kept outside the checkout."""
    name = f"localhost/debian-{SUITE}"

    def make() -> None:
        root = cache_folder("image-base") / "root"
        subprocess.run(
            ["debootstrap", "--variant=minbase", SUITE, str(root)],
            check=True, timeout=BUILD_S, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        given = root / "usr/local/share/ca-certificates/machine.crt"
        if CERTIFICATES.exists():
            given.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(CERTIFICATES, given)
        container = buildah("from", "scratch")
        buildah("add", "--quiet", container, str(root), "/", timeout_s=BUILD_S)
        buildah("config", "--env", f"PIP_CERT={CERTIFICATES}", container)
        buildah("commit", "--quiet", "--rm", container, name, timeout_s=BUILD_S)
        shutil.rmtree(root)

    install_once(cache_folder("image-base"), make)
    return name


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    if not can_build():
        pytest.skip("an image needs root, and Debian's buildah and debootstrap")
    buildah(
        "bud", "--isolation", "chroot", "--format", "docker", "--pull-never",
        "--build-arg", f"BASE={base()}", "--target", "broker", "--tag", "logstore", ".",
        timeout_s=BUILD_S,
    )  # fmt: skip
    config = json.loads(buildah("inspect", "--type", "image", "logstore"))["Docker"]
    container = buildah("from", "--pull-never", "localhost/logstore", timeout_s=BUILD_S)
    try:
        root = Path(buildah("mount", container))
        made = config["config"]
        yield Image(
            root=root,
            environment=made["Env"],
            user=made["User"],
            served=made["Cmd"],
            health=made["Healthcheck"]["Test"][1:],
            size_bytes=sum(
                path.lstat().st_size for path in root.rglob("*") if not path.is_symlink()
            ),
        )
    finally:
        buildah("rm", container)


@dataclass(slots=True)
class Host:
    """Folders and ports of one broker on this machine."""

    image: Image
    state: Path
    log: str
    port: int
    http: int

    def variables(self) -> list[str]:
        listen, http = f"127.0.0.1:{self.port}", f"127.0.0.1:{self.http}"
        return [f"LOGSTORE_URL={self.log}", f"LOGSTORE_LISTEN={listen}", f"LOGSTORE_HTTP={http}"]

    def run(self, *words: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        command = self.image.command(self.state, list(words), *self.variables())
        return subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=CALL_S, check=False
        )

    def said(self, *words: str, stdin: str = "") -> str:
        """What a command of logstore printed; it must succeed."""
        done = self.run("logstore", *words, stdin=stdin)
        assert done.returncode == 0, f"{words} ended with {done.returncode}: {done.stderr[-3000:]}"
        return done.stdout

    @contextmanager
    def broker(self) -> Iterator["subprocess.Popen[bytes]"]:
        """The image's own command, once its own health check says that it is healthy and ready."""
        command = self.image.command(self.state, self.image.served, *self.variables())
        with child_of(command, stdin=subprocess.DEVNULL) as process:
            give_up_s = CLOCK.monotonic_s() + READY_S
            while self.run(*self.image.health, "--ready").returncode:
                assert process.poll() is None
                assert CLOCK.monotonic_s() < give_up_s
            assert self.run(*self.image.health).stdout == "logstore: healthy\n"
            yield process


@pytest.fixture
def host(image: Image, tmp_path: Path) -> Host:
    state = tmp_path / "state"
    state.mkdir()
    uid, _, gid = image.user.partition(":")
    os.chown(state, int(uid), int(gid))
    return Host(image, state, "/state/log", free_port(), free_port())


def test_it_produces_consumes_compacts_and_outlives_a_kill(
    host: Host, tell: Callable[[str], None]
) -> None:
    orders = ("orders", "--bootstrap", f"127.0.0.1:{host.port}")
    began_s = CLOCK.monotonic_s()
    with host.broker() as broker:
        ready_s = CLOCK.monotonic_s() - began_s
        tell(f"image of {host.image.size_bytes / 1e6:.0f} MB, ready after {ready_s:.1f} s")
        host.said("topics", "create", *orders)
        host.said("produce", *orders, stdin="a\nb\n")
        assert host.said("consume", *orders).split() == ["a", "b"]
        assert "2 records of 1 topic" in host.said("compact", "--now")
        broker.send_signal(signal.SIGKILL)
        broker.wait()
    assert host.run(*host.image.health).returncode == 1
    with host.broker() as broker:
        host.said("produce", *orders, stdin="c\n")
        assert host.said("consume", *orders).split() == ["a", "b", "c"]
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(CALL_S) == 0


def test_without_a_url_it_ends_with_one_line(image: Image, tmp_path: Path) -> None:
    command = image.command(tmp_path, image.served)
    done = subprocess.run(command, capture_output=True, text=True, timeout=CALL_S, check=False)

    assert done.returncode == 2
    assert "no log is named: give --url, LOGSTORE_URL in the environment" in done.stderr
    assert done.stderr.count("\n") == 1


def test_it_is_slim_has_the_native_codec_and_writes_nowhere(host: Host, image: Image) -> None:
    native = "from logstore.records.native import codec; import sys; sys.exit(codec is None)"

    assert host.run("python", "-c", native).returncode == 0
    assert host.run("python", "-c", "import pyspark").returncode == 1
    assert host.run("sh", "-c", "id -u; touch /x /usr/x 2>/dev/null").stdout == "10001\n"
    assert host.run("sh", "-c", "touch /state/x /tmp/x").returncode == 0
    assert image.size_bytes < 700e6, image.size_bytes


def test_it_lists_its_packages_and_has_them(image: Image) -> None:
    shown = listed((image.root / SBOM).read_text())
    found = image.root.glob("opt/logstore/lib/python3*/site-packages/*.dist-info/METADATA")
    metadata = [message_from_string(path.read_text()) for path in found]
    installed = {re.sub(r"[-_.]+", "-", one["Name"]).lower(): one["Version"] for one in metadata}

    assert shown == locked(EXTRAS["broker"])
    assert installed.pop("pyspark-logstore") == VERSION
    assert installed.items() <= {name: version for name, (version, _) in shown.items()}.items()
