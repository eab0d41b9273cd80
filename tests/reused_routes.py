"""Applications of yards that are gone, used again for new ones: Litestar takes 0.15 s to register our routes.

Two thirds of the time of a test over HTTP went into that. A yard has routes of its own only in what their functions
call, so a new yard gets the registered routes of an earlier one, with its own functions in them. The first application
of a process, and each one beyond those that are free, is built as a server builds it.
"""

import weakref
from collections import defaultdict
from collections.abc import Iterable, Sequence
from types import CodeType
from typing import cast

from litestar import Litestar
from litestar.handlers import BaseRouteHandler
from litestar.routes import HTTPRoute
from litestar.types import Receive, Scope, Send
from litestar.utils.sync import AsyncCallable

from toolyard.surfaces import app as surfaces_app
from toolyard.surfaces.surface import Route

RouteKey = tuple[CodeType, frozenset[str]]
_free: defaultdict[frozenset[RouteKey], list[Litestar]] = defaultdict(list)


class ReusedApp:
    """An application as long as its yard needs it; after that it is free for the next one."""

    def __init__(self, routes: Sequence[Route], **options: object) -> None:
        own = {_get_key(route): route for route in routes}
        assert len(own) == len(routes), "two routes cannot be told apart"
        free = _free[frozenset(own)]
        self._app = free.pop() if free else Litestar(routes, **options)  # pyright: ignore[reportArgumentType]
        for handler in _list_handlers(self._app):
            if route := own.get(_get_key(handler)):
                is_wrapped = isinstance(handler.fn, AsyncCallable)  # a function that runs in a thread
                handler._fn = AsyncCallable(route.fn) if is_wrapped else route.fn  # pyright: ignore[reportPrivateUsage]
        weakref.finalize(self, free.append, self._app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def install() -> None:
    """Let yards of this process use applications again."""
    surfaces_app.Litestar = ReusedApp  # pyright: ignore[reportPrivateImportUsage, reportAttributeAccessIssue]


def _get_key(handler: BaseRouteHandler) -> RouteKey:
    function = handler.fn.func if isinstance(handler.fn, AsyncCallable) else handler.fn
    return function.__code__, frozenset(handler.paths)


def _list_handlers(app: Litestar) -> Iterable[BaseRouteHandler]:
    for route in app.routes:
        yield from (
            route.route_handlers if isinstance(route, HTTPRoute) else [cast(BaseRouteHandler, route.route_handler)]
        )
