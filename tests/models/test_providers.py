"""Names of models: which provider, which wire, which address, which key, and what its own tools can do."""

from typing import get_args

import pytest

from toolyard import Yard
from toolyard.core.errors import Misconfigured
from toolyard.core.ports import Model
from toolyard.core.settings.models.cards import Provider
from toolyard.core.settings.models.options import Options
from toolyard.models.chat import OpenAIChat
from toolyard.models.gemini import Gemini
from toolyard.models.messages import Anthropic
from toolyard.models.native_router import NativeToolRouter
from toolyard.models.providers import PROVIDERS, WireName
from toolyard.models.resolver import ModelEndpoint, ModelResolver, ModelSettings, make_key_settings, make_wired_model
from toolyard.models.responses import OpenAIResponses
from toolyard.models.shared.hosted_tools import find_native_tools
from toolyard.server.config import Config
from toolyard.server.wiring import build_model_settings
from wire import responses_bytes, strict_chat
from wire.everything import ADD, PLAIN_SEARCH
from wire.local import events_of, offer, open_model, request, user
from wire.strict_responses import strict_responses

AZURE = {"AZURE_OPENAI_API_KEY": "k", "AZURE_OPENAI_ENDPOINT": "https://mine.openai.azure.com/"}


@pytest.mark.parametrize(
    ("name", "environment", "kind"),
    [
        ("openai:gpt-5-mini", {"OPENAI_API_KEY": "k"}, NativeToolRouter),
        ("azure:mine", AZURE, NativeToolRouter),
        ("anthropic:claude", {"ANTHROPIC_API_KEY": "k"}, Anthropic),
        ("gemini:gemini-3-flash", {"GEMINI_API_KEY": "k"}, Gemini),
        ("gemini:gemini-3-flash", {"GOOGLE_API_KEY": "k"}, Gemini),
        ("dashscope:qwen-plus", {"DASHSCOPE_API_KEY": "k"}, OpenAIChat),
        ("ollama:qwen3", {}, OpenAIChat),
        ("openrouter:x/y", {"OPENROUTER_API_KEY": "k"}, OpenAIChat),
        ("http://127.0.0.1:1/v1#m", {}, OpenAIChat),
    ],
)
async def test_a_name_leads_to_its_wire(
    name: str, environment: dict[str, str], kind: type[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    for model in (ModelSettings().make_model(name), ModelSettings(environment=environment).make_model(name)):
        assert type(model) is kind
        await model.close()


async def test_every_named_provider_can_be_made_on_every_wire_that_it_has() -> None:
    for name, provider in PROVIDERS.items():
        base_url = provider.resolve_base_url(name, AZURE)
        endpoint = ModelEndpoint(base_url=base_url, model="m", api_key="k", provider=name, preset=provider)
        await make_wired_model(endpoint).close()
        assert {provider.wire, provider.native_wire or provider.wire} <= {*get_args(WireName)}


def test_azure_is_where_its_endpoint_says() -> None:
    endpoint = ModelSettings(environment=AZURE).find_endpoint("azure:mine")
    assert (endpoint.base_url, endpoint.api_key) == ("https://mine.openai.azure.com/openai/v1", "k")
    elsewhere = ModelSettings(environment={**AZURE, "AZURE_BASE_URL": "http://127.0.0.1:1/v1"}).find_endpoint(
        "azure:mine"
    )
    assert elsewhere.base_url == "http://127.0.0.1:1/v1"
    with pytest.raises(Misconfigured, match="AZURE_OPENAI_ENDPOINT"):
        ModelSettings(environment={"AZURE_OPENAI_API_KEY": "k"}).find_endpoint("azure:mine")


def test_a_library_user_is_told_which_variable_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("AZURE_OPENAI_ENDPOINT", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "k")
    with pytest.raises(Misconfigured, match="AZURE_OPENAI_ENDPOINT"):
        ModelSettings().make_model("azure:mine")
    with pytest.raises(Misconfigured, match="GEMINI_API_KEY"):
        ModelSettings().make_model("gemini:gemini-3-flash")


@pytest.mark.parametrize(
    ("wire", "kind"),
    [("chat", OpenAIChat), ("responses", OpenAIResponses), ("messages", Anthropic), ("gemini", Gemini)],
)
def test_the_configuration_may_name_the_wire(wire: str, kind: type[object]) -> None:
    provider_config = Provider(base_url="https://example.org/v1", api_key="k", wire=wire)  # pyright: ignore[reportArgumentType]
    model = ModelSettings(providers={"mine": provider_config}, environment={}).make_model("mine:m")
    assert type(model) is kind
    openai = Provider(wire="responses")
    endpoint = ModelSettings(providers={"openai": openai}, environment={"OPENAI_API_KEY": "k"}).find_endpoint(
        "openai:m"
    )
    assert (endpoint.preset.wire, endpoint.preset.native_wire) == ("responses", "")


async def test_a_turn_that_offers_a_tool_of_the_provider_s_own_goes_over_the_wire_that_has_it() -> None:
    chat = strict_chat.StrictChat(strict_chat.says("chat"), strict_chat.says("chat"))
    responses = strict_responses(responses_bytes.replies(responses_bytes.SEARCH, responses_bytes.CITED_TEXT))
    async with chat.serving() as plain_url, responses.serving() as native_url:
        native_models: list[Model] = []

        def native_model() -> Model:
            native_models.append(OpenAIResponses(base_url=native_url, model="m"))
            return native_models[-1]

        async with open_model(NativeToolRouter(OpenAIChat(base_url=plain_url, model="m"), native_model)) as model:
            plain, searching = offer(ADD), offer(ADD, PLAIN_SEARCH)
            await events_of(model, request([user("hi")], tools=plain))
            assert native_models == []
            last = (await events_of(model, request([user("hi")], tools=searching)))[-1]
            history = [user("hi"), *getattr(last, "items", ()), user("and?", "u2")]
            await events_of(model, request(history, tools=plain))
    assert (len(chat.bodies), len(responses.bodies), len(native_models)) == (2, 1, 1)
    assert (chat.refusals, responses.refusals) == ([], [])


@pytest.mark.parametrize("choice", ["auto", "web_search"])
async def test_a_model_whose_provider_has_no_such_tool_for_it_is_not_offered_it(choice: str) -> None:
    chat, responses = strict_chat.StrictChat(*[strict_chat.says("chat")] * 2), strict_responses()
    async with chat.serving() as plain_url, responses.serving() as native_url:
        older = NativeToolRouter(
            OpenAIChat(base_url=plain_url, model="gpt-4-turbo"),
            lambda: OpenAIResponses(base_url=native_url, model="gpt-4-turbo"),
        )
        async with open_model(older) as model:
            for tools in (offer(ADD, PLAIN_SEARCH), offer(PLAIN_SEARCH)):
                await events_of(model, request([user("hi")], tools=tools, tool_choice=choice))
    assert (chat.refusals, responses.bodies) == ([], [])
    assert [[tool.function.name for tool in body.tools or ()] for body in chat.requests] == [["add"], []]


def test_what_a_provider_s_own_tools_can_do_is_a_fact_of_wire_and_model() -> None:
    assert "web_search" in find_native_tools("responses", "gpt-5").tools
    assert "blocked_domains" not in find_native_tools("responses", "gpt-5").options
    assert "blocked_domains" in find_native_tools("messages", "claude").options
    assert find_native_tools("gemini", "gemini-3-flash").beside_functions
    assert not find_native_tools("gemini", "gemini-2.5-flash").beside_functions
    assert find_native_tools("chat", "qwen-plus").tools == frozenset()


@pytest.mark.parametrize(
    "name",
    ["gpt-3.5-turbo", "gpt-4", "gpt-4-turbo", "gpt-4.1-nano", "o1-mini", "claude-3-haiku-20240307", "gemini-1.5-pro"],
)
def test_models_that_came_before_native_search_have_none(name: str) -> None:
    assert (
        find_native_tools("responses", name).tools
        == find_native_tools("messages", name).tools
        == find_native_tools("gemini", name).tools
        == set()
    )


@pytest.mark.parametrize("name", ["gpt-4o-mini", "gpt-4.1", "o1", "claude-3-7-sonnet-latest", "gemini-2.0-flash"])
def test_later_ones_have_it(name: str) -> None:
    assert "web_search" in find_native_tools("responses", name).tools


def test_a_model_says_what_its_provider_runs_and_one_of_a_line_speaks_for_it() -> None:
    environment = {name: "k" for name in ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "ANTHROPIC_API_KEY")}
    environment |= {"GEMINI_API_KEY": "k", "DASHSCOPE_API_KEY": "k", "AZURE_OPENAI_ENDPOINT": "https://mine.test"}
    gateway = Provider(base_url="https://gateway.test", api_key="k", wire="messages")
    settings = ModelSettings(providers={"gateway": gateway}, environment=environment)

    def hosts(*names: str) -> frozenset[str]:
        return ModelResolver(names, settings).native_tools(names[0]).tools

    for name in ("openai:gpt-5", "azure:mine", "anthropic:claude", "gemini:gemini-3-flash", "gateway:claude"):
        assert "web_search" in hosts(name)
    assert hosts("dashscope:qwen-plus") == hosts("http://127.0.0.1:1/v1#m") == hosts("toolyard:offline") == set()
    assert "web_search" in hosts("anthropic:claude", "dashscope:qwen-plus")
    assert hosts("dashscope:qwen-plus", "anthropic:claude") == set()


@pytest.mark.parametrize("name", ["azure:mine", "openrouter:maker/model", "dashscope:qwen-plus", "shop:small"])
async def test_a_request_goes_to_the_address_of_its_provider_with_its_key_and_headers(name: str) -> None:
    server = strict_chat.StrictChat(strict_chat.says("Hi."))
    provider, _, model_name = name.partition(":")
    async with server.serving() as url:
        provider_config = Provider(
            base_url=url, api_key="key-1", headers={"X-Team": "shop"}, forward=frozenset({"safety_identifier"})
        )
        settings = ModelSettings(providers={provider: provider_config}, environment={})
        async with open_model(settings.make_model(name)) as model:
            options = Options(extra={"safety_identifier": "a7", "service_tier": "flex"})
            await events_of(model, request([user("hi")], tools=offer(ADD), options=options))
    assert server.refusals == [] and server.requests[0].model == model_name
    assert server.requests[0].safety_identifier == (None if provider == "dashscope" else "a7")
    assert server.requests[0].service_tier is None
    sent_headers = {key.lower(): value for key, value in server.headers[0].items()}
    assert (sent_headers["authorization"], sent_headers["x-team"]) == ("Bearer key-1", "shop")


async def test_an_azure_deployment_searches_over_responses_at_the_same_address() -> None:
    server = strict_responses(responses_bytes.replies(responses_bytes.SEARCH, responses_bytes.CITED_TEXT))
    async with server.serving() as url:
        environment = {"AZURE_OPENAI_API_KEY": "key-1", "AZURE_BASE_URL": url}
        async with Yard(model=ModelSettings(environment=environment).make_model("azure:gpt-5-mini")) as yard:
            done = await yard.execute("news", web_search="native")
    assert (server.refusals, server.paths) == ([], ["/v1/responses"])
    assert [(tool.ran, tool.at) for tool in done.calls] == [("provider", "azure")]


def test_settings_can_be_printed_without_showing_a_key() -> None:
    provider = Provider(api_key="secret-1", headers={"x-key": "secret-2"}, base_url="https://gateway.test")
    environment = {"OPENAI_API_KEY": "secret-3"}
    settings = ModelSettings(providers={"gateway": provider}, environment=environment)
    shown = f"{settings!r} {settings.find_endpoint('gateway:m')!r} {make_key_settings({'openai': 'secret-4'})!r}"
    assert "https://gateway.test" in shown and "secret" not in shown


@pytest.mark.parametrize("name", ["gpt", "openai:", "nobody:x", "http://h/v1", ":x"])
async def test_a_wrong_name_is_refused_with_the_same_words_by_library_and_server(name: str) -> None:
    texts: list[str] = []
    for settings in (make_key_settings({}), build_model_settings(Config(), {})):
        with pytest.raises(Misconfigured) as refused:
            settings.make_model(name)
        texts.append(str(refused.value))
    assert texts[0] == texts[1] and "http://host/v1#model" in texts[0]


def test_a_yard_shows_the_provider_of_its_model_as_a_server_does() -> None:
    settings = make_key_settings({"anthropic": "k"})
    (card,) = ModelResolver("anthropic:claude", settings).provider_cards()
    assert (card.id, card.models, card.has_key) == ("anthropic", ("claude",), True)
    assert card.base_url.startswith("https://")


@pytest.mark.parametrize(
    "base_url",
    [
        "https://gateway.example:99999/v1?api_key=sk-hidden",
        "https://user:sk-hidden/x@gateway.example/v1",
        "https://user:sk-hidden@gateway.example/v1",
        "https://user:sk-hidden@gateway.example:99999/v1",
        "https://[gateway.example/v1?api_key=sk-hidden",
        "https://gateway.example:99999/v1?note=it's&api_key=sk-hidden",
        "https://?api_key=sk-hidden",
        "gateway.example/v1?api_key=sk-hidden",
        "user:sk-hidden@gateway.example/v1",
        "gateway.example/v1#api_key=sk-hidden",
    ],
)
def test_the_error_for_a_bad_address_does_not_show_its_credentials(base_url: str) -> None:
    settings = ModelSettings(providers={"gateway": Provider(base_url=base_url, api_key="k")})
    with pytest.raises(Misconfigured) as refused:
        ModelResolver("gateway:m", settings).check()
    assert "hidden" not in str(refused.value) and "http" in str(refused.value)


@pytest.mark.parametrize("name", ["http://host/v1?api_key=sk-hidden", "htp://host/v1?api_key=sk-hidden#m"])
def test_the_error_for_a_bad_name_does_not_show_the_credentials_of_its_address(name: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        ModelResolver(name, ModelSettings()).check()
    assert "hidden" not in str(refused.value) and "host/v1" in str(refused.value)
