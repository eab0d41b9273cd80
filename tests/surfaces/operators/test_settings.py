"""`/settings`: providers and models that an administrator sets while the server runs."""

import json
from collections.abc import Sequence

import pytest

from stores.memory_replicas import MemoryDatabase, SharedMemoryStore
from surfaces.api_client import ApiClient, Json, build_key
from surfaces.unconfigured import MODEL, PROVIDER, chat, open_unconfigured
from toolyard import tool
from toolyard.core.errors import StoreDown
from toolyard.core.settings.models.cards import Provider
from toolyard.core.settings.runtime import EntryId
from toolyard.core.store import RecordChange
from toolyard.core.store.audit_chain import AuditEntry
from toolyard.engine.settings.setting_store import ConfiguredEntry
from toolyard.models.resolver import ModelSettings
from toolyard.stores.memory import MemoryStore
from wire.keyed_provider import KeyedProvider


async def test_a_stored_provider_and_default_model_answer_the_next_run() -> None:
    provider = KeyedProvider("from the shop", "secret-key")
    async with provider.serving() as url, open_unconfigured() as http:
        saved = await http.put(PROVIDER, {"value": {"base_url": url, "api_key": "secret-key"}})
        assert saved["setting"]["value"] == {"base_url": url, "api_key": "***"}
        assert saved["setting"]["source"] == "store" and saved["setting"]["changed_by"]
        assert (
            "not one of"
            in (await http.post("/conversations", {"title": "x", "model": "shop:small"}, expect=422))["error"]
        )
        await http.put(MODEL, {"value": "shop:small"})
        assert await chat(http) == "from the shop"
        assert provider.sent_keys == ["secret-key"] and provider.bodies[0]["model"] == "small"
        models = (await http.get("/models"))["models"]
        assert [(card["id"], card["default"], card["available"]) for card in models] == [("shop:small", True, True)]
        assert "secret-key" not in str(await http.get("/settings"))


async def read_changes(http: ApiClient, action: str) -> list[Json]:
    entries = (await http.get(f"/audit?action={action}"))["entries"]
    return [json.loads(entry["change"]) for entry in entries if entry["outcome"] == "allowed"]


async def test_a_change_with_an_old_version_is_refused_with_the_newer_value() -> None:
    async with open_unconfigured() as http:
        path, value = "/settings/model_options/openai:gpt-5", {"temperature": 0.2}
        status, created, headers = await http.send_request("PUT", path, {"value": value}, if_none_match="*")
        assert status == 200 and headers["etag"] == f'"{created["setting"]["version"]}"'
        status, refused, _ = await http.send_request("PUT", path, {"value": {}}, if_none_match="*")
        assert (status, refused["error_type"]) == (412, "outdated")
        newer = {"temperature": 0.7, "window": 9_000}
        status, changed, _ = await http.send_request("PUT", path, {"value": newer}, if_match=headers["etag"])
        assert status == 200 and changed["setting"]["version"] != created["setting"]["version"]
        for method, body in (("PUT", {"value": {"seed": 1}}), ("DELETE", None)):
            status, refused, _ = await http.send_request(method, path, body, if_match=headers["etag"])
            assert status == 412 and refused["details"]["current"]["value"] == newer
        assert (await http.get(path))["setting"]["value"] == newer
        status, _, _ = await http.send_request("DELETE", path, if_match=f'"{changed["setting"]["version"]}"')
        assert status == 200
        await http.get(path, expect=404)
        status, refused, _ = await http.send_request("PUT", path, {"value": value}, if_match=headers["etag"])
        assert status == 412 and refused["details"]["current"] is None


async def test_every_change_is_audited_with_before_and_after_and_without_secrets() -> None:
    async with open_unconfigured() as http:
        first = {"base_url": "http://127.0.0.1:9/v1", "api_key": "first-key", "headers": {"X-Team": "team-secret"}}
        await http.put(PROVIDER, {"value": first})
        await http.put(PROVIDER, {"value": {**first, "api_key": "second-key", "wire": "chat"}})
        await http.delete(PROVIDER)
        masked = {**first, "api_key": "***", "headers": {"X-Team": "***"}}
        second = {**masked, "wire": "chat"}
        assert await read_changes(http, "setting.set") == [
            {"before": masked, "after": second},
            {"before": None, "after": masked},
        ]
        assert await read_changes(http, "setting.delete") == [{"before": second, "after": None}]
        assert (await http.get("/audit/verification"))["intact"]


