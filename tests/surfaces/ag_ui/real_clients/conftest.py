"""One process of agents for all tests of a worker."""

from collections.abc import Generator

import pytest

from surfaces.ag_ui.real_clients.agents import AgentProcess


@pytest.fixture(scope="session")
def process() -> Generator[AgentProcess, None, None]:
    started = AgentProcess()
    yield started
    started.close()
