"""`toolyard models`, and an Ollama that runs nearby: found, listed, and offered where no model is configured."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from cli.process import run_toolyard, start_server


@contextmanager
def serve_ollama(*names: str, body: bytes | None = None) -> Generator[str]:
    """Ollama's list of models and nothing else; gives the address that OpenAI's clients use."""
    tags = json.dumps({"models": [{"name": name, "model": name, "size": 1} for name in names]}).encode()

    class OllamaHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            is_tags_path = self.path == "/api/tags"
            self.send_response(200 if is_tags_path else 404)
            self.end_headers()
            self.wfile.write((tags if body is None else body) if is_tags_path else b"{}")

        def log_message(self, format: str, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), OllamaHandler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            thread.join()


def parse_marks(out: str) -> dict[str, str]:
    return {line.split()[1]: line[0] for line in out.splitlines()}


def test_without_anything_the_list_says_what_to_set(tmp_path: Path) -> None:
    done = run_toolyard(tmp_path, "models")
    assert done.code == 0
    assert parse_marks(done.out)["toolyard:offline"] == "✓" and parse_marks(done.out)["openai:…"] == "✗"
    assert "set OPENAI_API_KEY" in done.out and "no Ollama answers at http://127.0.0.1:9" in done.out
    assert parse_marks(done.out)["local:/path/to/model.gguf"] == "✓"


def test_a_key_and_an_ollama_make_models_usable(tmp_path: Path) -> None:
    with serve_ollama("qwen3:4b", "llama3.2:latest") as address:
        done = run_toolyard(tmp_path, "models", OPENAI_API_KEY="sk-secret", OLLAMA_BASE_URL=address)
    found_marks = parse_marks(done.out)
    assert found_marks["ollama:qwen3:4b"] == found_marks["ollama:llama3.2:latest"] == found_marks["openai:…"] == "✓"
    assert "sk-secret" not in done.out


def test_the_models_of_the_configuration_come_first(tmp_path: Path) -> None:
    (tmp_path / "toolyard.toml").write_text('model = ["groq:x", "nonsense", "http://127.0.0.1:9/v1#m"]')
    first, second, third, *_ = run_toolyard(tmp_path, "models").out.splitlines()
    assert first.startswith("✗ groq:x") and "set GROQ_API_KEY" in first
    assert second.startswith("✗ nonsense") and "is not a model" in second
    assert third.startswith("✓ http://127.0.0.1:9/v1#m")


def test_the_models_that_a_request_may_name_are_listed_with_their_patterns(tmp_path: Path) -> None:
    (tmp_path / "toolyard.toml").write_text('model = "groq:x"\nmodels = ["groq:y", "openai:gpt-4o*", "groq:*"]')
    first, second, third, fourth, *_ = run_toolyard(tmp_path, "models", OPENAI_API_KEY="sk-secret").out.splitlines()
    assert first.startswith("✗ groq:x") and second.startswith("✗ groq:y")
    assert third.startswith("✓ openai:gpt-4o*") and "any name that fits it" in third
    assert fourth.startswith("✗ groq:*") and "set GROQ_API_KEY" in fourth


def test_a_configured_model_is_usable_only_if_it_is_there_now(tmp_path: Path) -> None:
    (tmp_path / "there.gguf").write_bytes(b"GGUF")
    models = ["ollama:qwen3", "ollama:phi4", f"local:{tmp_path}/there.gguf", f"local:{tmp_path}/gone.gguf"]
    (tmp_path / "toolyard.toml").write_text(f"model = {json.dumps([*models, 'toolyard:offline'])}")
    with serve_ollama("qwen3:latest") as address:
        done = run_toolyard(tmp_path, "models", OLLAMA_BASE_URL=address)
    assert [parse_marks(done.out)[name] for name in models] == ["✓", "✗", "✓", "✗"]
    assert "has no such model" in done.out and "there is no file" in done.out
    assert done.out.count("toolyard:offline") == 1
    alone = run_toolyard(tmp_path, "models")
    assert parse_marks(alone.out)["ollama:qwen3"] == "✗" and "start one" in alone.out.splitlines()[0]


@pytest.mark.parametrize("body", [b"<html>", b'{"models": 7}', b""])
def test_something_else_on_that_port_is_no_ollama(tmp_path: Path, body: bytes) -> None:
    with serve_ollama(body=body) as address:
        done = run_toolyard(tmp_path, "models", OLLAMA_BASE_URL=address)
    assert done.code == 0 and "no Ollama answers" in done.out


def test_an_ollama_without_a_model_says_how_to_get_one(tmp_path: Path) -> None:
    with serve_ollama() as address:
        assert "ollama pull" in run_toolyard(tmp_path, "models", OLLAMA_BASE_URL=address).out


def test_the_doctor_and_the_start_offer_an_ollama_if_no_model_is_configured(tmp_path: Path) -> None:
    with serve_ollama("qwen3:4b") as address:
        doctor = run_toolyard(tmp_path, "doctor", "--port", "0", OLLAMA_BASE_URL=address)
        assert doctor.code == 0 and "✓ ollama" in doctor.out and "--model ollama:qwen3:4b" in doctor.out
        with start_server(tmp_path, OLLAMA_BASE_URL=address) as server:
            server.read_until("--model ollama:qwen3:4b")
        configured = run_toolyard(
            tmp_path, "doctor", "--port", "0", "--model", "toolyard:offline", OLLAMA_BASE_URL=address
        )
        assert "✓ ollama" not in configured.out


def test_the_doctor_knows_whether_a_local_model_is_there(tmp_path: Path) -> None:
    missing = run_toolyard(tmp_path, "doctor", "--port", "0", "--model", "local:/nowhere.gguf")
    assert missing.code == 1 and "there is no file '/nowhere.gguf'" in missing.out
    (tmp_path / "small.gguf").write_bytes(b"GGUF")
    present = run_toolyard(tmp_path, "doctor", "--port", "0", "--model", f"local:{tmp_path}/small.gguf")
    assert present.code == 0 and "loaded when it is first asked" in present.out
