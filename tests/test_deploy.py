"""What the files of deploy/ promise: no root, no floating tags, no secret, the right probes, enough time to stop."""

import json
import os
import re
import subprocess
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import pytest
import yaml

from toolyard.cli import parse_arguments
from toolyard.cli.secret_files import read_secret_files
from toolyard.observability.metrics import Load, Metrics
from toolyard.server.config import load
from toolyard.server.wiring import load_configured_tools

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
    config = load(None, {name: value for name, value in settings.items() if not name.endswith("_FILE")}, {})
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


def test_the_image_has_the_extras_that_the_page_names() -> None:
    page = (DEPLOY.parent / "docs" / "how-to" / "deploy.md").read_text("utf-8")
    (row,) = [line for line in page.splitlines() if line.startswith("| extras |")]
    (extras,) = re.findall(r"[$][{]wheel[}]\[([a-z,]+)\]", (DEPLOY / "Dockerfile").read_text("utf-8"))
    assert extras.split(",") == re.findall("`([a-z]+)`", row)
    assert "code" in extras.split(","), "programs can be enabled in the image"


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


def test_compose_has_tls_and_keeps_its_certificates() -> None:
    compose = load_yaml("compose.yaml")
    caddy = compose["services"]["caddy"]
    assert {"80:80", "443:443"} <= set(caddy["ports"])
    assert caddy["environment"] == {"SITE_ADDRESS": "${SITE_ADDRESS:-localhost}"}
    assert "\n{$SITE_ADDRESS:localhost} {\n" in (DEPLOY / "Caddyfile").read_text("utf-8")
    assert "caddy-data:/data" in caddy["volumes"] and "caddy-data" in compose["volumes"]
    others = [service for name, service in compose["services"].items() if name != "caddy"]
    assert not any("ports" in service for service in others), "only Caddy is reached from outside"


def test_every_secret_of_compose_is_a_file_that_its_service_gets_and_the_comment_makes() -> None:
    compose = load_yaml("compose.yaml")
    comments = read_comments("compose.yaml")
    named: set[str] = set()
    for service in compose["services"].values():
        variables = {name: str(value) for name, value in service.get("environment", {}).items()}
        files = {name: value for name, value in variables.items() if name.endswith("_FILE")}
        assert not [name for name in variables.keys() - files.keys() if name.endswith(("PASSWORD", "SECRET", "KEY"))]
        assert {value.removeprefix("/run/secrets/") for value in files.values()} == set(service.get("secrets", []))
        named |= set(service.get("secrets", []))
        if "TOOLYARD_SECRET_FILE" in files:
            assert set(map(find_secret_name, files)) == {"PGPASSWORD", "TOOLYARD_SECRET", "OPENAI_API_KEY"}
    assert compose["secrets"] == {name: {"file": f"./secrets/{name}"} for name in named}
    assert all(name in comments for name in named)


def run_commands(commands: str, folder: Path) -> None:
    """Run commands of a page in the folder, for a user whose files are private. Programs in it come first."""
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    command = ["bash", "-eo", "pipefail", "-c", f"umask 077\n{commands}"]
    subprocess.run(command, cwd=folder, env=environment, timeout=60, check=True)


def list_commented_commands(name: str) -> list[str]:
    """Return the commands in the comment at the top of a file."""
    return re.findall(r"^#   (.*)$", (DEPLOY / name).read_text("utf-8"), re.MULTILINE)


def get_mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_the_containers_may_read_secrets_and_configuration_of_a_user_whose_files_are_private(tmp_path: Path) -> None:
    page = (DEPLOY.parent / "docs" / "how-to" / "deploy.md").read_text("utf-8")
    (block,) = [block for block in re.findall(r"```\n(.*?)```", page, re.DOTALL) if "mkdir" in block]
    commands = [line.strip() for line in block.strip().splitlines()]
    assert set(commands) <= set(list_commented_commands("compose.yaml"))
    config = tmp_path / "deploy" / "config"
    run_commands("mkdir -p deploy/config && echo 'tools = []' > deploy/config/toolyard.toml", tmp_path)
    assert get_mode(config / "toolyard.toml") == 0o600
    run_commands("\n".join(commands), tmp_path)
    folder = tmp_path / "deploy" / "secrets"
    assert get_mode(folder) == 0o700, "other users of the machine may not look into it"
    assert {file.name for file in folder.iterdir()} == load_yaml("compose.yaml")["secrets"].keys()
    assert {get_mode(file) for file in (*folder.iterdir(), config / "toolyard.toml")} == {0o644}
    assert get_mode(config) == 0o755
    assert len((folder / "toolyard_secret").read_text().strip()) == 64


def test_the_commands_for_the_secret_of_kubernetes_write_each_of_its_keys_without_a_newline(tmp_path: Path) -> None:
    kubectl = tmp_path / "kubectl"
    kubectl.write_text('#!/bin/sh\necho "$*" > asked\ncp -r "${5#--from-file=}" made\n')
    kubectl.chmod(0o755)
    run_commands("\n".join(list_commented_commands("kubernetes/secret.example.yaml")), tmp_path)
    secret = load_yaml("kubernetes/secret.example.yaml")
    name = secret["metadata"]["name"]
    assert (tmp_path / "asked").read_text().startswith(f"create secret generic {name} --from-file=")
    made = {file.name: file.read_text() for file in (tmp_path / "made").iterdir()}
    assert made.keys() == secret["stringData"].keys()
    assert all(value and value == value.strip() for value in made.values())
    assert not (tmp_path / f"{name}-secret").exists()


