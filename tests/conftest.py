"""Property tests are not held to a clock: machines are shared, and a test that is slow once is not wrong."""

from hypothesis import settings

settings.register_profile("no clock", deadline=None)
settings.load_profile("no clock")
