"""An MCP server over standard streams with what the conformance suite asks of a server. Made by hand, of both eras.

It uses no SDK, so that whatever it says is what it says: fields that nobody knows, too. `--era legacy` or `modern` has
it speak one era only, and its tools ask in that era's way. `both` has it speak both; then each tool asks in one way
only, and fails in the era that does not have it, as with the official SDKs. A thread for each request: a question to
the client can be waited for.
"""

import argparse
import hashlib
import hmac
import json
import secrets
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

Json = Any
META_PREFIX = "io.modelcontextprotocol/"
MODERN, LEGACY = "2026-07-28", "2025-11-25"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
SOUND = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
PUSHING = {
    "test_sampling",
    "test_elicitation",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
}
"""Tools that ask by a request of their own; the others answer that they need input."""
SECRET = secrets.token_bytes(16)
EMPTY: Json = {"type": "object", "properties": {}}
RICH: Json = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


class RpcError(Exception):
    def __init__(self, code: int, message: str, data: Json = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message} | ({"data": data} if data is not None else {})


class InputRequired(Exception):
    """A modern client has to come again with the answers to these."""

    def __init__(self, requests: Json, state: str | None) -> None:
        super().__init__()
        self.result = {"resultType": "input_required", "inputRequests": requests}
        self.result |= {} if state is None else {"requestState": state}


class FixtureServer:
    """The pipes, and what is known of the client at the other end."""

    def __init__(self, era: str) -> None:
        self.era = era
        self.capabilities: Json = {}
        self.listeners: dict[Json, Json] = {}
        self.subscribed: set[str] = set()
        self.extra: list[str] = []
        self._turn = threading.Lock()
        self._waiting: dict[str, tuple[threading.Event, list[Json]]] = {}

    def send(self, **message: Json) -> None:
        with self._turn:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            sys.stdout.flush()

    def ask(self, method: str, params: Json) -> Json:
        """A question to a legacy client, and its answer."""
        id, answered, answer = secrets.token_hex(4), threading.Event(), list[Json]()
        self._waiting[id] = answered, answer
        self.send(id=id, method=method, params=params)
        answered.wait(60)
        if not answer or "result" not in answer[0]:
            raise RpcError(-32603, "the client did not answer")
        return answer[0]["result"]

    def handle_line(self, line: str) -> None:
        message = json.loads(line)
        if "method" not in message:
            answered, answer = self._waiting.pop(message["id"], (threading.Event(), []))
            answer.append(message)
            answered.set()
        elif "id" in message:
            threading.Thread(target=self._answer, args=(message,), daemon=True).start()
        elif message["method"] == "notifications/cancelled":
            self.listeners.pop(message["params"].get("requestId"), None)

    def _answer(self, message: Json) -> None:
        request = FixtureRequest(self, message)
        try:
            result = request.answer()
            if result is not None:
                self.send(id=message["id"], result=result)
        except InputRequired as needed:
            self.send(id=message["id"], result=needed.result)
        except RpcError as error:
            self.send(id=message["id"], error=error.error)

    def notify_changed(self, what: str) -> None:
        """Tell whoever wants to know that a list is another now."""
        method = f"notifications/{what}/list_changed"
        if not self.listeners:
            self.send(method=method)
        for id, listener in list(self.listeners.items()):
            if listener.get(f"{what}ListChanged"):
                self.send(method=method, params={"_meta": {f"{META_PREFIX}subscriptionId": id}})


