"""The types of settings: plain types with marks, which `setting_check` checks where a person writes the settings.

Marks are bounds (`min_length`, `pattern`, `ge`, `gt`, `le`), `says` (how an error message describes the type) and `is`
(a text to expand or to mask, or a field that nobody sets). They are msgspec's `extra`, which decoding does not enforce:
a stored value that an earlier version or the library accepted stays readable.
"""

from typing import Annotated

from msgspec import Meta

from toolyard.core.tool_identity import BoundName

MAX_NUMBER = 1_000_000_000
LANGUAGE = r"^[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8}){0,4}\Z"
"""A language tag such as `en`, `zh-CN` or `pt_BR`."""

SECRET_MARKS = ("secret", "header")
"""The values of the mark `is` that make a text a secret."""
Name = Annotated[str, Meta(extra={"min_length": 1})]
LongText = Annotated[str, Meta(extra={"lines": True})]
"""A text of several lines."""
Count = Annotated[int, Meta(extra={"ge": 1, "le": MAX_NUMBER})]
CountOrZero = Annotated[int, Meta(extra={"ge": 0, "le": MAX_NUMBER})]
Seconds = Annotated[float, Meta(extra={"gt": 0, "le": MAX_NUMBER})]
SecondsOrZero = Annotated[float, Meta(extra={"ge": 0, "le": MAX_NUMBER})]
Url = Annotated[
    str, Meta(extra={"pattern": r"^https?://[^\s/]\S*\Z", "says": "a URL that begins with http:// or https://"})
]
ShortLine = Annotated[
    str, Meta(extra={"pattern": r"^[^\x00-\x1f\x7f]{0,100}\Z", "says": "one line of at most 100 characters"})
]
Secret = Annotated[str, Meta(extra={"is": "secret"})]
"""Never shown; `${VARIABLE}` in it is replaced."""
HeaderSecret = Annotated[str, Meta(extra={"is": "header"})]
"""A secret that is sent as a header: one line."""
Hash = Annotated[str, Meta(extra={"min_length": 1, "is": "hash"})]
"""Never shown."""
FilePath = Annotated[str, Meta(extra={"min_length": 1, "is": "path"})]
ToolSource = Annotated[str, Meta(extra={"min_length": 1, "is": "tools"})]
StoreUrl = Annotated[str, Meta(extra={"min_length": 1, "is": "store"})]
BetaName = Annotated[str, Meta(extra={"pattern": r"^[A-Za-z0-9._-]{1,100}\Z", "says": "the name of a beta"})]
HeaderName = Annotated[
    str, Meta(extra={"pattern": r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z", "says": "that of an HTTP header"})
]
ServerName = Annotated[str, Meta(extra={"pattern": r"^(?!function\Z).", "says": "a text other than function"})]
"""`function` is the server under which function tools appear."""
Origin = Annotated[
    str,
    Meta(extra={"pattern": r"^(\*|https?://[^/\s?#@]+)\Z", "says": 'an origin such as "https://shop.example", or "*"'}),
]
OfferedName = Annotated[
    str,
    Meta(extra={"pattern": r"^[a-zA-Z0-9_-]{1,64}\Z", "says": "1 to 64 letters, digits, underscores or hyphens"}),
]
"""The name of a tool that a model is shown."""
Domain = Annotated[
    str,
    Meta(extra={"pattern": r"^[^\s/:@?#]+(/\S*)?\Z", "says": "a domain such as docs.python.org, without https://"}),
]
Country = Annotated[str, Meta(extra={"pattern": r"^([A-Z]{2})?\Z", "says": "two capital letters, such as CH"})]
Language = Annotated[str, Meta(extra={"pattern": LANGUAGE, "says": 'a language tag such as "en", "zh" or "pt-BR"'})]
VariableName = Annotated[str, Meta(extra={"pattern": r"^[^=\s]+\Z", "says": "that of a variable"})]
RecordedTime = Annotated[float, Meta(extra={"is": "recorded"})]
"""A time that the server records: not a setting."""
RecordedHash = Annotated[str, Meta(extra={"is": "recorded"})]
"""A hash that the server records: not a setting."""
RecordedTools = Annotated[frozenset[BoundName], Meta(extra={"is": "recorded"})]
"""The tools that names are bound to, which the server records: not a setting."""
Timestamp = Annotated[
    float, Meta(extra={"ge": 0, "le": 100_000_000_000, "says": "a time in seconds since 1970, or 0 for none"})
]
CallPrice = Annotated[float, Meta(extra={"ge": 0, "le": 1_000_000})]
"""The price of a call, in US dollars."""
RequestSchema = Annotated[dict[str, object] | None, Meta(extra={"is": "request"})]
"""A schema that only a request gives: not a setting."""
RequestFields = Annotated[dict[str, object], Meta(extra={"is": "request"})]
"""Fields that only a request gives: not a setting."""
