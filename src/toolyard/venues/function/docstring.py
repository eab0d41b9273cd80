"""The descriptions that a docstring has for parameters, in the style of Google, NumPy or Sphinx."""

import re
from collections.abc import Collection
from dataclasses import dataclass, field

_PARAMETER_SECTIONS = {
    # A heading, then indented or empty lines.
    "GOOGLE": r"^(?:Args|Arguments|Parameters|Params):[ \t]*\n(?:[ \t]+\S.*(?:\n|\Z)|[ \t]*\n)+",
    # An underlined heading, then all lines up to the next one.
    "NUMPYDOC": r"^(?:Parameters|Params|Arguments|Args)[ \t]*\n-{3,}[ \t]*\n(?:(?!.+\n-{3,}[ \t]*$).*(?:\n|\Z))*",
    # Fields, each with its indented lines.
    "REST": r"^:(?:param|parameter|arg|argument|key|keyword|type)\b[^:\n]*:.*(?:\n|\Z)(?:[ \t]+\S.*(?:\n|\Z))*",
}
"""What a docstring says about parameters, by the name of its style in `docstring_parser`."""
_ANY_SECTION = re.compile("|".join(_PARAMETER_SECTIONS.values()), re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Docstring:
    """A docstring in two parts: the description of the function, and those of its parameters by name."""

    description: str
    parameters: dict[str, str] = field(default_factory=dict[str, str])


def parse_docstring(text: str, parameters: Collection[str]) -> Docstring:
    """Return the parts of a docstring without indentation (`inspect.getdoc`). Never raises.

    The parameters' section is left out of the description only if it is about parameters of the function and nothing
    else, so that no text is lost.
    """
    if not _ANY_SECTION.search(text):  # true of most docstrings, for which the parser need not be loaded
        return Docstring(text)
    try:
        from docstring_parser import parse

        parsed = parse(text)
    except Exception:  # the parser may raise anything on a malformed docstring, which is then a description as a whole
        return Docstring(text)
    descriptions = {
        name.strip(): parameter.description or ""
        for parameter in parsed.params
        for name in parameter.arg_name.split(",")  # NumPy: `width, height : int`
    }
    section = _PARAMETER_SECTIONS.get(parsed.style.name if parsed.style else "")
    if section and descriptions and descriptions.keys() <= set(parameters):
        text = re.sub(section, "\n", text, flags=re.MULTILINE)
        text = re.sub(r"\n{3,}", "\n\n", text).strip()
    own_descriptions = {name: about for name, about in descriptions.items() if about and name in parameters}
    return Docstring(text, own_descriptions)
