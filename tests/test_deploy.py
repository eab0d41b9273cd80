"""What the files of deploy/ promise: no root, no floating tags, no secret, the right probes, enough time to stop."""

import json
import re
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from toolyard.cli import parse_arguments
from toolyard.observability.metrics import Load, Metrics
from toolyard.server.config import load

DEPLOY = Path(__file__).parent.parent / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
SHUTDOWN_S = 5
"""Time for the last bytes of responses, for closing the store, and for the operating system."""
Yaml = Any


def load_yaml(name: str) -> Yaml:
    return yaml.safe_load((DEPLOY / name).read_text("utf-8"))


def find_values(tree: Yaml, key: str) -> list[Yaml]:
    """Return every value of the key, however deep."""
    if isinstance(tree, list):
        return [value for child in cast(list[Yaml], tree) for value in find_values(child, key)]
    if not isinstance(tree, dict):
        return []
    branches = cast(dict[str, Yaml], tree)
    direct = [branches[key]] if key in branches else []
    return direct + [value for child in branches.values() for value in find_values(child, key)]


def read_stages() -> list[list[tuple[str, str]]]:
    """Return the instructions of each stage of the Dockerfile, with their arguments."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text("utf-8"), flags=re.MULTILINE)
    lines = [line.split(maxsplit=1) for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    stages: list[list[tuple[str, str]]] = []
    for instruction, arguments in lines:
        if instruction == "FROM":
            stages.append([])
        stages[-1].append((instruction, arguments))
    return stages


def get_seconds(settings: dict[str, str]) -> float:
    """Return how long a replica with these variables may take to stop. Also checks that they are settings."""
    secrets = {"PGPASSWORD", "TOOLYARD_SECRET"}
    config = load(None, {name: value for name, value in settings.items() if name not in secrets}, {})
    assert config.drain_s is not None
    return config.drain_s + config.grace_s + SHUTDOWN_S


def test_the_image_is_built_in_a_stage_of_its_own_and_does_not_run_as_root() -> None:
    build, final = read_stages()
    assert any("build --wheel" in arguments for _, arguments in build)
    assert ("COPY", "--from=build /app /app") in final
    assert not any("pip" in arguments for _, arguments in final)
    user = next(arguments for instruction, arguments in final if instruction == "USER")
    assert int(user.partition(":")[0]) > 0
    names = [instruction for instruction, _ in final]
    assert names.index("USER") > max(index for index, name in enumerate(names) if name in ("RUN", "COPY"))
    assert "/healthz" in dict(final)["HEALTHCHECK"]
    assert dict(final)["STOPSIGNAL"] == "SIGTERM"


def test_the_image_gets_what_the_wheel_is_built_from() -> None:
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
    assert ignored[0] == "*"
    copied = [arguments for instruction, arguments in read_stages()[0] if instruction == "COPY"]
    for source in [word for arguments in copied for word in arguments.split()[:-1]]:
        assert (DEPLOY.parent / source).exists(), source
        assert f"!{source}" in ignored, source


def test_no_image_has_a_floating_tag() -> None:
    images = [arguments.split()[0] for stage in read_stages() for name, arguments in stage if name == "FROM"]
    for file in ("compose.yaml", "kubernetes/deployment.yaml"):
        images += find_values(load_yaml(file), "image")
    assert len(images) >= 7
    assert [image for image in images if not re.search(r":\d+\.\d+\.?\d*[\w.-]*$", image)] == []


def test_compose_gives_each_replica_the_time_to_stop_and_no_more_rights_than_it_needs() -> None:
    services = load_yaml("compose.yaml")["services"]
    replicas = [service for name, service in services.items() if name.startswith("replica")]
    assert len(replicas) == 3
    for replica in replicas:
        assert float(replica["stop_grace_period"].removesuffix("s")) >= get_seconds(replica["environment"])
        assert replica["cap_drop"] == ["ALL"] and replica["read_only"]
    upstreams = (DEPLOY / "Caddyfile").read_text("utf-8")
    assert all(f"{name}:8080" in upstreams for name in services if name.startswith("replica"))
    assert "health_uri /readyz" in upstreams and "flush_interval -1" in upstreams


def read_comments(name: str) -> str:
    lines = (DEPLOY / name).read_text("utf-8").splitlines()
    return " ".join(line.removeprefix("#").strip() for line in lines if line.startswith("#"))


@pytest.mark.parametrize(
    ("file", "pattern"),
    [
        ("compose.yaml", r"run --rm replica-1 (migrate|keys add [\w -]*admin)"),
        ("kubernetes/kustomization.yaml", r"toolyard (migrate|keys add [\w -]*admin)"),
    ],
)
def test_the_first_key_is_added_with_commands_that_exist_after_the_migration(file: str, pattern: str) -> None:
    migrate, add = [parse_arguments(words.split()) for words in re.findall(pattern, read_comments(file))]
    assert migrate.run.__module__.endswith(".migrate") and not migrate.check
    assert add.roles == ["admin"]


def test_the_pod_that_adds_the_first_key_is_a_valid_one() -> None:
    overrides = re.search(r"--overrides='(.*?)'", read_comments("kubernetes/kustomization.yaml"))
    assert overrides is not None
    (container,) = json.loads(overrides[1])["spec"]["containers"]
    (deployed,) = load_yaml("kubernetes/deployment.yaml")["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["envFrom"]) == (deployed["image"], deployed["envFrom"])


def test_kubernetes_gives_each_pod_the_time_to_stop() -> None:
    settings = load_yaml("kubernetes/configmap.yaml")["data"]
    pod = load_yaml("kubernetes/deployment.yaml")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    command, sleep_s = container["lifecycle"]["preStop"]["exec"]["command"]
    assert command == "sleep"
    assert pod["terminationGracePeriodSeconds"] >= float(sleep_s) + get_seconds(settings)


def test_kubernetes_sends_requests_to_ready_pods_and_restarts_only_those_that_do_not_answer() -> None:
    deployment = load_yaml("kubernetes/deployment.yaml")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert pod["securityContext"]["runAsNonRoot"] and container["securityContext"]["readOnlyRootFilesystem"]
    assert load_yaml("kubernetes/poddisruptionbudget.yaml")["spec"]["maxUnavailable"] == 1


def test_kubernetes_scales_by_a_metric_that_the_server_has() -> None:
    autoscaler = load_yaml("kubernetes/horizontalpodautoscaler.yaml")
    load_now = Load(running=1, waiting=0, queued=0, open_streams=0)
    for metric in find_values(autoscaler, "metric"):
        assert f"\n{metric['name']} " in Metrics(lambda tool: True).render(load_now)


@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: file.name)
def test_every_manifest_is_one_document_and_holds_no_secret(file: Path) -> None:
    manifest = yaml.safe_load(file.read_text("utf-8"))
    if file.name == "kustomization.yaml":
        assert {*manifest["resources"], file.name, "secret.example.yaml"} == {path.name for path in MANIFESTS}
        return
    assert manifest["kind"] and manifest["apiVersion"] and manifest["metadata"]["name"] == "toolyard"
    if manifest["kind"] == "Secret":
        assert set(manifest["stringData"].values()) == {""}