class FixtureRequest:
    def __init__(self, server: FixtureServer, message: Json) -> None:
        self.server = server
        self.id = message["id"]
        self.method: str = message["method"]
        self.params: Json = message.get("params") or {}
        self.meta: Json = self.params.get("_meta") or {}
        self.modern = f"{META_PREFIX}protocolVersion" in self.meta
        self.capabilities = self.meta.get(f"{META_PREFIX}clientCapabilities") if self.modern else server.capabilities

    def answer(self) -> Json:
        if self.modern == (self.server.era == "legacy") and self.server.era != "both":
            raise RpcError(-32601, "Method not found")
        handler = METHODS.get(self.method)
        if handler is None or (self.modern and self.method in OLD) or (not self.modern and self.method in NEW):
            raise RpcError(-32601, "Method not found")
        result = handler(self)
        if self.modern and result is not None:
            result = {"resultType": "complete", **result}
            if self.method in CACHEABLE:
                result = {"ttlMs": 300_000, "cacheScope": "public", **result}
        return result

    def need(self, requests: Json, state: str | None = None) -> Json:
        """The client's answers to these questions."""
        self._require_era()
        if not self.modern:
            return {name: self.server.ask(request["method"], request["params"]) for name, request in requests.items()}
        answers: Json = self.params.get("inputResponses") or {}
        if all(isinstance(answers.get(name), dict) for name in requests):
            return answers
        raise InputRequired(requests, state)

    def _require_era(self) -> None:
        """Raise RpcError if the tool or prompt cannot ask in the era of this request."""
        pushes = self.params.get("name") in PUSHING
        if self.server.era == "both" and self.modern and pushes:
            raise RpcError(-32600, "Cannot ask: there is no back-channel for server-initiated requests")
        if self.server.era == "both" and not self.modern and not pushes:
            raise RpcError(-32603, "The result is not one of this protocol version")

    def progress(self, done: float, total: float) -> None:
        token = self.meta.get("progressToken")
        if token is not None:
            params = {"progressToken": token, "progress": done, "total": total, "message": f"{done} of {total}"}
            self.server.send(method="notifications/progress", params=params)

    def log(self, words: str) -> None:
        if not self.modern or f"{META_PREFIX}logLevel" in self.meta:
            self.server.send(method="notifications/message", params={"level": "info", "logger": "test", "data": words})


def sign_state(**payload: Json) -> str:
    data = json.dumps(payload)
    return json.dumps({"data": data, "mac": hmac.new(SECRET, data.encode(), hashlib.sha256).hexdigest()})


def verify_state(state: Json) -> Json:
    try:
        signed_state = json.loads(state)
        if hmac.compare_digest(
            signed_state["mac"], hmac.new(SECRET, signed_state["data"].encode(), hashlib.sha256).hexdigest()
        ):
            return json.loads(signed_state["data"])
    except (ValueError, TypeError, KeyError):
        pass
    raise RpcError(-32602, "this requestState is not ours")


