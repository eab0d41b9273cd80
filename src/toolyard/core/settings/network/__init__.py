"""Addresses on networks: which ones a server may reach, and which proxies it trusts."""
