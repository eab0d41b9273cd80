"""How many tokens a model takes: by its name, or as the configuration says."""

from pathlib import Path

import pytest

from toolyard.core.errors import Misconfigured
from toolyard.core.settings.models.options import Options
from toolyard.models.resolver import ModelResolver
from toolyard.models.token_limits import find_context_window
from toolyard.server.config import load
from toolyard.server.wiring import build_model_settings, build_wiring


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("openai:gpt-4o-mini", 128_000),
        ("openai:gpt-4.1-nano", 1_047_576),
        ("azure:gpt-4o", 128_000),
        ("anthropic:claude-sonnet-4-5", 200_000),
        ("openrouter:anthropic/claude-opus-4", 200_000),
        ("gemini:gemini-3-flash", 1_048_576),
        ("dashscope:qwen-plus", 131_072),
        ("dashscope:qwen-max-latest", 32_768),
        ("http://gpu.local:8000/v1#Qwen/Qwen3-8B", 131_072),
        ("http://gpu.local:8000/v1#mine", 0),
        ("toolyard:offline", 0),
        ("given", 0),
    ],
)
def test_well_known_models_are_known_by_how_their_names_begin(name: str, tokens: int) -> None:
    assert find_context_window(name) == tokens


def test_how_a_model_answers_is_configured_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "toolyard.toml"
    file.write_text(
        'store = "memory:"\n[model_options."anthropic:claude-x"]\n'
        'max_tokens = 900\ntemperature = 0.5\nthinking = "low"\n'
        '[model_options."openai:gpt-5"]\nthinking = 4_096\n'
    )
    config = load(file, {"ANTHROPIC_API_KEY": "k"}, {})
    assert build_model_settings(config, {}).options == {
        "anthropic:claude-x": Options(max_tokens=900, temperature=0.5, thinking="low"),
        "openai:gpt-5": Options(thinking=4_096),
    }
    file.write_text('[model_options."openai:gpt-5"]\nthinking = "hard"\n')
    with pytest.raises(Misconfigured, match="thinking"):
        load(file, {}, {})


@pytest.mark.parametrize(
    ("name", "options", "room"),
    [
        ("anthropic:claude-sonnet-4-5", "temperature = 0", 200_000),  # 16,384 fit in what is left at 80 %
        ("anthropic:claude-sonnet-4-5", "max_tokens = 64_000", 170_000),
        ("anthropic:claude-sonnet-4-5", 'max_tokens = 64_000\nthinking = "high"', 139_280),
        ("anthropic:claude-sonnet-4-5", "window = 40_000", 29_520),
        ("mine:claude-x", "max_tokens = 64_000\nthinking = 16_000", 150_000),
        ("openai:gpt-4o", "max_tokens = 16_000", 128_000),
        ("http://h/v1#m", "window = 8_192\nmax_tokens = 4_096", 5_120),
        ("openai:gpt-5", "max_tokens = 128_000", 272_000),
        ("gemini:gemini-3-flash", "max_tokens = 65_536", 1_048_576),
    ],
)
def test_room_is_made_early_enough_for_the_answer_that_is_asked_for(
    name: str, options: str, room: int, tmp_path: Path
) -> None:
    file = tmp_path / "toolyard.toml"
    file.write_text(
        f'store = "memory:"\nmodel = "{name}"\n[model_options."{name}"]\n{options}\n'
        '[providers.mine]\nbase_url = "http://h"\nwire = "messages"\n'
    )
    assert build_wiring(load(file, {}, {}), tmp_path).windows == {name: room}


def test_an_answer_that_leaves_no_room_is_told_before_anything_starts(tmp_path: Path) -> None:
    file = tmp_path / "toolyard.toml"
    file.write_text('store = "memory:"\n[model_options."http://h/v1#m"]\nwindow = 4_096\nmax_tokens = 4_096\n')
    with pytest.raises(Misconfigured, match=r"window of 4,096 tokens: answers of 4,096 \(max_tokens\) leave no room"):
        build_wiring(load(file, {}, {}), tmp_path)


def test_the_configuration_goes_before_what_is_known_and_a_line_takes_what_its_smallest_takes(tmp_path: Path) -> None:
    file = tmp_path / "toolyard.toml"
    file.write_text(
        'store = "memory:"\nmodel = ["openai:gpt-4o", "anthropic:claude-x", "http://h/v1#m"]\n'
        '[model_options."openai:gpt-4o"]\nwindow = 150_000\n[model_options."http://h/v1#m"]\nwindow = 4_096\n'
    )
    config = load(file, {}, {})
    windows = build_wiring(config, tmp_path).windows
    assert windows == {"openai:gpt-4o": 150_000, "http://h/v1#m": 4_096}
    models = ModelResolver(config.model_names, windows=windows)
    assert models.context_window("openai:gpt-4o") == 4_096
    assert models.context_window("anthropic:claude-x") == 200_000


def test_a_model_has_every_option_of_a_request_but_the_schema(tmp_path: Path) -> None:
    file = tmp_path / "toolyard.toml"
    header = 'store = "memory:"\n[model_options."openai:gpt-4o"]\n'
    file.write_text(f'{header}top_p = 0.9\nstop = ["END"]\nseed = 7\n')
    options = build_model_settings(load(file, {}, {}), {}).options["openai:gpt-4o"]
    assert (options.top_p, options.stop, options.seed) == (0.9, ("END",), 7)
    for setting, problem in {
        "top_p = 1.5": "top_p must be from 0 to 1",
        "temperature = 3": "temperature must be from 0 to 2",
        'temperature = "warm"': "temperature must be a number, not this text",
        "max_tokens = 10_000_001": "max_tokens must be from 0 to 10,000,000",
        'stop = [""]': "stop must hold texts of 1 to 500 characters",
        'output_schema = { type = "object" }': "output_schema is not a setting",
    }.items():
        file.write_text(f"{header}{setting}\n")
        with pytest.raises(Misconfigured, match=problem):
            load(file, {}, {})