def form(message: str, **properties: Json) -> Json:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def prompt_for(words: str, max_tokens: int = 100) -> Json:
    messages = [{"role": "user", "content": {"type": "text", "text": words}}]
    return {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": max_tokens}}


ROOTS: Json = {"method": "roots/list", "params": {}}
TEXT: Json = {"type": "string"}


def text(words: str, **more: Json) -> Json:
    return {"content": [{"type": "text", "text": words}], **more}


# Tools


def embed_resource(uri: str, words: str, kind: str = "text/plain") -> Json:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": kind, "text": words}}


def answer_mixed(request: FixtureRequest) -> Json:
    image = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    resource = embed_resource("test://mixed-content-resource", '{"test":"data","value":123}', "application/json")
    return {"content": [{"type": "text", "text": "Multiple content types test:"}, image, resource]}


def logs(request: FixtureRequest) -> Json:
    for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        request.log(words)
        time.sleep(0.05)
    return text("Tool with logging executed successfully")


def progresses(request: FixtureRequest) -> Json:
    for done in (0, 50, 100):
        request.progress(done, 100)
        time.sleep(0.05)
    return text(str(request.meta.get("progressToken", 0)))


def samples(request: FixtureRequest) -> Json:
    words = request.params["arguments"]["prompt"]
    completion = request.need({"completion": prompt_for(words)})["completion"]
    return text(f"LLM response: {completion['content']['text']}")


def elicits(request: FixtureRequest) -> Json:
    message = request.params["arguments"]["message"]
    properties = {"username": {"type": "string", "description": "User's response"}, "email": {"type": "string"}}
    answer = request.need({"answer": form(message, **properties)})["answer"]
    return text(f"User response: action={answer['action']}, content={json.dumps(answer.get('content') or {})}")


def elicits_with(message: str, **properties: Json) -> Callable[[FixtureRequest], Json]:
    def run(request: FixtureRequest) -> Json:
        question = form(message, **properties)
        question["params"]["requestedSchema"]["required"] = []
        answer = request.need({"answer": question})["answer"]
        return text(
            f"Elicitation completed: action={answer['action']}, content={json.dumps(answer.get('content') or {})}"
        )

    return run


def choice(*values: str) -> list[Json]:
    return [{"const": value, "title": f"The {value}"} for value in values]


def greets(request: FixtureRequest) -> Json:
    answer = request.need({"user_name": form("What is your name?", name=TEXT)})["user_name"]
    content: Json = answer.get("content") or {}
    return text(f"Hello, {content.get('name', 'unknown')}!")


def capital(request: FixtureRequest) -> Json:
    completion = request.need({"capital_question": prompt_for("What is the capital of France?")})["capital_question"]
    return text(f"The model says: {completion['content']['text']}")


def lists_roots(request: FixtureRequest) -> Json:
    answer = request.need({"client_roots": ROOTS})["client_roots"]
    return text(f"{len(answer['roots'])} roots: {', '.join(root['uri'] for root in answer['roots'])}")


def keeps_state(request: FixtureRequest) -> Json:
    state = sign_state(step=1)
    request.need({"confirm": form("Please confirm", ok={"type": "boolean"})}, state)
    if request.modern:
        verify_state(request.params.get("requestState"))
    return text("state-ok")


def asks_for_much(request: FixtureRequest) -> Json:
    questions = {
        "user_name": form("What is your name?", name=TEXT),
        "greeting": prompt_for("Generate a greeting", 50),
        "client_roots": ROOTS,
    }
    answers = request.need(questions, sign_state(step=1))
    return text(f"{answers['greeting']['content']['text']} ({len(answers['client_roots']['roots'])} roots)")


def two_rounds(request: FixtureRequest) -> Json:
    first = {"step1": form("Step 1: What is your name?", name=TEXT)}
    second = {"step2": form("Step 2: What is your favorite color?", color=TEXT)}
    if not request.modern:
        name = request.need(first)["step1"]["content"]["name"]
        return text(f"{name} likes {request.need(second)['step2']['content']['color']}")
    if "requestState" not in request.params:
        raise InputRequired(first, sign_state(step=1))
    state = verify_state(request.params["requestState"])
    if state["step"] == 1:
        answer = request.need(first, request.params["requestState"])["step1"]
        raise InputRequired(second, sign_state(step=2, name=answer["content"]["name"]))
    return text(f"{state['name']} likes {request.need(second)['step2']['content']['color']}")


def asks_what_it_may(request: FixtureRequest) -> Json:
    questions: Json = {}
    if "sampling" in request.capabilities:
        questions["completion"] = prompt_for("Say something")
    if "elicitation" in request.capabilities:
        questions["answer"] = form("Say something", words=TEXT)
    if questions:
        request.need(questions)
    return text("done")


def needs_sampling(request: FixtureRequest) -> Json:
    if "sampling" not in request.capabilities:
        raise RpcError(-32021, "this needs sampling", {"requiredCapabilities": {"sampling": {}}})
    return capital(request)


def changes(what: str) -> Callable[[FixtureRequest], Json]:
    def run(request: FixtureRequest) -> Json:
        request.server.extra.append(f"test_dynamic_{what[:-1]}_{len(request.server.extra)}")
        request.server.notify_changed(what)
        return text(f"changed the {what}")

    return run


Run = Callable[[FixtureRequest], Json]
ENUMS: Json = {
    "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
    "titledSingle": {"type": "string", "oneOf": choice("value1", "value2", "value3")},
    "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]},
    "untitledMulti": {"type": "array", "minItems": 1, "items": {"type": "string", "enum": ["option1", "option2"]}},
    "titledMulti": {"type": "array", "minItems": 1, "items": {"anyOf": choice("value1", "value2", "value3")}},
}
DEFAULTS: Json = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
WORDS: dict[str, Json] = {
    "test_sampling": {"type": "object", "properties": {"prompt": TEXT}, "required": ["prompt"]},
    "test_elicitation": {"type": "object", "properties": {"message": TEXT}, "required": ["message"]},
    "json_schema_2020_12_tool": RICH,
    "test_custom_header": {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}},
}
TOOLS: dict[str, Run] = {
    "test_simple_text": lambda _: text("This is a simple text response for testing."),
    "test_image_content": lambda _: {"content": [{"type": "image", "data": PIXEL, "mimeType": "image/png"}]},
    "test_audio_content": lambda _: {"content": [{"type": "audio", "data": SOUND, "mimeType": "audio/wav"}]},
    "test_embedded_resource": lambda _: {"content": [embed_resource("test://embedded-resource", "This is embedded.")]},
    "test_multiple_content_types": answer_mixed,
    "test_tool_with_logging": logs,
    "test_logging_tool": logs,
    "test_tool_with_progress": progresses,
    "test_error_handling": lambda _: text("This tool intentionally returns an error for testing", isError=True),
    "test_sampling": samples,
    "test_elicitation": elicits,
    "test_streaming_elicitation": greets,
    "test_elicitation_sep1034_defaults": elicits_with("Please review the fields with defaults", **DEFAULTS),
    "test_elicitation_sep1330_enums": elicits_with("Please select options", **ENUMS),
    "json_schema_2020_12_tool": lambda request: text(json.dumps(request.params.get("arguments"))),
    "test_input_required_result_elicitation": greets,
    "test_input_required_result_sampling": capital,
    "test_input_required_result_list_roots": lists_roots,
    "test_input_required_result_request_state": keeps_state,
    "test_input_required_result_tampered_state": keeps_state,
    "test_input_required_result_multiple_inputs": asks_for_much,
    "test_input_required_result_multi_round": two_rounds,
    "test_input_required_result_capabilities": asks_what_it_may,
    "test_missing_capability": needs_sampling,
    "test_custom_header": lambda request: text(f"region {request.params['arguments'].get('region')}"),
    "test_trigger_tool_change": changes("tools"),
    "test_trigger_prompt_change": changes("prompts"),
}


