"""The fields with which a request says where its searches run. It does not know any route."""

from toolyard.core.web_search import Preference, Wish, wished
from toolyard.surfaces.request_body import SeedBody

OLDER = {"use_web_search": "useWebSearch", "web_search_preference": "webSearchPreference"}


class Searched(SeedBody, kw_only=True, rename=OLDER):
    """`web_search`, or in older words `useWebSearch` and `webSearchPreference`."""

    web_search: Wish = ""
    use_web_search: bool | None = None
    web_search_preference: Preference | None = None

    @property
    def wish(self) -> Wish:
        """Raises Invalid if it is said in both ways."""
        return wished(self.web_search, self.use_web_search, self.web_search_preference)
