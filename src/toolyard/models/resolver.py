"""Turns names of models into models: for the library, the server and the command line.

A name is `toolyard:offline`, `local:/path.gguf`, `provider:model` or `http://host/v1#model`. The wire of a model is
loaded when the first model that speaks it is created.
"""

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec import UNSET

from toolyard.core.errors import Misconfigured, MissingKey
from toolyard.core.masking import mask_addresses, shorten_address
from toolyard.core.ports import Model, NativeToolsModel
from toolyard.core.settings.models.cards import (
    InputKind,
    ModelCard,
    Provider,
    ProviderCard,
    add_model,
    describe_model_problem,
)
from toolyard.core.settings.models.names import LOCAL_PREFIX, OFFLINE, parse_model_name
from toolyard.core.settings.models.options import Options
from toolyard.core.tools.web_search_rule import NativeTools
from toolyard.models.fallback import ConfiguredModel, FallbackModel
from toolyard.models.native_router import NativeToolRouter
from toolyard.models.providers import PROVIDERS, UNKNOWN_PROVIDER, ProviderPreset, WireName
from toolyard.models.shared.attachments import supports_images
from toolyard.models.shared.hosted_tools import find_native_tools
from toolyard.models.token_limits import find_context_window

if TYPE_CHECKING:
    from toolyard.models.http_model import HttpModel

ModelChoice = str | Model | Sequence[str]
"""The name of a model, a model, or a chain of names: each is a fallback for those before it."""
MODEL_KEY_VARIABLE = "TOOLYARD_MODEL_KEY"
"""The key for a model that is named by its address."""
MAX_MODELS = 256
"""Models that are kept open. With a pattern, requests could name any number."""
NO_WINDOWS: Mapping[str, int] = MappingProxyType({})
_GIVEN = "given"
"""The name of a model that was passed as an object."""


def allow_any_address() -> bool:
    """Return False: connections may go to private addresses, as whoever configures a server may name any."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEndpoint:
    """The address and the key of a named model."""

    base_url: str
    model: str
    provider: str = "openai"
    api_key: str = field(default="", repr=False)
    key_variable: str = ""
    """The environment variable that should hold the key and is not set; empty if no key is missing."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    preset: ProviderPreset = UNKNOWN_PROVIDER
    forward: frozenset[str] = frozenset()
    """The options that are sent to this provider although they change the price or may name a person."""
    betas: frozenset[str] = frozenset()
    """The betas of its API that requests may use."""
    is_public_only: Callable[[], bool] = allow_any_address
    """Returns whether connections go to public addresses only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """The configuration of providers and models, which takes precedence over the presets."""

    providers: Mapping[str, Provider] = field(default_factory=dict[str, Provider])
    options: Mapping[str, Options] = field(default_factory=dict[str, Options])
    """By the model's name; a model without an entry has the defaults."""
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    key_hint: str = ""
    """Added to the error for a missing key: where else the key can be given."""
    own_keys: frozenset[str] = frozenset()
    """The providers whose address a request has given: no key of an environment variable is sent there."""
    is_public_only: Callable[[], bool] = allow_any_address
    """Returns whether the addresses of `own_keys` must be public."""

    def find_endpoint(self, name: str) -> ModelEndpoint:
        """Return the endpoint that a model's name stands for. Raise Misconfigured if it is not a model's name.

        A provider's key is sent to that provider only.
        """
        parts = parse_model_name(name)
        if parts.base_url:
            if not parts.model:
                raise Misconfigured(f"{shorten_address(name)!r} names no model: write http://host/v1#model")
            key = self.environment.get(MODEL_KEY_VARIABLE, "")
            return ModelEndpoint(base_url=parts.base_url, model=parts.model, api_key=key)
        provider, preset = self.providers.get(parts.provider, Provider()), self.find_preset(parts.provider)
        base_url = provider.base_url or self.find_base_url(parts.provider)
        if not base_url and preset.address_variable and parts.model:
            raise Misconfigured(f"{name!r} needs an address: set the environment variable {preset.address_variable}")
        if not parts.provider or not base_url or not parts.model:
            names = ", ".join(f"{prefix}:…" for prefix in (*PROVIDERS, *(self.providers.keys() - PROVIDERS)))
            shown = shorten_address(name) if "://" in name else name
            raise Misconfigured(f"{shown!r} is not a model: use {OFFLINE}, one of {names} or http://host/v1#model")
        has_own_key = parts.provider in self.own_keys
        api_key = provider.api_key or ("" if has_own_key else preset.resolve_key(self.environment))
        # Configured headers may carry the credentials instead of a key, so that no key is missing then.
        missing = "" if api_key or provider.headers or has_own_key else preset.key_variable
        return ModelEndpoint(
            base_url=base_url,
            model=parts.model,
            provider=parts.provider,
            api_key=api_key,
            key_variable=missing,
            headers=provider.headers,
            preset=preset,
            forward=frozenset[str](provider.forward),
            betas=provider.betas,
            is_public_only=self.is_public_only if has_own_key else allow_any_address,
        )

    def find_base_url(self, provider: str) -> str:
        """Return the address of a provider as its preset and its variables have it; empty if they do not."""
        return PROVIDERS.get(provider, UNKNOWN_PROVIDER).resolve_base_url(provider, self.environment)

    def find_preset(self, provider: str) -> ProviderPreset:
        """Return the preset of a provider, with the wire that its settings name."""
        preset = PROVIDERS.get(provider, UNKNOWN_PROVIDER)
        wire = self.providers[provider].wire if provider in self.providers else ""
        # A configured wire serves every request: without native_wire, requests with provider tools use it as well.
        return dataclasses.replace(preset, wire=wire, native_wire="") if wire else preset

    def find_native_tools(self, name: str) -> NativeTools:
        """Return the tools that the provider of a model runs itself, by the model's name alone."""
        provider, model, _ = parse_model_name(name)
        preset = self.find_preset(provider)
        return find_native_tools(preset.native_wire or preset.wire, model)

    def make_model(self, name: str) -> Model:
        """Return a new model with the options that are configured for it.

        Raise Misconfigured if the name is wrong, or if an address or a key is missing.
        """
        model = self._make_plain_model(name)
        return ConfiguredModel(model, self.options[name]) if name in self.options else model

    def makes_same(self, name: str, other: "ModelSettings") -> bool:
        """Return whether other settings make the same model of a name."""
        if self.options.get(name) != other.options.get(name):
            return False
        if name == OFFLINE or name.startswith(LOCAL_PREFIX):
            return True
        try:
            return self.find_endpoint(name) == other.find_endpoint(name)
        except Misconfigured:
            return False

    def _make_plain_model(self, name: str) -> Model:
        if name == OFFLINE:
            from toolyard.models.offline import Offline

            return Offline()
        if name.startswith(LOCAL_PREFIX):
            from toolyard.models.local import Local

            return Local(name.removeprefix(LOCAL_PREFIX))
        endpoint = self.find_endpoint(name)
        if endpoint.key_variable:
            raise MissingKey(name, endpoint.key_variable, self.key_hint)
        return make_wired_model(endpoint)

    def make_provider_card(self, name: str) -> ProviderCard:
        """Return the card of a model's provider. Raise Misconfigured if the name is wrong."""
        parts = parse_model_name(name)
        if name == OFFLINE or name.startswith(LOCAL_PREFIX):
            # Callers see cards: hide the file's folder.
            return ProviderCard(id=parts.provider, models=(Path(parts.model).name,))
        endpoint = self.find_endpoint(name)
        return ProviderCard(
            id=parts.provider or urlsplit(endpoint.base_url).hostname or "http",
            base_url=endpoint.base_url,
            models=(endpoint.model,),
            has_key=bool(endpoint.api_key or endpoint.headers),
        )