def list_tools(request: FixtureRequest) -> Json:
    extra = [name for name in request.server.extra if "_tool_" in name]
    return {"tools": [_describe_tool(name) for name in (*TOOLS, *extra)]}


def _describe_tool(name: str) -> Json:
    return {**_describe(name), "inputSchema": WORDS.get(name, EMPTY)}


def call_tool(request: FixtureRequest) -> Json:
    run = TOOLS.get(request.params.get("name", ""))
    if run is None:
        raise RpcError(-32602, "Unknown tool")
    return run(request)


# Resources, prompts and the rest

RESOURCES: dict[str, Json] = {
    "test://static-text": {"mimeType": "text/plain", "text": "This is the content of the static text resource."},
    "test://static-binary": {"mimeType": "image/png", "blob": PIXEL},
    "test://watched-resource": {"mimeType": "text/plain", "text": "Watched resource content"},
}


def list_resources(request: FixtureRequest) -> Json:
    resources = [{"uri": uri, "name": uri[7:], "mimeType": resource["mimeType"]} for uri, resource in RESOURCES.items()]
    return {"resources": resources}


def list_templates(request: FixtureRequest) -> Json:
    about = {"name": "template", "mimeType": "application/json", "description": "By id"}
    return {"resourceTemplates": [{"uriTemplate": "test://template/{id}/data", **about}]}


def read_resource(request: FixtureRequest) -> Json:
    uri = request.params["uri"]
    if uri in RESOURCES:
        return {"contents": [{"uri": uri, **RESOURCES[uri]}]}
    if uri.startswith("test://template/") and uri.endswith("/data"):
        id = uri.split("/")[3]
        text_content = json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})
        return {"contents": [{"uri": uri, "mimeType": "application/json", "text": text_content}]}
    raise RpcError(-32602 if request.modern else -32002, "Resource not found", {"uri": uri})


def build_prompt(*parts: Json) -> Json:
    return {"messages": [{"role": "user", "content": part} for part in parts]}


def contextual(request: FixtureRequest) -> Json:
    answer = request.need({"user_context": form("What context should the prompt use?", context=TEXT)})["user_context"]
    return build_prompt({"type": "text", "text": f"Prompt with context: {answer['content']['context']}"})


def with_arguments(request: FixtureRequest) -> Json:
    arguments: Json = request.params.get("arguments") or {}
    return build_prompt(
        {"type": "text", "text": f"Prompt with arguments: arg1='{arguments['arg1']}', arg2='{arguments['arg2']}'"}
    )


