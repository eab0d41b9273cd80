"""The fields with which a request says where its searches run. It does not know any route."""

from toolyard.core.web_search import Preference, SearchMode, merge_modes
from toolyard.surfaces.request_body import LenientBody

LEGACY_NAMES = {"use_web_search": "useWebSearch", "web_search_preference": "webSearchPreference"}


class WebSearchFields(LenientBody, kw_only=True, rename=LEGACY_NAMES):
    """`web_search`, or in older words `useWebSearch` and `webSearchPreference`."""

    web_search: SearchMode = ""
    use_web_search: bool | None = None
    web_search_preference: Preference | None = None

    @property
    def search_mode(self) -> SearchMode:
        """Raises Invalid if it is said in both ways."""
        return merge_modes(self.web_search, self.use_web_search, self.web_search_preference)
