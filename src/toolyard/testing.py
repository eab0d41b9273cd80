"""A scripted model, to test tools, rules and applications without a language model.

`Scripted([call("get_stock", material="M001"), say("100 kg.")])` plays these turns in order, streams them like a real
model, and raises ScriptError on a turn that the script does not have and on turns that nobody asked for.
"""

from toolyard.models.scripted import Script, Scripted, ScriptedCall, ScriptError, Turn, call, fail, say, together

__all__ = [
    "Script",
    "ScriptError",
    "Scripted",
    "ScriptedCall",
    "Turn",
    "call",
    "fail",
    "say",
    "together",
]