async def test_a_masked_secret_is_kept_for_its_address_and_for_no_other() -> None:
    one, two = KeyedProvider("one", "secret-key"), KeyedProvider("two", "secret-key")
    async with one.serving() as first, two.serving() as second, open_unconfigured() as http:
        await http.put(PROVIDER, {"value": {"base_url": first, "api_key": "secret-key"}})
        await http.put(MODEL, {"value": "shop:small"})
        await http.put(PROVIDER, {"value": {"base_url": first, "api_key": "***", "wire": "chat"}})
        assert await chat(http) == "one" and one.sent_keys == ["secret-key"]
        refused = await http.put(PROVIDER, {"value": {"base_url": second, "api_key": "***"}}, expect=422)
        assert refused["details"]["fields"][0]["key"] == "api_key" and "another address" in refused["error"]
        tried = await http.post("/providers/shop/test", {"value": {"base_url": second, "api_key": "***"}}, expect=422)
        assert "another address" in tried["error"]
        await http.put("/settings/providers/new", {"value": {"base_url": second, "api_key": "***"}}, expect=422)
        assert await chat(http) == "one" and not two.sent_keys


async def test_no_key_of_the_environment_is_sent_to_a_stored_address() -> None:
    provider = KeyedProvider("caught", "key-of-the-environment")
    async with provider.serving() as url, open_unconfigured() as http:
        value = {"base_url": url}
        tried = await http.send_request("POST", "/providers/openai/test", {"value": value, "model": "small"})
        await http.put("/settings/providers/openai", {"value": value})
        await http.put(MODEL, {"value": "openai:small"})
        conversation = await http.create_conversation()
        await http.post(f"{conversation}/chat", {"content": "hi"}, expect=502)
        assert not tried[1]["success"] and set(provider.sent_keys) == {""}


@pytest.mark.parametrize(
    ("path", "value", "field", "says"),
    [
        ("providers/shop", {"api_key": "x"}, "base_url", "must be given"),
        ("providers/shop", {"base_url": "ftp://x"}, "base_url", "URL that begins with"),
        ("providers/shop", {"base_url": "https://ann:pw@shop.example/v1"}, "base_url", "must hold no user"),
        ("providers/shop", {"base_url": "https://shop.example/v1?key=x"}, "base_url", "must hold no user"),
        ("providers/local", {"base_url": "https://shop.example/v1"}, "name", "must have 1 to 64"),
        ("providers/shop", {"base_ur": "https://shop.example"}, "base_ur", "did you mean base_url?"),
        ("providers/openai", {"api_key": "two\nlines"}, "api_key", "must be one line"),
        ("providers/openai", "x", "value", "must be a table"),
        ("model_options/openai:gpt-5", {"temperature": 9}, "temperature", ""),
        ("model_access/openai:*", {"roles": "admin"}, "roles", "must be a list"),
        ("general/model", "shop:small", "value", "is not a model"),
        ("general/model", "local:/etc/passwd", "value", "no address and no file"),
        ("general/models", ["http://127.0.0.1/v1#m"], "value", "no address and no file"),
        ("general/models", ["*"], "value", "must begin with a provider's name"),
        ("general/models", ["shop:*"], "value", "no known provider"),
        ("general/model", [], "value", "must not be empty"),
    ],
)
async def test_what_is_wrong_is_said_at_its_field_and_nothing_is_stored(
    path: str, value: object, field: str, says: str
) -> None:
    async with open_unconfigured() as http:
        refused = await http.put(f"/settings/{path}", {"value": value}, expect=422)
        keys = [problem["key"] for problem in refused["details"]["fields"]]
        assert keys == [field] and says in refused["error"], refused
        assert not (await http.get("/settings"))["settings"]


