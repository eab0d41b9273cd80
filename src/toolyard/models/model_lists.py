"""The lists of models that providers have, for the patterns of a configuration. They are fetched in the background.

Nobody waits for a list: `names` returns what is known, and starts to fetch a list that is missing or old. A list that
cannot be fetched leaves the one before in force, and is tried again.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from toolyard.core.errors import Misconfigured
from toolyard.core.settings.models.cards import describe_model_problem
from toolyard.core.settings.models.names import matches_any, parse_model_name
from toolyard.models.http.problems import WireFailure, build_failure, mask_problem
from toolyard.models.http.request import BEARER, build_url
from toolyard.models.http.retries import Deadlines, HttpClient, Retry
from toolyard.models.resolver import ModelEndpoint, ModelSettings

FRESH_S = 300.0
"""The time after which a list is fetched again."""
RETRY_S = 30.0
"""The delay before the next attempt after a failed one."""
FETCH_TIMEOUT_S = 10.0
MAX_LIST_BYTES = 4_000_000
MAX_ENTRIES = 1_000
GENERATES_TEXT = "generateContent"
ANTHROPIC_VERSION = "2023-06-01"
_HEADERS = {"User-Agent": "toolyard", "Accept": "application/json", "Accept-Encoding": "identity"}
_log = logging.getLogger("toolyard.models")


class _ModelEntry(Struct):
    """A model in a list: OpenAI, Anthropic and others name it by `id`, Google by `name`."""

    id: str = ""
    name: str = ""
    methods: list[str] = msgspec.field(default_factory=list[str], name="supportedGenerationMethods")


class _ListPage(Struct):
    data: list[_ModelEntry] = []
    models: list[_ModelEntry] = []


class _ProviderList:
    """The list of one provider, as last fetched."""

    def __init__(self) -> None:
        self.names: tuple[str, ...] = ()
        self.problem = ""
        """The reason of the last failure; empty after a success."""
        self.due = 0.0
        """When it is to be fetched next, by the monotonic clock."""
        self.task: asyncio.Task[None] | None = None


class ModelLists:
    """The models of providers whose names match the patterns."""

    def __init__(
        self,
        patterns: Sequence[str],
        settings: ModelSettings,
        tasks: asyncio.TaskGroup,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._patterns = tuple(patterns)
        self._settings = settings
        self._tasks = tasks
        self._now = now
        self._lists = {parse_model_name(pattern).provider: _ProviderList() for pattern in patterns}

    def names(self) -> list[str]:
        """Return the known names that match a pattern, and start to fetch the lists that are due."""
        now = self._now()
        for provider, listing in self._lists.items():
            if listing.task is None and now >= listing.due:
                listing.task = self._tasks.create_task(self._refresh(provider, listing))
        return [name for listing in self._lists.values() for name in listing.names]

    def problems(self) -> dict[str, str]:
        """Return why the lists of some providers could not be fetched, by provider."""
        return {provider: listing.problem for provider, listing in self._lists.items() if listing.problem}

    async def close(self) -> None:
        for listing in self._lists.values():
            if listing.task is not None:
                listing.task.cancel()

    async def _refresh(self, provider: str, listing: _ProviderList) -> None:
        # Nothing may escape from here but a cancellation: it would end the task group, and the whole process with it.
        try:
            endpoint = self._settings.find_endpoint(f"{provider}:any")
            if endpoint.key_variable:
                self._record_failure(provider, listing, f"needs {endpoint.key_variable}", "no key")
                return
            models = await fetch_models(endpoint)
            names = (f"{provider}:{model}" for model in models)
            listing.names = tuple(sorted(name for name in names if matches_any(name, self._patterns)))
            if listing.problem:
                _log.info("the list of models of %s can be fetched again", provider)
            listing.problem, listing.due = "", self._now() + FRESH_S
        except Misconfigured as error:
            self._record_failure(provider, listing, describe_model_problem(error), "it is not configured")
        except WireFailure as error:
            reason = f"its list of models cannot be fetched ({_describe_status(error)})"
            self._record_failure(provider, listing, reason, error.problem.error)
        except Exception as error:
            _log.error("the list of models of %s could not be read", provider, exc_info=error)
            self._record_failure(provider, listing, "its list of models cannot be read", type(error).__name__)
        finally:
            listing.task = None

    def _record_failure(self, provider: str, listing: _ProviderList, reason: str, detail: str) -> None:
        """Keep the reason, and log the first failure of a series. Callers see the reason, only operators the detail."""
        if not listing.problem:
            _log.warning("the list of models of %s cannot be fetched: %s", provider, detail)
        listing.problem, listing.due = reason, self._now() + RETRY_S


def _describe_status(error: WireFailure) -> str:
    status = error.problem.details.get("status")
    return f"{error.problem.error_type}, {status}" if status else error.problem.error_type


async def fetch_models(endpoint: ModelEndpoint) -> list[str]:
    """Return the names of a provider's models. Raises WireFailure, without the key in its message."""
    headers = _build_headers(endpoint)
    client = HttpClient(
        url=_build_list_url(endpoint),
        headers=headers,
        deadlines=Deadlines(connect_s=FETCH_TIMEOUT_S, first_byte_s=FETCH_TIMEOUT_S, idle_s=FETCH_TIMEOUT_S),
        retry=Retry(attempts=1),
        sleep=asyncio.sleep,
        random=random.random,
        method="GET",
        is_public_only=endpoint.is_public_only,
    )
    try:
        async with asyncio.timeout(FETCH_TIMEOUT_S):
            body = await _read_body(client)
    except TimeoutError:
        raise build_failure(f"no list of models within {FETCH_TIMEOUT_S:g} s", "timeout") from None
    except WireFailure as error:
        secrets = [endpoint.api_key, *endpoint.headers.values()]
        raise WireFailure(mask_problem(error.problem, secrets)) from None
    finally:
        await client.close()
    return _parse_names(body)


