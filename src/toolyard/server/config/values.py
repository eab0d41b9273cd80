"""The types of the configuration's values. `says` is how an error message describes a type, `is` marks special texts.

`paths.ValueExpander` expands texts by their mark, and `show.py` masks those that are marked as secret.
"""

from typing import Annotated

from msgspec import Meta

from toolyard.core.texts import LANGUAGE

MAX_NUMBER = 1_000_000_000

Name = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=1, le=MAX_NUMBER)]
CountOrNone = Annotated[int, Meta(ge=0, le=MAX_NUMBER)]
Seconds = Annotated[float, Meta(gt=0, le=MAX_NUMBER)]
SecondsOrNone = Annotated[float, Meta(ge=0, le=MAX_NUMBER)]
Url = Annotated[
    str, Meta(pattern=r"^https?://[^\s/]\S*\Z", extra={"says": "a URL that begins with http:// or https://"})
]
Secret = Annotated[str, Meta(extra={"is": "secret"})]
"""Never shown; `${VARIABLE}` in it is replaced."""
HeaderSecret = Annotated[str, Meta(extra={"is": "header"})]
"""A secret that is sent as a header: one line."""
Hash = Annotated[str, Meta(min_length=1, extra={"is": "hash"})]
"""Never shown."""
FilePath = Annotated[str, Meta(min_length=1, extra={"is": "path"})]
ToolSource = Annotated[str, Meta(min_length=1, extra={"is": "tools"})]
StoreUrl = Annotated[str, Meta(min_length=1, extra={"is": "store"})]
HeaderName = Annotated[str, Meta(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z", extra={"says": "that of an HTTP header"})]
ServerName = Annotated[str, Meta(pattern=r"^(?!function\Z).", extra={"says": "a text other than function"})]
"""`function` is the server under which function tools appear."""
Origin = Annotated[
    str,
    Meta(pattern=r"^(\*|https?://[^/\s?#@]+)\Z", extra={"says": 'an origin such as "https://shop.example", or "*"'}),
]
ToolName = Annotated[
    str, Meta(pattern=r"^[a-zA-Z0-9_-]{1,64}\Z", extra={"says": "1 to 64 letters, digits, underscores or hyphens"})
]
Domain = Annotated[
    str, Meta(pattern=r"^[^\s/:@?#]+(/\S*)?\Z", extra={"says": "a domain such as docs.python.org, without https://"})
]
Country = Annotated[str, Meta(pattern=r"^([A-Z]{2})?\Z", extra={"says": "two capital letters, such as CH"})]
Language = Annotated[str, Meta(pattern=LANGUAGE, extra={"says": 'a language tag such as "en", "zh" or "pt-BR"'})]
VariableName = Annotated[str, Meta(pattern=r"^[^=\s]+\Z", extra={"says": "that of a variable"})]
