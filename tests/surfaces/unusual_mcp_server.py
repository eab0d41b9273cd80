"""A legacy MCP server over standard streams whose definitions and results have fields that no SDK knows.

Its argument is its name. `dies` ends when a resource is read, `silent` does not answer then, `mute` does not list its
resources, and `refuses` has none.
"""

import json
import os
import sys
from typing import Any

NAME = sys.argv[1] if len(sys.argv) > 1 else "one"
TOOL: Any = {
    "name": "odd",
    "title": "An odd tool",
    "description": "Odd.",
    "inputSchema": {"type": "object", "properties": {"fail": {"type": "boolean"}}},
    "outputSchema": {"type": "object", "description": "kept"},
    "annotations": {"readOnlyHint": True, "x-hint": 1},
    "icons": [{"src": "https://example.org/i.png", "theme": "dark"}],
    "_meta": {"example.org/a": "b"},
    "x-nobody-knows": [1, {"a": None}],
}
RESULT: Any = {
    "content": [
        {"type": "text", "text": "one", "annotations": {"audience": ["user"], "priority": 0.5}},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "odd://one", "name": "one", "_meta": {"example.org/link": 1}},
        {"type": "resource", "resource": {"uri": "odd://one", "blob": "aGk=", "mimeType": "a/b"}},
        {"type": "x-new-kind", "of": {"the": "future"}},
    ],
    "structuredContent": {"big": 12345678901234567890, "half": 0.5, "none": None},
    "_meta": {"example.org/result": "yes"},
    "x-more": "passes",
}
PROMPT: Any = {"type": "text", "text": f"from {NAME}", "x-deep": {"er": 1}}
CAPABILITIES: Any = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}}


def build_result(method: str, params: Any) -> Any:
    match method:
        case "initialize":
            server_info = {"name": NAME, "version": "1"}
            return {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "serverInfo": server_info}
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            return RESULT if not params["arguments"].get("fail") else None
        case "resources/list" if NAME != "refuses":
            return {"resources": [{"uri": f"odd://{NAME}", "name": NAME}]}
        case "resources/subscribe" if params["uri"] == f"odd://{NAME}":
            return {}
        case "resources/read" if params["uri"] == f"odd://{NAME}":
            return {"contents": [{"uri": params["uri"], "text": "1", "x-also": True}]}
        case "prompts/list":
            return {"prompts": [{"name": "odd", "description": "Odd."}]}
        case "prompts/get":
            return {"messages": [{"role": "user", "content": PROMPT}]}
        case "completion/complete":
            return {"completion": {"values": [f"from {NAME}: {params['ref']['name']}"]}}
        case _:
            return None


FAILURES: Any = {
    "tools/call": {"code": -31999, "message": "odd", "data": {"why": "asked"}},
    "resources/read": {"code": -32002, "message": "Resource not found"},
}

for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") in ("resources/read", "resources/subscribe") and NAME in ("dies", "silent"):
        if NAME == "dies":
            os._exit(3)
        continue
    if NAME == "mute" and message.get("method") == "resources/list":
        continue
    if "id" in message and "method" in message:
        result = build_result(message["method"], message.get("params"))
        error = FAILURES.get(message["method"], {"code": -32601, "message": "Method not found"})
        outcome = {"error": error} if result is None else {"result": result}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}) + "\n")
        sys.stdout.flush()
