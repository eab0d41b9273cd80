"""Secrets are found whatever stands around them, in time that grows with the text and no faster."""

import time
from typing import get_args

import msgspec
import pytest

from toolyard.core.items import FilePart
from toolyard.core.settings.redact_rules import BuiltInPattern, RedactRules, compile_own_pattern
from toolyard.core.tools.redactor import WINDOW_CHARS, Redactor

EVERYTHING = Redactor(RedactRules(patterns=get_args(BuiltInPattern), own={"staff_number": r"EMP-\d{6}"}))
# Put together here, so that no scanner takes this file for a leak.
SECRETS = {
    "api_key": "sk-" + "proj-abcdefghijklmnopqrst",
    "aws_key": "AKIA" + "IOSFODNN7EXAMPLE",
    "credit_card": "4111 1111 1111 1111",
    "github_token": "ghp_" + "0123456789abcdefghijklmnopqrstuvwxyz",
    "google_key": "AIza" + "0123456789abcdefghijklmnopqrstuvwxy",
    "jwt": "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.SflKxwRJSMeKKF2QT4fw",
    "private_key": "-----BEGIN "
    + "RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIE\n-----END RSA PRIVATE KEY-----",
    "slack_token": "xoxb-" + "1234567890-abcdef",
    "staff_number": "EMP-123456",
}
HOSTILE = {
    "heads of tokens": "eyJ",
    "heads of keys": "-----BEGIN PRIVATE KEY-----",
    "digits": "4",
    "grouped digits": "4111 ",
    "prefixes": "sk-ghp_AKIA",
    "names of keys": "secret_access_key=",
    "dots": "eyJaaaaaaaa.",
}


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize(
    ("before", "after"), [("", ""), ("the key is ", ", keep it"), ('"', '"'), ("\n", "\n"), ("\x1b[32m", "\x1b[0m")]
)
def test_a_secret_is_replaced_and_named(name: str, before: str, after: str) -> None:
    redacted = EVERYTHING.redact(f"{before}{SECRETS[name]}{after}")
    assert redacted == (f"{before}[redacted: {name}]{after}", (name,))


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_replaced_in_json_after_an_escape(name: str) -> None:
    log, clean = f"first\n{SECRETS[name]}\nlast", f"first\n[redacted: {name}]\nlast"
    redacted = EVERYTHING.redact(msgspec.json.encode({"log": log}).decode())
    assert redacted == (msgspec.json.encode({"log": clean}).decode(), (name,))


def test_a_text_that_only_looks_like_a_secret_stays() -> None:
    text = "4111 1111 1111 1112, order 12345678901234567890123, eyJhbGci.x.y, task-force-of-twenty-seven-people, AKIA"
    assert EVERYTHING.redact(text) == (text, ())


def test_a_card_number_is_found_before_its_expiry_date() -> None:
    assert EVERYTHING.redact("4111111111111111 12/26").text == "[redacted: credit_card] 12/26"


def test_a_private_key_that_was_cut_is_replaced_to_its_end() -> None:
    assert EVERYTHING.redact(SECRETS["private_key"][:60]).text == "[redacted: private_key]"


def test_a_name_is_given_to_each_secret_of_a_text_and_overlapping_ones_leave_nothing() -> None:
    both = Redactor(RedactRules(own={"whole": r"ab\d{4}cd", "part": r"\d{4}cdef"}))
    assert both.redact("x ab1234cdef y") == ("x [redacted: whole] y", ("whole",))


@pytest.mark.parametrize("offset", [-30, -5, 0, 5])
def test_a_secret_at_the_border_of_two_windows_is_found_once(offset: int) -> None:
    text = "a" * (WINDOW_CHARS + offset) + f" {SECRETS['github_token']} " + "b" * WINDOW_CHARS
    redacted = EVERYTHING.redact(text).text
    assert redacted == text.replace(SECRETS["github_token"], "[redacted: github_token]")


@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE)
def test_no_text_takes_longer_than_in_proportion_to_its_length(piece: str) -> None:
    def measure(chars: int) -> float:
        """Return the CPU time of the fastest of several searches: other processes disturb the others."""
        text, times = piece * (chars // len(piece)), list[float]()
        for _ in range(5):
            began = time.process_time()
            EVERYTHING.redact(text)
            times.append(time.process_time() - began)
        return min(times)

    # Four times the text takes four times as long; if the time grew with the square, it would be sixteen times.
    assert measure(200_000) < 10 * measure(50_000)


def test_values_of_json_are_replaced_one_by_one_so_that_it_stays_json() -> None:
    value: dict[str, object] = {
        "card": 4111111111111111,
        "list": [SECRETS["jwt"], 1, None, True],
        SECRETS["aws_key"]: {},
    }
    assert EVERYTHING.redact_json(value) == {
        "card": "[redacted: credit_card]",
        "list": ["[redacted: jwt]", 1, None, True],
        "[redacted: aws_key]": {},
    }


def test_the_text_of_an_inline_file_is_replaced() -> None:
    part = FilePart(url="data:text/plain;base64,RU1QLTEyMzQ1Ng==", name="staff.txt")  # EMP-123456
    image = FilePart(url="data:image/png;base64,RU1QLTEyMzQ1Ng==")
    redacted = FilePart(url="data:text/plain;base64,W3JlZGFjdGVkOiBzdGFmZl9udW1iZXJd", name="staff.txt")
    assert EVERYTHING.redact_part(part) == redacted
    assert EVERYTHING.redact_part(image) is image


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"EMP-\d{6}", "EMP-123456"),
        (r"\bkey=[A-Za-z0-9_.\-]{8,64}", "key=abcDEF_1.-"),
        (r"v?\d{1,3}\.\d{1,3}", "v1.20"),
        (r"\[[^\]]{3}\]", "[abc]"),
        (r"größe.{4}", "größe 123"),
    ],
)
def test_a_pattern_of_ones_own_is_found(pattern: str, text: str) -> None:
    match = compile_own_pattern(pattern).search(f"x {text} y")
    assert match is not None and match.group() == text


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(a|b)", "is not supported"),
        ("a*", "is not supported"),
        ("a+", "is not supported"),
        ("a{1,}", "is not supported"),
        ("a{2}{2}", "is not supported"),
        ("^a", "is not supported"),
        (r"(a+)+$", "is not supported"),
        (r"(.)\1", "is not supported"),
        ("[a", "is not supported"),
        ("a{300}", "from 0 to 256"),
        ("a{5,2}", "the smaller number first"),
        (r"\b{2}", "repeats a boundary"),
        ("x?", "an empty text"),
        ("", "an empty text"),
        ("[z-a]", "bad character range"),
        ("a{256}" * 4, "at most 1000"),
    ],
)
def test_a_pattern_that_could_take_long_or_means_nothing_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        compile_own_pattern(pattern)
