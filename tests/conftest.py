"""Property tests are not held to a clock: machines are shared, and a test that is slow once is not wrong."""

from collections.abc import AsyncIterator

import pytest
from hypothesis import settings

from postgres import create_database

settings.register_profile("no clock", deadline=None)
settings.load_profile("no clock")


@pytest.fixture
async def postgres_url() -> AsyncIterator[str]:
    """Return the address of an empty database."""
    async with create_database() as url:
        yield url
