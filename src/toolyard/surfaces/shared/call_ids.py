"""The ids under which calls are handed to applications. Pure.

An application may send a result without its conversation's id, also after a restart, so the id of a call names its
conversation as well: both have 24 random digits after their prefix, which are written in base 64, since some clients
shorten ids of more than 40 characters. That of a program's call, which no application runs, has its position behind
it. A conversation whose id the server's owner chose does not fit; its calls keep
their own ids, and the application sends the conversation's id, which it had to know to ask in it. Naming a conversation
gives no access to it: that is checked against the caller.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode

_POSITION = r"\.[0-9]{1,9}"
_OWN_CONVERSATION = re.compile(r"conversation_([0-9a-f]{24})")
_OWN_CALL = re.compile(rf"call_([0-9a-f]{{24}})((?:{_POSITION})?)")
CALL_ID = rf"call_(?:ty[A-Za-z0-9_-]{{32}}(?:{_POSITION})?|[0-9a-f]{{24}}-[0-9a-f]{{24}})"
"""The pattern of an id that was handed out."""
_HANDED_OUT = re.compile(rf"call_ty([A-Za-z0-9_-]{{32}})((?:{_POSITION})?)")
# Earlier releases joined the digits, and before that the ids. A call may still wait that was handed out so.
_JOINED_DIGITS = re.compile(r"call_([0-9a-f]{24})-([0-9a-f]{24})")
_JOINED_IDS = re.compile(r"(conversation_\w+)\.(call_\w+)")


def is_own_conversation(conversation: str) -> bool:
    """Return whether the id of a conversation is one of ours, which the ids of its calls and responses can hold."""
    return bool(_OWN_CONVERSATION.fullmatch(conversation))


def encode_call_id(conversation: str, call_id: str) -> str:
    """Return the id of a call for the application, of at most 40 characters unless a program makes the call."""
    conversation_match, call_match = _OWN_CONVERSATION.fullmatch(conversation), _OWN_CALL.fullmatch(call_id)
    if not (conversation_match and call_match):
        return call_id
    encoded = urlsafe_b64encode(bytes.fromhex(conversation_match[1] + call_match[1])).decode()
    return f"call_ty{encoded}{call_match[2]}"


def parse_call_id(text: str) -> tuple[str, str]:
    """Return the conversation and the call of an id; an empty conversation if the id does not name one."""
    if match := _HANDED_OUT.fullmatch(text):
        digits = urlsafe_b64decode(match[1]).hex()
        return f"conversation_{digits[:24]}", f"call_{digits[24:]}{match[2]}"
    if match := _JOINED_DIGITS.fullmatch(text):
        return f"conversation_{match[1]}", f"call_{match[2]}"
    match = _JOINED_IDS.fullmatch(text)
    return (match[1], match[2]) if match else ("", text)
