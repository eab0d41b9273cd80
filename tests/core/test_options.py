"""The options of a request: which values are refused, and what applies if a model has options of its own."""

import pytest

from toolyard.core.errors import Invalid
from toolyard.core.settings.models.options import DEFAULT_OPTIONS, Options, check_options, merge_options

SCHEMA: dict[str, object] = {"type": "object", "properties": {"a": {"type": "string"}}}


def _nest(levels: int) -> dict[str, object]:
    schema: dict[str, object] = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


@pytest.mark.parametrize(
    "options",
    [
        DEFAULT_OPTIONS,
        Options(max_tokens=1, temperature=0.0, top_p=0.0, stop=("a",) * 16, seed=-1, output_schema=SCHEMA, thinking=0),
        Options(temperature=2, top_p=1, stop=("x" * 500,), seed=2**63 - 1, thinking="adaptive"),
    ],
)
def test_values_within_their_limits_are_accepted(options: Options) -> None:
    check_options(options)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (Options(max_tokens=-1), "max_tokens"),
        (Options(max_tokens=10_000_001), "max_tokens"),
        (Options(temperature=-0.1), "temperature"),
        (Options(temperature=2.1), "temperature"),
        (Options(temperature=float("nan")), "temperature"),
        (Options(top_p=-0.1), "top_p"),
        (Options(top_p=1.1), "top_p"),
        (Options(top_p=float("inf")), "top_p"),
        (Options(stop=("a",) * 17), "stop"),
        (Options(stop=("",)), "stop"),
        (Options(stop=("x" * 501,)), "stop"),
        (Options(seed=2**63), "seed"),
        (Options(thinking=-1), "thinking"),
        (Options(output_schema={}), "output_schema"),
        (Options(output_schema={"type": "array"}), "output_schema"),
        (Options(output_schema=["type"]), "output_schema"),  # pyright: ignore[reportArgumentType]
        (Options(output_schema={"type": "object", "description": "x" * 100_000}), "output_schema"),
        (Options(output_schema={"type": "object", "default": object()}), "output_schema"),
        (Options(output_schema=_nest(5_000)), "output_schema"),
    ],
)
def test_a_value_that_no_provider_takes_is_refused_by_name(options: Options, name: str) -> None:
    with pytest.raises(Invalid, match=f"the option {name} m") as refused:
        check_options(options)
    assert refused.value.details == {"field": f"options.{name}"}


def test_the_options_of_a_request_come_before_those_of_its_model() -> None:
    defaults = Options(max_tokens=100, temperature=0.5, stop=("END",), thinking="high")
    assert merge_options(DEFAULT_OPTIONS, defaults) is defaults
    merged = merge_options(Options(temperature=0.0, seed=0, output_schema=SCHEMA, thinking=0), defaults)
    assert merged == Options(max_tokens=100, temperature=0.0, stop=("END",), seed=0, output_schema=SCHEMA, thinking=0)
