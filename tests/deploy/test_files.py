"""What operators begin with: settings that are read, and files that say the same as the code."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from dygcn.errors import OptionError
from dygcn.serving.service.settings import parse_settings

DEPLOY = Path(__file__).parents[2] / "deploy"
SETTINGS = ["dygcn.toml", "kubernetes/dygcn.toml"]
GRACE = 40  # seconds: above the drain of 25 s


@pytest.mark.parametrize("name", SETTINGS)
def test_the_settings_are_read_once_a_token_is_there(name):
    text = (DEPLOY / name).read_text()
    with pytest.raises(OptionError, match="dygcn token"):
        parse_settings(text)  # nobody runs with a token that is public
    settings = parse_settings(text.replace("replace-me", "0" * 64))
    assert settings.http.port == 8470
    assert len(settings.sources) == len(settings.sinks) == 1


def test_a_public_token_would_be_noticed():
    raw = tomllib.loads((DEPLOY / "dygcn.toml").read_text())
    assert not [one for one in raw["http"]["tokens"] if re.fullmatch("[0-9a-f]{64}", one["sha256"])]


def test_everything_waits_for_the_drain():
    assert f"TimeoutStopSec={GRACE}" in (DEPLOY / "systemd/dygcn.service").read_text()
    assert f"terminationGracePeriodSeconds: {GRACE}" in (DEPLOY / "kubernetes/statefulset.yaml").read_text()
    assert f"stop_grace_period: {GRACE}s" in (DEPLOY / "docker-compose.yml").read_text()


def test_the_image_is_not_run_by_root():
    text = (DEPLOY / "Dockerfile").read_text()
    user = re.search(r"^USER (\d+):", text, re.MULTILINE)[1]
    assert user == re.search(r"^ARG ID=(\d+)", text, re.MULTILINE)[1] == "10001"
    assert f"runAsUser: {user}" in (DEPLOY / "kubernetes/statefulset.yaml").read_text()
    assert "STOPSIGNAL SIGTERM" in text
    assert "/livez" in text
    assert not re.search(
        r"^(ENTRYPOINT|CMD) [^\[]", text, re.MULTILINE
    )  # by a shell, which keeps signals to itself


def ran(*command):
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_unit_is_understood_and_hardened():
    unit = str(DEPLOY / "systemd/dygcn.service")
    done = ran("systemd-analyze", "verify", "--man=no", unit)
    complaints = [line for line in done.stderr.splitlines() if "is not executable" not in line]
    assert complaints == []
    done = ran("systemd-analyze", "security", "--offline=true", "--threshold=20", unit)
    assert done.returncode == 0, done.stdout


def test_the_manifests_can_be_put_together():
    done = ran("kubectl", "kustomize", str(DEPLOY / "kubernetes"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\nkind: ") == 6


def test_the_dockerfile_is_linted():
    done = ran("hadolint", str(DEPLOY / "Dockerfile"))
    assert done.returncode == 0, done.stdout
