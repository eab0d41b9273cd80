"""What the claims of a person become: a user with the roles and the tenant of their groups, or nobody."""

import pytest

from toolyard import Caller
from toolyard.engine.access.provider_sign_in import SignInFailed
from toolyard.server.config import OidcConfig
from toolyard.server.oidc import build_caller

CONFIG = OidcConfig(
    issuer="https://id.example",
    client_id="toolyard",
    roles={"ops": ("operator",), "Domain Admins": ("admin", "operator"), "staff": ()},
    tenants={"ops": "shop", "sales": "shop", "cellar": "wine", "Domain Admins": ""},
)
BY_ROLE = OidcConfig(issuer="https://id.example", client_id="toolyard", roles={"ops": ("operator",)})
OPEN = OidcConfig(issuer="https://id.example", client_id="toolyard", allow_everybody=True, tenants={"ops": "shop"})
BY_EMAIL = OidcConfig(issuer="https://id.example", client_id="toolyard", user_claim="email", allow_everybody=True)

BY_EMAIL_GROUPS = OidcConfig(
    issuer="https://id.example",
    client_id="toolyard",
    groups_claim="email",
    roles={"ann@shop.example": ("admin",)},
)


@pytest.mark.parametrize(
    ("config", "groups", "roles", "tenant"),
    [
        (CONFIG, ["ops"], {"operator"}, "shop"),
        (CONFIG, ["ops", "sales", "unknown", 7], {"operator"}, "shop"),
        (CONFIG, ["cellar"], set[str](), "wine"),
        (CONFIG, "Domain Admins", {"admin", "operator"}, ""),
        (BY_ROLE, ["ops"], {"operator"}, ""),
        (OPEN, ["ops"], set[str](), "shop"),
        (OPEN, [], set[str](), ""),
        (OPEN, None, set[str](), ""),
    ],
)
def test_groups_give_roles_and_a_tenant(config: OidcConfig, groups: object, roles: set[str], tenant: str) -> None:
    caller = build_caller({"sub": "ann", "groups": groups, "roles": ["admin"], "tenant": "other"}, config)
    assert caller == Caller(user="ann", roles=frozenset(roles), tenant=tenant)


@pytest.mark.parametrize(
    ("config", "claims", "reason"),
    [
        (CONFIG, {"groups": ["elsewhere"]}, "none of the groups of 'ann' may use this server"),
        (CONFIG, {"groups": {"ops": True}}, "may use this server"),
        (CONFIG, {}, "may use this server"),
        (BY_ROLE, {"groups": ["OPS"]}, "may use this server"),
        (CONFIG, {"groups": ["ops", "cellar"]}, "of several tenants"),
        (CONFIG, {"groups": ["ops", "Domain Admins"]}, "of several tenants"),
        (CONFIG, {"groups": ["staff"]}, "none of the groups of 'ann' names a tenant"),
        (CONFIG, {"groups": ["ops"], "sub": ""}, "does not tell the claim sub"),
        (CONFIG, {"groups": ["ops"], "sub": ["ann"]}, "does not tell the claim sub"),
        (BY_EMAIL, {"email": "ann@shop.example"}, "has not verified"),
        (BY_EMAIL, {"email": "ann@shop.example", "email_verified": "false"}, "has not verified"),
        (BY_EMAIL_GROUPS, {"email": "ann@shop.example"}, "has not verified"),
    ],
)
def test_a_person_without_a_name_or_a_group_or_with_two_tenants_is_refused(
    config: OidcConfig, claims: dict[str, object], reason: str
) -> None:
    with pytest.raises(SignInFailed, match=reason):
        build_caller({"sub": "ann", **claims}, config)


def test_a_verified_email_address_may_name_the_user() -> None:
    claims = {"sub": "1", "email": "ann@shop.example", "email_verified": True}
    assert build_caller(claims, BY_EMAIL) == Caller(user="ann@shop.example")


@pytest.mark.parametrize(
    ("roles", "tenants", "admin_tenants"),
    [
        ({"ops": ("operator",)}, {}, set[str]()),
        ({"it": ("admin",)}, {}, {""}),
        ({"it": ("admin",)}, {"it": "", "ops": "shop"}, {"", "shop"}),
        ({"it": ("admin",)}, {"ops": "shop"}, {"shop"}),
        ({}, {"ops": "shop"}, set[str]()),
    ],
)
def test_administrators_are_those_whom_the_groups_give_that_role(
    roles: dict[str, tuple[str, ...]], tenants: dict[str, str], admin_tenants: set[str]
) -> None:
    config = OidcConfig(issuer="https://id.example", client_id="toolyard", roles=roles, tenants=tenants)
    assert config.admin_tenants == admin_tenants