async def test_unknown_kinds_and_entries_are_not_found() -> None:
    async with open_unconfigured() as http:
        for path in ("/settings/port/8080", "/settings/general/port", "/settings/general/providers", "/settings/x/y"):
            await http.get(path, expect=404)
            await http.put(path, {"value": {}}, expect=404)
            await http.delete(path, expect=404)


async def test_the_file_wins_and_the_conflict_is_shown_until_the_stored_entry_is_deleted() -> None:
    stored, configured = KeyedProvider("stored", "one"), KeyedProvider("of the file", "two")
    async with stored.serving() as stored_url, configured.serving() as file_url:
        database, secret = MemoryDatabase(), "s" * 40
        async with open_unconfigured(opened_store=SharedMemoryStore(database), secret=secret) as http:
            await http.put(PROVIDER, {"value": {"base_url": stored_url, "api_key": "one"}})
        settings = ModelSettings(providers={"shop": Provider(base_url=file_url, api_key="two")}, environment={})
        entry = ConfiguredEntry(value={"base_url": file_url, "api_key": "***"}, location="toolyard.toml line 7")
        async with open_unconfigured(
            opened_store=SharedMemoryStore(database),
            secret=secret,
            model_settings=settings,
            configured_settings={EntryId("providers", "shop"): entry},
        ) as http:
            await http.put(MODEL, {"value": "shop:small"})
            assert await chat(http) == "of the file" and not stored.sent_keys
            shown = (await http.get(PROVIDER))["setting"]
            assert (shown["source"], shown["location"]) == ("file", "toolyard.toml line 7")
            assert shown["value"] == entry.value and "is not used" in shown["conflict"]
            refused = await http.put(PROVIDER, {"value": {"base_url": stored_url}}, expect=409)
            assert "toolyard.toml line 7" in refused["error"]
            await http.delete(PROVIDER)
            assert not (await http.get(PROVIDER))["setting"]["conflict"]
            assert "toolyard.toml line 7" in (await http.delete(PROVIDER, expect=409))["error"]


async def test_a_provider_is_tried_by_real_requests_and_the_answer_is_said_in_words() -> None:
    provider = KeyedProvider("ready", "secret-key")
    async with provider.serving() as url, open_unconfigured() as http:
        value = {"base_url": url, "api_key": "secret-key"}
        listed = await http.post("/providers/shop/test", {"value": value})
        assert listed["test"]["models"] == ["small", "large"] and "lists 2 models" in listed["message"]
        answered = await http.post("/providers/shop/test", {"value": value, "model": "small"})
        assert answered["test"]["reply"] == "ready" and "small answered" in answered["message"]
        assert not (await http.get("/settings"))["settings"]
        await http.put(PROVIDER, {"value": value})
        assert (await http.post("/providers/shop/test"))["success"]
        status, wrong, _ = await http.send_request(
            "POST", "/providers/shop/test", {"value": {"base_url": url, "api_key": "wrong-key"}}
        )
        assert status == 200 and not wrong["success"] and "wrong" in wrong["message"] and "wrong-key" not in str(wrong)
        await http.post("/providers/unknown/test", expect=404)
        audited = (await http.get("/audit?action=provider.test"))["entries"]
        assert len(audited) == 6 and {entry["target"] for entry in audited} == {"shop", "unknown"}


