"""A model with options of its own, which apply where a request has none."""

from collections.abc import AsyncGenerator, Sequence

from msgspec.structs import replace

from toolyard.core.conversation.events import ModelDelta, TurnEnded, TurnFailed
from toolyard.core.ports import Model, ModelRequest, NativeToolsModel, SelectiveModel
from toolyard.core.settings.options import Options, merge_options
from toolyard.core.tools.web_search_rule import NativeTools


class ConfiguredModel:
    """Merges a request's options over its own. In a chain of models each applies its own to the same request."""

    def __init__(self, model: Model, options: Options) -> None:
        self._model = model
        self._options = options

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | TurnEnded | TurnFailed, None]:
        return self._model.stream(replace(request, options=merge_options(request.options, self._options)))

    @property
    def native(self) -> NativeTools:
        return self._model.native if isinstance(self._model, NativeToolsModel) else NativeTools()

    def list_ignored(self, options: Options) -> Sequence[str]:
        return self._model.list_ignored(options) if isinstance(self._model, SelectiveModel) else ()

    async def close(self) -> None:
        await self._model.close()