class ModelResolver:
    """Models by name, each created on first use. The default may be a chain: its first name stands for all of it."""

    def __init__(
        self,
        default: ModelChoice,
        settings: ModelSettings = ModelSettings(),  # noqa: B008 - immutable
        named_model: Callable[[str], Model] | None = None,
        windows: Mapping[str, int] = NO_WINDOWS,
    ) -> None:
        """`named_model` creates models from their names in place of the settings.

        `windows` are the tokens of input that models take, by name, where they differ from the built-in table.
        """
        self._settings = settings
        self._windows = windows
        self._named_model = named_model
        self._models: dict[str, Model] = {}
        self._set_default(default)

    def _set_default(self, default: ModelChoice) -> None:
        if isinstance(default, str | Sequence):
            self._names = (default,) if isinstance(default, str) else tuple(default)
        else:
            self._names = (_GIVEN,)
            self._models[_GIVEN] = default
        self.default = self._names[0]
        self._fallback = FallbackModel(self._names, self._get_model) if len(self._names) > 1 else None

    def reconfigure(self, default: ModelChoice, settings: ModelSettings, windows: Mapping[str, int]) -> Sequence[Model]:
        """Use other settings from the next request to a model on. Return the models to close.

        Closing a model does not disturb the requests to it that are under way.
        """
        before, self._settings, self._windows = self._settings, settings, windows
        changed = [name for name in self._models if name != _GIVEN and not before.makes_same(name, settings)]
        retired = [self._models.pop(name) for name in changed] if self._named_model is None else []
        self._set_default(default)
        return retired

    def __call__(self, name: str) -> Model:
        return self._fallback if self._fallback is not None and name == self.default else self._get_model(name)

    def _get_model(self, name: str) -> Model:
        model = self._models.get(name)
        if model is None:
            if len(self._models) >= MAX_MODELS:
                raise Misconfigured(f"more than {MAX_MODELS} models were named: name one that was used before")
            model = self._models[name] = (self._named_model or self._settings.make_model)(name)
        return model

    def native_tools(self, name: str) -> NativeTools:
        """Return the tools that the provider of a model runs itself; for a chain, those of its first model."""
        try:
            model = self._get_model(name)
        except Misconfigured:
            return NativeTools()
        return model.native if isinstance(model, NativeToolsModel) else NativeTools()

    def context_window(self, name: str) -> int:
        """Return the context window of a model in tokens, the smallest of a chain; 0 if it is unknown."""
        names = self._names if self._fallback is not None and name == self.default else (name,)
        return min(filter(None, [self._find_window(model) for model in names]), default=0)

    def _find_window(self, name: str) -> int:
        return self._windows.get(name) or find_context_window(name)

    def cards(self, others: Iterable[str], listed: Iterable[str] = ()) -> list[ModelCard]:
        """Return the cards of the default chain, in its order, of the other models, and of those that providers list.

        No model is created for a name that is only listed: there may be many.
        """
        names = (*self._names, *sorted(set(others).difference(self._names)))
        configured = [
            _build_model_card(
                name,
                default=name == self.default,
                context_tokens=self._find_window(name),
                native=self.native_tools(name),
                problem=self._find_problem(name),
            )
            for name in names
        ]
        further = [
            _build_model_card(
                name,
                default=False,
                context_tokens=self._find_window(name),
                native=self._settings.find_native_tools(name),
                problem="",
            )
            for name in listed
            if name not in names
        ]
        return [*configured, *further]

    def _find_problem(self, name: str) -> str:
        try:
            self._get_model(name)
        except Misconfigured as error:
            return describe_model_problem(error)
        return ""

    def provider_cards(self) -> tuple[ProviderCard, ...]:
        """Return the providers of the default chain. A misconfigured model is left out: a request for it says why."""
        if self._names == (_GIVEN,):
            return (ProviderCard(id=_GIVEN, models=(_GIVEN,)),)
        cards: tuple[ProviderCard, ...] = ()
        for name in self._names:
            with suppress(Misconfigured):
                cards = add_model(cards, self._settings.make_provider_card(name))
        return cards

    def check(self) -> None:
        """Raise Misconfigured if a model of the default chain cannot be created."""
        for name in self._names:
            self._get_model(name)

    async def close(self) -> None:
        for model in self._models.values():
            await model.close()