async def test_fallbacks_options_and_access_of_models_are_set_while_the_server_runs() -> None:
    provider = KeyedProvider("answer", "key")
    keys = [build_key("root", "admin", tenant=""), build_key("ann", "analyst"), build_key("bob")]
    async with provider.serving() as url, open_unconfigured(keys=keys, private_addresses=True) as http:
        root, ann, bob = (http.with_key(name) for name in ("root", "ann", "bob"))
        await root.put(PROVIDER, {"value": {"base_url": url, "api_key": "key"}})
        await root.put("/settings/providers/gone", {"value": {"base_url": "http://127.0.0.1:9/v1", "api_key": "key"}})
        await root.put(MODEL, {"value": ["gone:first", "shop:second"]})
        await root.put("/settings/general/models", {"value": ["shop:small"]})
        await root.put("/settings/model_options/shop:small", {"value": {"temperature": 0.25}})
        await root.put("/settings/model_access/shop:small", {"value": {"roles": ["analyst"]}})
        assert await chat(bob) == "answer" and provider.bodies[-1]["model"] == "second"
        assert await chat(ann, model="shop:small") == "answer"
        assert provider.bodies[-1]["temperature"] == 0.25
        conversation = await bob.create_conversation(model="shop:small")
        refused = await bob.post(f"{conversation}/chat", {"content": "hi"}, expect=403)
        assert "not for your roles" in refused["error"]
        assert "shop:small" in str(await ann.get("/models")) and "shop:small" not in str(await bob.get("/models"))
        # A fallback that is not for the caller is left out of the chain.
        await root.put("/settings/model_access/shop:second", {"value": {"roles": ["analyst"]}})
        assert await chat(ann) == "answer"
        conversation = await bob.create_conversation()
        await bob.post(f"{conversation}/chat", {"content": "hi"}, expect=503)


async def test_a_rule_for_every_model_holds_for_the_model_of_a_preset_and_in_each_list_of_models() -> None:
    provider = KeyedProvider("answer", "key")
    keys = [build_key("root", "admin", tenant=""), build_key("ann", "analyst"), build_key("bob")]
    async with provider.serving() as url, open_unconfigured(keys=keys, private_addresses=True) as http:
        root, ann, bob = (http.with_key(name) for name in ("root", "ann", "bob"))
        await root.put(PROVIDER, {"value": {"base_url": url, "api_key": "key"}})
        await root.put("/settings/general/models", {"value": ["shop:small"]})
        await root.put("/settings/model_access/*", {"value": {"roles": ["analyst"]}})
        await ann.put("/presets/Short", {"settings": {"model": "shop:small"}, "shared": True})
        for path in ("/v1/chat/completions", "/v1/messages"):
            body = {"model": "preset:Short", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 100}
            status, answer, _ = await ann.send_request("POST", path, body)
            assert status == 200 and "answer" in str(answer)
            status, refused, _ = await bob.send_request("POST", path, body)
            assert status == 403 and "not for your roles" in str(refused)
        conversation = await bob.create_conversation()
        await bob.put(conversation, {"model": "preset:Short"}, expect=403)
        conversation = await bob.create_conversation(model="preset:Short")
        await bob.post(f"{conversation}/chat", {"content": "hi"}, expect=403)
        for headers in ({}, {"anthropic_version": "2023-06-01"}):
            listed = [str((await caller.send_request("GET", "/v1/models", **headers))[1]) for caller in (ann, bob)]
            assert ["shop:small" in models for models in listed] == [True, False]


async def test_what_the_default_model_needs_is_not_deleted() -> None:
    async with open_unconfigured() as http:
        await http.put(PROVIDER, {"value": {"base_url": "http://127.0.0.1:9/v1", "api_key": "key"}})
        await http.put(MODEL, {"value": "shop:small"})
        refused = await http.delete(PROVIDER, expect=409)
        assert "the default model 'shop:small' could not be used" in refused["error"]
        await http.delete(MODEL)
        await http.delete(PROVIDER)
        assert (await http.get("/models"))["models"][0]["id"] == "toolyard:offline"


async def test_the_answer_has_a_form_for_each_kind_and_says_which_fields_are_secret() -> None:
    async with open_unconfigured() as http:
        answer = await http.get("/settings")
        forms = {form["kind"]: {field["name"]: field for field in form["fields"]} for form in answer["forms"]}
        assert list(forms) == [
            "general", "providers", "model_options", "model_access", "tool", "prices", "budgets",
            "divisions", "tenants",
        ]  # fmt: skip
        assert {name for name, field in forms["providers"].items() if field["secret"]} == {"api_key", "headers"}
        assert forms["providers"]["wire"]["choices"] == ["chat", "gemini", "messages", "responses"]
        assert forms["providers"]["base_url"]["expects"] == "a URL that begins with http:// or https://"