def find_secret_name(variable: str) -> str:
    """Return the variable that the command sets when this one names a file."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "secret").write_text("x")
        environment = {variable: f"{folder}/secret"}
        read_secret_files(environment)
    (name,) = environment
    return name


def write_mounted_files(folder: Path) -> None:
    for name, text in load_yaml("kubernetes/files.yaml")["data"].items():
        (folder / name).write_text(text)


@pytest.mark.parametrize("kind", ["compose", "kubernetes"])
def test_the_mounted_configuration_is_valid_and_its_tool_answers(kind: str, tmp_path: Path) -> None:
    if kind == "kubernetes":
        write_mounted_files(tmp_path)
    folder = tmp_path if kind == "kubernetes" else DEPLOY / "config"
    config = load(folder / "toolyard.toml", {"TOOLYARD_STORE": "memory:"}, {})
    (tool,) = load_configured_tools(config, folder)
    assert tool.definition.name == "opening_hours"


@pytest.mark.parametrize("kind", ["compose", "kubernetes"])
def test_a_language_model_is_chosen_by_removing_the_sign_of_a_comment(kind: str, tmp_path: Path) -> None:
    mounted = load_yaml("kubernetes/files.yaml")["data"]["toolyard.toml"]
    text = mounted if kind == "kubernetes" else (DEPLOY / "config" / "toolyard.toml").read_text("utf-8")
    file = tmp_path / "toolyard.toml"
    file.write_text(re.sub(r"^# (?=model = )", "", text, count=1, flags=re.MULTILINE))
    assert load(file, {"TOOLYARD_STORE": "memory:", "OPENAI_API_KEY": "k"}, {}).model == "openai:gpt-4o-mini"


def test_compose_and_the_release_give_the_image_its_commit() -> None:
    (argument,) = [words for name, words in read_stages()[0] if name == "ARG"]
    name = argument.partition("=")[0]
    for service in load_yaml("compose.yaml")["services"].values():
        if "build" in service:
            assert service["build"]["args"] == {name: f"${{{name}:-}}"}
    assert f'{name}="$(git rev-parse HEAD)" docker compose -f deploy/compose.yaml build' in read_comments(
        "compose.yaml"
    )
    release = yaml.safe_load((DEPLOY.parent / ".github" / "workflows" / "release.yml").read_text("utf-8"))
    assert find_values(release, "build-args") == [f"{name}=${{{{ github.sha }}}}"]


def test_compose_and_kubernetes_mount_the_configuration_where_the_image_works() -> None:
    folder = dict(read_stages()[1])["WORKDIR"]
    replica = load_yaml("compose.yaml")["services"]["replica-1"]
    assert replica["volumes"] == [f"./config:{folder}:ro"]
    pod = load_yaml("kubernetes/deployment.yaml")["spec"]["template"]["spec"]
    mounts = {mount["name"]: mount for mount in pod["containers"][0]["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert mounts["files"] == {"name": "files", "mountPath": folder, "readOnly": True}
    assert volumes["files"]["configMap"]["name"] == load_yaml("kubernetes/files.yaml")["metadata"]["name"]


def test_kubernetes_offers_the_page_with_tls() -> None:
    ingress = load_yaml("kubernetes/ingress.yaml")["spec"]
    (tls,), (rule,) = ingress["tls"], ingress["rules"]
    assert tls["hosts"] == [rule["host"]] and tls["secretName"]
    backend = rule["http"]["paths"][0]["backend"]["service"]
    service = load_yaml("kubernetes/service.yaml")
    assert backend["name"] == service["metadata"]["name"]
    assert backend["port"]["name"] in [port["name"] for port in service["spec"]["ports"]]


def test_every_file_names_the_version_of_the_package() -> None:
    version = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    files = [DEPLOY / name for name in ("Dockerfile", "compose.yaml")]
    files += [DEPLOY / "kubernetes" / name for name in ("deployment.yaml", "kustomization.yaml")]
    files += [DEPLOY.parent / "README.md", DEPLOY.parent / "docs" / "how-to" / "deploy.md"]
    for file in files:
        found = re.findall(r"toolyard[:-](\d+\.\d+\.\d+)", file.read_text("utf-8"))
        assert set(found) == {version}, file
    assert all(f"`{name}`" in read_release_steps() for name in ("README.md", "docs/how-to/deploy.md", "deploy/"))


def read_release_steps() -> str:
    _, _, steps = (DEPLOY.parent / "CONTRIBUTING.md").read_text("utf-8").partition("\n## Release\n")
    return steps


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


def test_the_pods_are_started_anew_after_the_first_key() -> None:
    deployment = load_yaml("kubernetes/deployment.yaml")
    command = f"kubectl rollout restart deployment/{deployment['metadata']['name']}"
    assert list_commented_commands("kubernetes/kustomization.yaml")[-1] == command
    assert command in (DEPLOY.parent / "docs" / "how-to" / "deploy.md").read_text("utf-8")


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
    assert (
        manifest["kind"] and manifest["apiVersion"] and manifest["metadata"]["name"] in ("toolyard", "toolyard-files")
    )
    if manifest["kind"] == "Secret":
        assert set(manifest["stringData"].values()) == {""}