def make_key_settings(api_keys: Mapping[str, str]) -> ModelSettings:
    """Return settings with API keys by provider. Raise Misconfigured, without a key, for a name that is no provider's.

    A provider without a key here uses that of its environment variable.
    """
    for provider in api_keys:
        if provider not in PROVIDERS:
            raise Misconfigured(f"api_keys: {provider!r} is not a provider; those are {', '.join(PROVIDERS)}")
    providers = {provider: Provider(api_key=key) for provider, key in api_keys.items()}
    return ModelSettings(providers=providers, key_hint=", or give it in api_keys")


def make_wired_model(endpoint: ModelEndpoint) -> Model:
    """Return a model that speaks its provider's wire protocol. The wire's module is loaded here."""
    preset = endpoint.preset
    plain = _make_wire_model(preset.wire, endpoint)
    if preset.native_wire in ("", preset.wire):
        return plain
    return NativeToolRouter(plain, lambda: _make_wire_model(preset.native_wire or preset.wire, endpoint))


def _make_wire_model(wire: WireName, endpoint: ModelEndpoint) -> Model:
    return _load_wire(wire)(
        base_url=endpoint.base_url,
        model=endpoint.model,
        api_key=endpoint.api_key,
        provider=endpoint.provider,
        headers=endpoint.headers,
        forward=endpoint.forward,
        betas=endpoint.betas,
        is_public_only=endpoint.is_public_only,
    )


def _load_wire(wire: WireName) -> "type[HttpModel]":
    match wire:
        case "chat":
            from toolyard.models.chat import OpenAIChat

            return OpenAIChat
        case "responses":
            from toolyard.models.responses import OpenAIResponses

            return OpenAIResponses
        case "messages":
            from toolyard.models.messages import Anthropic

            return Anthropic
        case "gemini":
            from toolyard.models.gemini import Gemini

            return Gemini


def _build_model_card(name: str, *, default: bool, context_tokens: int, native: NativeTools, problem: str) -> ModelCard:
    """Return the card of a model from its name and the known facts about its provider, without asking the provider."""
    provider, model, base_url = parse_model_name(name)
    if base_url:
        provider = urlsplit(base_url).hostname or ""
    return ModelCard(
        id=mask_addresses(name, every_parameter=True),
        provider=provider,
        name=model,
        default=default,
        context_tokens=context_tokens or None,
        input=_list_input_kinds(provider, model),
        native_tools=sorted(native.tools),
        available=not problem,
        reason=problem or UNSET,
    )


def _list_input_kinds(provider: str, model: str) -> list[InputKind]:
    """Return what a model of that name is known to accept. Text files always work, so `file` stands for PDFs."""
    if not supports_images(model):
        return ["text"]
    preset = PROVIDERS.get(provider, UNKNOWN_PROVIDER)
    accepts_files = preset.wire != "chat" or preset.quirks.accepts_files
    return ["text", "image", "file"] if accepts_files else ["text", "image"]
