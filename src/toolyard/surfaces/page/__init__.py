"""The web page, as its build left it in the package."""