def with_resource(request: FixtureRequest) -> Json:
    uri = request.params["arguments"]["resourceUri"]
    return build_prompt(
        embed_resource(uri, "Embedded resource content for testing."), {"type": "text", "text": "Read the above."}
    )


PROMPTS: dict[str, tuple[Run, tuple[str, ...]]] = {
    "test_simple_prompt": (
        lambda _: build_prompt({"type": "text", "text": "This is a simple prompt for testing."}),
        (),
    ),
    "test_prompt_with_arguments": (with_arguments, ("arg1", "arg2")),
    "test_prompt_with_embedded_resource": (with_resource, ("resourceUri",)),
    "test_prompt_with_image": (
        lambda _: build_prompt(
            {"type": "image", "data": PIXEL, "mimeType": "image/png"}, {"type": "text", "text": "Look."}
        ),
        (),
    ),
    "test_input_required_result_prompt": (contextual, ()),
}


def list_prompts(request: FixtureRequest) -> Json:
    prompts = [
        {
            **_describe(name),
            "arguments": [{"name": argument, "description": argument, "required": True} for argument in arguments],
        }
        for name, (_, arguments) in PROMPTS.items()
    ]
    return {"prompts": [*prompts, *(_describe(name) for name in request.server.extra if "_prompt_" in name)]}


def _describe(name: str) -> Json:
    return {"name": name, "description": name.replace("_", " ")}


def get_prompt(request: FixtureRequest) -> Json:
    entry = PROMPTS.get(request.params.get("name", ""))
    if entry is None:
        raise RpcError(-32602, "Unknown prompt")
    return entry[0](request)


def subscribe(request: FixtureRequest) -> Json:
    request.server.subscribed.add(request.params["uri"])
    request.server.send(method="notifications/resources/updated", params={"uri": request.params["uri"]})
    return {}


def unsubscribe(request: FixtureRequest) -> Json:
    request.server.subscribed.discard(request.params["uri"])
    return {}


def listen(request: FixtureRequest) -> Json:
    notifications: Json = request.params.get("notifications") or {}
    about = {"_meta": {f"{META_PREFIX}subscriptionId": request.id}, "notifications": notifications}
    request.server.send(method="notifications/subscriptions/acknowledged", params=about)
    request.server.listeners[request.id] = notifications
    return None


ABOUT: Json = {
    "capabilities": {
        "tools": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "prompts": {"listChanged": True},
        "logging": {},
        "completions": {},
    },
    "instructions": "For conformance tests.",
}


def initialize(request: FixtureRequest) -> Json:
    request.server.capabilities = request.params.get("capabilities") or {}
    return {"protocolVersion": LEGACY, "serverInfo": {"name": "fixtures", "version": "1"}, **ABOUT}


def discover(request: FixtureRequest) -> Json:
    meta = {f"{META_PREFIX}serverInfo": {"name": "fixtures", "version": "1"}}
    return {"supportedVersions": [MODERN], "_meta": meta, **ABOUT}


METHODS: dict[str, Run] = {
    "initialize": initialize,
    "server/discover": discover,
    "ping": lambda _: {},
    "logging/setLevel": lambda _: {},
    "tools/list": list_tools,
    "tools/call": call_tool,
    "resources/list": list_resources,
    "resources/templates/list": list_templates,
    "resources/read": read_resource,
    "resources/subscribe": subscribe,
    "resources/unsubscribe": unsubscribe,
    "prompts/list": list_prompts,
    "prompts/get": get_prompt,
    "completion/complete": lambda _: {"completion": {"values": ["paris"], "total": 1, "hasMore": False}},
    "subscriptions/listen": listen,
}
OLD = {"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}
NEW = {"server/discover", "subscriptions/listen"}
CACHEABLE = {"server/discover", "tools/list", "resources/list", "resources/templates/list", "resources/read"} | {
    "prompts/list"
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--era", choices=["both", "legacy", "modern"], default="both")
    server = FixtureServer(parser.parse_args().era)
    for line in sys.stdin:
        server.handle_line(line)


if __name__ == "__main__":
    main()
