"""What each setting that can be changed while the server runs has for an effect, in one sentence for people. Pure."""

from collections.abc import Mapping

EFFECTS: Mapping[str, Mapping[str, str]] = {
    "general": {
        "model": "Answers where a request names no model; the others are tried in turn if it fails.",
        "models": "Further models that a request may name.",
        "system_prompt": "Stands before every conversation, from the next request on.",
        "trust": "What happens to calls after the model has read what strangers wrote.",
        "limits": "Bounds of each request; a lowered one also binds requests that are open.",
    },
    "providers": {
        "api_key": "Is sent to this provider's address and to no other.",
        "base_url": "Where requests go; another address needs the key again.",
        "headers": "Are sent with every request to this provider.",
        "wire": "The API that the provider speaks.",
        "forward": "Options of a request that this provider is told.",
        "betas": "Beta features of the provider that requests may use.",
    },
    "model_options": {
        "max_tokens": "Ends an answer that gets longer than this.",
        "temperature": "Higher values make answers more varied.",
        "top_p": "Lower values keep answers to likely words.",
        "stop": "Texts that end an answer where they would come.",
        "seed": "Makes answers repeatable where the provider can.",
        "thinking": "How much the model may think before it answers.",
        "parallel_tool_calls": "Whether one turn may ask for several calls.",
        "window": "How many tokens of a conversation the model is shown before older ones are summarised.",
    },
    "model_access": {
        "roles": "Only people with one of these roles may use the model.",
        "tenants": "Only these tenants may use the model.",
    },
    "limits": {
        "turns_per_request": "A request ends after so many turns with tool calls.",
        "turns_per_conversation": "A conversation takes no more tool calls after so many turns with some.",
        "run_seconds": "A request ends after so many seconds of work; waiting for people does not count.",
        "run_tokens": "A request ends after so many tokens; 0 means no limit.",
        "calls_per_turn": "Further calls of one turn are refused.",
        "parallel_calls": "So many calls run at a time; the others wait.",
        "queued_messages": "So many messages wait in line in one conversation; more are refused.",
        "requests_per_minute": "Each person may start so many requests in a minute.",
    },
    "trust": {
        "after_untrusted": "What happens to calls that destroy or reach out after such content.",
        "by_role": "The same for people with a role; of several roles the strictest counts.",
        "trust_client_results": "Whether results that applications send do not count as such content.",
        "trust_client_history": "Whether a history that an application sends does not count as such content.",
    },
    "tool": {
        "enabled": "If it is off, no model is shown the tool and no call of it runs.",
        "roles": "Only people with one of these roles may use the tool.",
        "divisions": "Only people of these divisions may use the tool.",
        "approval": "Whether a person has to approve each call, and whether that has to be somebody else.",
        "approvers": "Who may approve calls: role:NAME or user:NAME; otherwise the person who asked and approvers.",
        "approvals": "So many people have to approve a call.",
        "approval_reason": "Whoever decides has to say why.",
        "timeout_s": "A call without a result after so many seconds has failed.",
        "approval_s": "A call that nobody has decided after so many seconds is not run.",
        "client_s": "An application has so many seconds to send the result of a call.",
        "retries": "A failed call of a tool that may be repeated is tried again so often.",
        "read_only": "Says that the tool changes nothing.",
        "destructive": "Says that the tool can destroy something; such calls run alone.",
        "open_world": "Says that the tool reaches beyond this server, such as to the web.",
        "untrusted": "Whether results count as written by strangers.",
        "after_untrusted": "What happens to a call after the model has read what strangers wrote.",
        "idempotent": "Says that a repeated call does nothing more, so that it may be tried again.",
        "exclusive": "Calls run alone, not together with others of the same turn.",
        "max_result_bytes": "Longer results are cut, and the model reads the rest in pieces.",
        "examples": "Sentences that the offline model turns into calls of this tool.",
    },
}


def find_effect(kind: str, field: str) -> str:
    """Return the effect of a field of a kind of setting, or of a table such as `limits`."""
    return EFFECTS[kind][field]