async def test_a_stored_provider_is_at_a_private_address_only_where_that_is_allowed() -> None:
    provider = KeyedProvider("answer", "key")
    keys = [build_key("root", "admin", tenant="")]
    async with provider.serving() as url:
        value = {"base_url": url, "api_key": "key"}
        for wiring, reaches in (({}, True), ({"keys": keys}, False), ({"keys": keys, "private_addresses": True}, True)):
            async with open_unconfigured(**wiring) as http:
                root = http.with_key("root") if "keys" in wiring else http
                for body in ({"value": value}, {"value": value, "model": "small"}):
                    _, answer, _ = await root.send_request("POST", "/providers/shop/test", body)
                    assert answer["success"] is reaches, (wiring, answer)
                    assert ("private_addresses = true" in answer["message"]) is not reaches
                await root.put(PROVIDER, {"value": value})
                await root.put(MODEL, {"value": "shop:small"})
                conversation = await root.create_conversation()
                await root.post(f"{conversation}/chat", {"content": "hi"}, expect=200 if reaches else 503)


def pay() -> str:
    """Pay the bill."""
    return "paid"


async def start_waiting_run(http: ApiClient) -> tuple[str, str]:
    """Start a run whose call waits for an approval. Return the conversation's path, and that of the call."""
    conversation = await http.create_conversation()
    waiting = await http.post(f"{conversation}/chat", {"content": "pay"}, expect=202)
    return conversation, f"{conversation}/calls/{waiting['waiting'][0]['call_id']}"


async def read_end(http: ApiClient, conversation: str) -> Json:
    return (await http.read_until_done(conversation))[-1][1]


async def test_an_open_run_keeps_its_model_and_loses_it_only_where_a_rule_restricts_it() -> None:
    first, second = KeyedProvider("first", "key"), KeyedProvider("second", "key")
    first.first_call = "pay"
    tools = [tool(approval="always")(pay)]
    async with first.serving() as first_url, second.serving() as second_url, open_unconfigured(tools=tools) as http:
        await http.put(PROVIDER, {"value": {"base_url": first_url, "api_key": "key"}})
        await http.put("/settings/providers/other", {"value": {"base_url": second_url, "api_key": "key"}})
        await http.put(MODEL, {"value": "shop:small"})
        kept, kept_call = await start_waiting_run(http)
        lost, lost_call = await start_waiting_run(http)
        await http.put(MODEL, {"value": "other:large"})
        await http.post(f"{kept_call}/approve", {})
        assert (await read_end(http, kept))["ending"] == "done" and not second.bodies
        assert await chat(http) == "second"
        requests = len(first.bodies)
        await http.put("/settings/model_access/shop:*", {"value": {"roles": ["nobody-has-it"]}})
        await http.post(f"{lost_call}/approve", {})
        assert (await read_end(http, lost))["ending"] == "failed" and len(first.bodies) == requests
        assert "not for your roles" in str(await http.list_messages(lost)) + str(await http.read_until_done(lost))


class FailingStore(MemoryStore):
    """Fails to write a setting, as a database that is cut off in the middle of a change."""

    fails = False

    async def change_records(self, changes: Sequence[RecordChange]) -> Sequence[AuditEntry]:
        if self.fails:
            raise StoreDown("the connection is lost")
        return await super().change_records(changes)


async def test_a_change_that_cannot_be_stored_is_not_applied_and_is_audited_as_failed() -> None:
    store, path = FailingStore(), "/settings/general/models"
    async with open_unconfigured(opened_store=store) as http:
        await http.put(path, {"value": ["openai:gpt-5"]})
        store.fails = True
        await http.put(path, {"value": ["openai:gpt-4"]}, expect=503)
        assert (await http.get(path))["setting"]["value"] == ["openai:gpt-5"]
        assert "openai:gpt-4" not in str(await http.get("/models"))
        entries = (await http.get("/audit?action=setting.set"))["entries"]
        assert [entry["outcome"] for entry in entries] == ["failed", "allowed"]
        assert "openai:gpt-4" in entries[0]["change"]
