"""The models that surfaces list."""

from collections.abc import Sequence

from toolyard.core.caller import Caller
from toolyard.core.errors import Invalid, Misconfigured
from toolyard.core.ports import NativeApiModel, SelectiveModel
from toolyard.core.settings.models.access import is_denied, list_denied_models
from toolyard.core.settings.models.cards import ModelCard
from toolyard.core.settings.models.options import Options
from toolyard.engine.dependencies import Deps
from toolyard.engine.loop.command_checks import check_named_model


class Models:
    """The models that requests may name."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps

    @property
    def default(self) -> str:
        return self._deps.default_model

    def cards(self, caller: Caller | None = None) -> list[ModelCard]:
        """Return a card for each configured model, and for each that a provider is known to list.

        With a caller, only for those that the caller may use.
        """
        cards = self._deps.model_cards()
        if caller is None:
            return cards
        denied = list_denied_models(caller, self._deps.model_access)
        return [card for card in cards if caller.may_use_model(card.id) and not is_denied(card.id, denied)]

    def list_ignored_options(self, model: str, options: Options) -> Sequence[str]:
        """Return the options that a model leaves out; none if it is not known, or may not be named by a request."""
        try:
            check_named_model(model, self._deps, may_name_address=False)
            chosen = self._deps.models(model or self._deps.default_model)
        except (Invalid, Misconfigured):
            return ()  # the run says why it cannot use the model
        return chosen.list_ignored(options) if isinstance(chosen, SelectiveModel) else ()

    def find_provider(self, model: str, wire: str) -> str:
        """Return the provider of a model if its API is the one with this name; empty if not, or if it is not known."""
        try:
            check_named_model(model, self._deps, may_name_address=False)
            chosen = self._deps.models(model or self._deps.default_model)
        except (Invalid, Misconfigured):
            return ""  # the run says why it cannot use the model
        return chosen.find_provider(wire) if isinstance(chosen, NativeApiModel) else ""

    def list_problems(self) -> dict[str, str]:
        """Return why the lists of some providers could not be fetched, by provider."""
        return self._deps.model_list_problems()

    @property
    def patterns(self) -> Sequence[str]:
        return self._deps.model_patterns