async def _read_body(client: HttpClient) -> bytes:
    answer = await client.send(b"", {}, time.time)
    try:
        body = bytearray(answer.first)
        while packet := await answer.read():
            body += packet
            if len(body) > MAX_LIST_BYTES:
                raise build_failure(f"its list of models is longer than {MAX_LIST_BYTES:,} bytes", "too_large")
        return bytes(body)
    finally:
        answer.close()


def _parse_names(body: bytes) -> list[str]:
    try:
        page = msgspec.json.decode(body, type=_ListPage)
    except (msgspec.DecodeError, UnicodeError):
        raise build_failure("its response is not a list of models", "model_error") from None
    listed = [model for model in (*page.data, *page.models) if not model.methods or GENERATES_TEXT in model.methods]
    names = (model.id or model.name.removeprefix("models/") for model in listed[:MAX_ENTRIES])
    return [name for name in names if name]


def _build_list_url(endpoint: ModelEndpoint) -> str:
    base, mark, query = endpoint.base_url.strip().partition("?")
    match endpoint.preset.wire:
        case "messages":
            path, page_size = "/v1/models", f"limit={MAX_ENTRIES}"
            base = base.rstrip("/").removesuffix("/v1")
        case "gemini":
            path, page_size = "/models", f"pageSize={MAX_ENTRIES}"
        case _:
            path, page_size = "/models", ""
    parameters = "&".join(part for part in (query, page_size) if part)
    return build_url(f"{base}?{parameters}" if parameters else base + mark, path)


def _build_headers(endpoint: ModelEndpoint) -> dict[str, str]:
    header = endpoint.preset.key_header
    keys = {header: endpoint.api_key} if header else {BEARER: f"Bearer {endpoint.api_key}"}
    version = {"anthropic-version": ANTHROPIC_VERSION} if endpoint.preset.wire == "messages" else {}
    return {**_HEADERS, **version, **(keys if endpoint.api_key else {}), **endpoint.headers}
