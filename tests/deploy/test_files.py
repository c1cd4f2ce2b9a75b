"""What operators begin with: settings that are read, and files that say the same as the code."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
import tomllib
from pathlib import Path

import pytest

from dygcn.errors import OptionError
from dygcn.serving.service.settings import parse_settings

DEPLOY = Path(__file__).parents[2] / "deploy"
SETTINGS = {"dygcn.toml": 1, "kubernetes/dygcn.toml": 1, "kuberay/dygcn.toml": 0}  # sources and sinks
CERTIFICATES = "/etc/certificates"  # where every pod of shards has them
GRACE = 40  # seconds: above the drain of 25 s


@pytest.mark.parametrize("name", SETTINGS)
def test_the_settings_are_read_once_a_token_is_there(name):
    text = (DEPLOY / name).read_text()
    with pytest.raises(OptionError, match="dygcn token"):
        parse_settings(text)  # nobody runs with a token that is public
    settings = parse_settings(text.replace("replace-me", "0" * 64))
    assert settings.http.port == 8470
    assert len(settings.sources) == len(settings.sinks) == SETTINGS[name]


def test_a_public_token_would_be_noticed():
    raw = tomllib.loads((DEPLOY / "dygcn.toml").read_text())["http"]["tokens"]
    raw += tomllib.loads((DEPLOY / "kuberay/dygcn.toml").read_text())["http"]["tokens"]
    assert not [one for one in raw if re.fullmatch("[0-9a-f]{64}", one["sha256"])]


def test_everything_waits_for_the_drain():
    assert f"TimeoutStopSec={GRACE}" in (DEPLOY / "systemd/dygcn.service").read_text()
    assert f"terminationGracePeriodSeconds: {GRACE}" in (DEPLOY / "kubernetes/statefulset.yaml").read_text()
    assert f"stop_grace_period: {GRACE}s" in (DEPLOY / "docker-compose.yml").read_text()
    shards = (DEPLOY / "kuberay/raycluster.yaml").read_text()
    assert shards.count(f"terminationGracePeriodSeconds: {GRACE}") == 2


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


def read_shards():
    """Return what is sent to Kubernetes for shards, by kind."""
    yaml = pytest.importorskip("yaml")
    done = ran("kubectl", "kustomize", str(DEPLOY / "kuberay"))
    assert done.returncode == 0, done.stderr
    found = {}
    for one in yaml.safe_load_all(done.stdout):
        found.setdefault(one["kind"], []).append(one)
    return found


def pods_of(cluster):
    groups = [cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]]
    return [group["template"]["spec"] for group in groups]


def test_every_shard_has_a_pod_and_one_pod_at_a_time_may_go():
    found = read_shards()
    (cluster,), (budget,) = found["RayCluster"], found["PodDisruptionBudget"]
    (group,) = cluster["spec"]["workerGroupSpecs"]
    shards = tomllib.loads((DEPLOY / "kuberay/dygcn.toml").read_text())["shards"]["count"]
    assert {group[name] for name in ("replicas", "minReplicas", "maxReplicas")} == {shards}
    assert budget["spec"]["minAvailable"] == shards  # of these and the head
    assert cluster["spec"]["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    assert group["rayStartParams"]["num-cpus"] == "1"


def test_settings_of_shards_name_the_files_of_the_secret():
    shards = tomllib.loads((DEPLOY / "kuberay/dygcn.toml").read_text())["shards"]
    files = {name: f"{CERTIFICATES}/{name}.pem" for name in ("certificate", "key")}
    assert {name: shards[name] for name in ("certificate", "key", "ca")} == files | {
        "ca": files["certificate"]
    }


def test_pods_of_shards_name_what_there_is():
    """Kustomize does not look into a RayCluster: a name that it changed would be found by nobody."""
    found = read_shards()
    made = {one["metadata"]["name"] for kind in ("ConfigMap", "Secret") for one in found[kind]}
    made.add(by_hand := "dygcn-certificates")
    assert f"create secret generic {by_hand}" in (DEPLOY / "../docs/how-to/deploy.md").read_text()
    claims = {one["metadata"]["name"] for one in found["PersistentVolumeClaim"]}
    for pod in pods_of(found["RayCluster"][0]):
        (container,) = pod["containers"]
        assert container["image"] == "dygcn:0.1.0-ray"
        assert {next(iter(one.values()))["name"] for one in container["envFrom"]} <= made
        assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}
        assert CERTIFICATES in {one["mountPath"] for one in container["volumeMounts"]}
        for volume in pod["volumes"]:
            if "persistentVolumeClaim" in volume:
                assert volume["persistentVolumeClaim"]["claimName"] in claims
            elif "emptyDir" not in volume:
                assert (volume.get("configMap") or {}).get(
                    "name", volume.get("secret", {}).get("secretName")
                ) in made


def test_pods_of_shards_are_confined():
    found = read_shards()
    for pod in pods_of(found["RayCluster"][0]):
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["runAsUser"] == 10001
        assert not pod["automountServiceAccountToken"]
        assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"]
        assert {"livenessProbe", "readinessProbe"} <= pod["containers"][0].keys()  # KubeRay's need wget
    assert found["RayCluster"][0]["spec"]["authOptions"] == {"mode": "token"}
    (environment,) = (one["data"] for one in found["ConfigMap"] if "RAY_USAGE_STATS_ENABLED" in one["data"])
    assert environment["RAY_USAGE_STATS_ENABLED"] == "0"
    inside, http = sorted(found["NetworkPolicy"], key=lambda one: one["metadata"]["name"], reverse=True)
    pods = {"matchLabels": {"ray.io/cluster": found["RayCluster"][0]["metadata"]["name"]}}
    assert inside["spec"]["podSelector"] == pods
    assert inside["spec"]["ingress"] == [{"from": [{"podSelector": pods}]}]
    assert [port["port"] for rule in http["spec"]["ingress"] for port in rule["ports"]] == [8470]


@pytest.mark.parametrize("first", ["ray", "front", "signal"])
def test_the_container_of_the_front_ends_with_either_process(tmp_path, first):
    """Programs of these names stand in for Ray and the front; both say when they begin and end."""
    said = tmp_path / "said"
    wait = "{ sleep 120 & wait; }"
    programs = {
        "ray": f'[ "$1" = health-check ] && exec test -e said; echo ray >> said; [ {first} = ray ] || {wait}',
        "dygcn": 'trap "echo drained >> said; exit 0" TERM; echo front $RAY_ADDRESS >> said; '
        f"[ {first} = front ] || {wait}",
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}:/usr/bin:/bin"
    environment = {"PATH": path, "KUBERAY_GEN_RAY_START_CMD": "ray start --head --block"}
    script = subprocess.Popen(
        ["/bin/bash", str(DEPLOY / "kuberay/front.sh")], cwd=tmp_path, env=environment, start_new_session=True
    )
    try:
        if first == "signal":
            wait_for(lambda: said.exists() and "front auto" in said.read_text())
            script.terminate()
        status = script.wait(60)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(script.pid, signal.SIGKILL)
    assert status == (0 if first == "signal" else 1)
    assert ("drained" in said.read_text()) == (first == "signal")


def wait_for(true):
    for _ in range(600):
        if true():
            return
        time.sleep(0.1)
    raise AssertionError("it never came")


def test_the_dockerfile_is_linted():
    done = ran("hadolint", str(DEPLOY / "Dockerfile"))
    assert done.returncode == 0, done.stdout
