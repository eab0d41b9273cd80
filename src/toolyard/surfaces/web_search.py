"""The body fields that select where web searches run."""

from toolyard.core.web_search import Preference, SearchMode, merge_modes
from toolyard.surfaces.request_body import LenientBody

LEGACY_NAMES = {"use_web_search": "useWebSearch", "web_search_preference": "webSearchPreference"}


class WebSearchFields(LenientBody, kw_only=True, rename=LEGACY_NAMES):
    """`web_search`, or its older form: `useWebSearch` and `webSearchPreference`."""

    web_search: SearchMode = ""
    use_web_search: bool | None = None
    web_search_preference: Preference | None = None

    @property
    def search_mode(self) -> SearchMode:
        """The mode from either form. Raises Invalid if both are used."""
        return merge_modes(self.web_search, self.use_web_search, self.web_search_preference)
