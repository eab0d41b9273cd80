"""People and keys on the page: keys are made, explained, rotated and revoked."""

from contextlib import ExitStack
from pathlib import Path

from msgspec.structs import replace
from playwright.sync_api import expect

from page.administration import fill, open_section, start_unconfigured
from page.site import start_site
from page.test_administration import ADMIN, KEYS, WIDTHS, locate_card
from page.test_sharing import open_signed_in
from page.window import Windows, pick
from surfaces.api_client import build_key
from toolyard import tool
from toolyard.core.settings.runtime import EntryId
from toolyard.core.store import KEYS as KEYS_KIND


@tool(roles=["finance"])
def pay(account: str) -> str:
    """Pay."""
    return f"paid from {account}"


@tool(read_only=True)
def stock() -> str:
    """What there is."""
    return "milk"


@WIDTHS
def test_a_key_is_made_explained_rotated_and_revoked(windows: Windows, sites: ExitStack, width: int) -> None:
    server = sites.enter_context(start_site(keys=KEYS, tools=[pay, stock]))
    window = open_signed_in(windows, server, ADMIN, width=width)
    page = window.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    open_section(window, "keys/add")
    fill(window, Person="bob", Name_of_the_key="bob's phone")
    page.get_by_role("checkbox", name="approver").check()
    pick(page.get_by_label("Expires"), "after 30 days")
    page.get_by_text("More fields").click()
    fill(window, Only_these_tools="stock")
    page.get_by_role("dialog").get_by_role("button", name="Create a key").click()
    window.button("Copy the secret").click()
    first_secret = window.read_clipboard("ty_")
    window.button("I have kept it").click()
    card = locate_card(window, "bob's phone")
    for fact in ("bob", "approver", "never used", "expires in 30 days", "tools: stock"):
        expect(card).to_contain_text(fact)
    card.get_by_role("button", name="What may it do? bob's phone").click()
    for name, answer in (("pay", "It may not use pay."), ("stock", "It may use stock.")):
        fill(window, Tool=name)
        window.button("Check").click()
        expect(page.get_by_role("dialog")).to_contain_text(answer)
    window.button("Close").click()
    card.get_by_role("button", name="New secret for bob's phone").click()
    pick(page.get_by_label("Old secret"), "not any more")
    page.get_by_role("dialog").get_by_role("button", name="New secret", exact=True).click()
    second_secret = page.locator(".new-secret code").inner_text()
    window.button("I have kept it").click()
    bob = windows.open(server)
    for secret, message in ((first_secret, "This key is not known here"), (second_secret, "")):
        bob.page.get_by_role("textbox", name="API key").fill(secret)
        bob.button("Sign in").click()
        if message:
            expect(bob.page.get_by_role("alert")).to_contain_text(message)
    expect(bob.composer).to_be_visible()
    card.get_by_role("button", name="Revoke bob's phone").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke", exact=True).click()
    expect(card).to_have_count(0)
    bob.page.reload()
    expect(bob.page.get_by_role("textbox", name="API key")).to_be_visible()


@WIDTHS
def test_the_last_administrator_stays_also_with_a_new_secret_for_the_own_key(
    windows: Windows, sites: ExitStack, width: int
) -> None:
    places = {EntryId(KEYS_KIND, "ann@t"): "toolyard.toml:7"}
    server = sites.enter_context(start_site(keys=[build_key("ann")], locations=places))
    root = replace(build_key(ADMIN, "admin", tenant=""), name="mine")
    _, secret = server.run(server.yard.access.add(root))
    window = open_signed_in(windows, server, secret, width=width)
    page, card = window.page, locate_card(window, "mine")
    open_section(window, "keys")
    expect(locate_card(window, "ann@t")).to_contain_text("from the file")
    expect(locate_card(window, "ann@t")).to_contain_text("Set in toolyard.toml:7.")
    expect(locate_card(window, "ann@t").get_by_role("button")).to_have_count(1)
    card.get_by_role("button", name="Revoke mine").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("You are signed in with this key")
    dialog.get_by_role("button", name="Revoke", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("lock everybody out")
    window.button("Cancel").click()
    windows.expected_complaint = "4"  # 409, and 401 with the secret from before
    card.get_by_role("button", name="New secret for mine").click()
    pick(page.get_by_label("Old secret"), "not any more")
    dialog.get_by_role("button", name="New secret", exact=True).click()
    expect(page.locator(".new-secret code")).not_to_have_text(secret)
    window.button("I have kept it").click()
    page.reload()
    expect(card).to_contain_text("yours")


@WIDTHS
def test_an_administrator_without_the_role_operator_is_told_what_is_missing_and_how_to_grant_it(
    windows: Windows, sites: ExitStack, width: int
) -> None:
    keys = [*KEYS, build_key("olga", "admin", "operator", tenant="")]
    server = sites.enter_context(start_site(keys=keys))
    hint = "Those of everybody are for the role operator, which your key does not have."
    for user, count in ((ADMIN, 1), ("olga", 0)):
        window = open_signed_in(windows, server, user, width=width)
        page = window.page
        for route, title in (("traces", "Traces"), ("live", "Live"), ("overview", "Overview")):
            page.goto(f"{server.url}/#/{route}")
            expect(page.get_by_role("heading", name=title)).to_be_visible()
            expect(page.get_by_text(hint)).to_have_count(count)
        if count:
            page.get_by_role("link", name="Create a key with it").click()
            page.get_by_role("checkbox", name="operator").check()
            fill(window, Person=user, Name_of_the_key="mine")
            page.get_by_role("dialog").get_by_role("button", name="Create a key").click()
            window.button("I have kept it").click()
            expect(locate_card(window, "mine")).to_contain_text("operator")


@WIDTHS
def test_people_who_are_signed_in_are_listed_with_where_their_roles_come_from_and_signed_out(
    windows: Windows, sites: ExitStack, width: int
) -> None:
    server = sites.enter_context(start_site(keys=[*KEYS, build_key("ann", "approver")]))
    ann, admin = (
        open_signed_in(windows, server, "ann", width=width),
        open_signed_in(windows, server, ADMIN, width=width),
    )
    open_section(admin, "keys")
    people = admin.page.get_by_role("region", name="Signed in now")
    person = people.get_by_role("listitem").filter(has=admin.page.get_by_role("heading", name="ann", exact=True))
    expect(person).to_contain_text("roles from the key ann@t")
    expect(person).to_contain_text("approver")
    person.get_by_role("button", name="End sessions: ann").click()
    admin.page.get_by_role("dialog").get_by_role("button", name="End sessions", exact=True).click()
    expect(person).to_have_count(0)
    ann.page.reload()
    expect(ann.page.get_by_role("textbox", name="API key")).to_be_visible()


@WIDTHS
def test_rules_of_a_tool_limits_and_the_prompt_are_set_on_the_page(
    windows: Windows, sites: ExitStack, width: int
) -> None:
    server = sites.enter_context(start_unconfigured(tools=[stock]))
    window = windows.open(server, width=width)
    page = window.page
    page.goto(f"{server.url}/#/tools/stock")
    rules = page.get_by_role("region", name="Set by administrators")
    rules.get_by_role("button", name="Change its rules").click()
    pick(page.get_by_role("combobox", name="Approval"), "always")
    window.button("Save").click()
    expect(rules.get_by_role("definition")).to_have_text("always")
    expect(page.locator(".rules").first).to_contain_text("always asks")
    window.button("Call stock").click()
    expect(window.card("stock")).to_contain_text("waits for your decision")
    open_section(window, "tools")
    window.button("Edit stock").click()
    pick(page.get_by_role("combobox", name="Enabled"), "No")
    window.button("Save").click()
    card = page.get_by_role("region", name="Tool rules").get_by_role("listitem")
    expect(card.get_by_role("definition").filter(has_text="No")).to_be_visible()
    open_section(window, "more")
    window.button("Edit Server prompt").click()
    fill(window, Server_prompt="Answer in verse.")
    window.button("Save").click()
    expect(locate_card(window, "Server prompt")).to_contain_text("Answer in verse.")
    window.button("Edit Limits").click()
    fill(window, Calls_per_turn="3")
    window.button("Save").click()
    expect(locate_card(window, "Limits").get_by_role("definition")).to_have_text("3")
    page.goto(f"{server.url}/#/tools")
    expect(page.get_by_text("This server has no tools that you may use.")).to_be_visible()


@WIDTHS
def test_the_page_of_a_tool_says_what_its_rules_mean_for_a_person_and_lists_its_last_calls(
    windows: Windows, sites: ExitStack, width: int
) -> None:
    keys = [build_key("ann"), build_key("fred", "finance"), build_key(ADMIN, "admin", "finance", tenant="")]
    server = sites.enter_context(start_site(keys=keys, tools=[pay]))
    window = open_signed_in(windows, server, ADMIN, width=width)
    page = window.page
    page.goto(f"{server.url}/#/tools/pay")
    person = page.get_by_label("What the rules say for")
    for key, answer in (("ann (ann@t)", "It may not use pay."), ("fred (fred@t)", "It may use pay.")):
        pick(person, key)
        expect(page.get_by_role("region", name="Set by administrators")).to_contain_text(answer)
    expect(page.get_by_role("region", name="Last calls")).to_have_count(0)
    page.get_by_label("account").fill("7")
    window.button("Call pay").click()
    expect(window.card("pay")).to_contain_text("paid from 7")
    page.reload()
    expect(page.get_by_role("region", name="Last calls").get_by_role("row")).to_have_count(2)
    expect(page.get_by_role("region", name="Last calls")).to_contain_text("done")


def test_a_key_that_somebody_else_has_changed_is_shown_anew_and_one_beside_the_file_is_removed(
    windows: Windows, sites: ExitStack, tmp_path: Path
) -> None:
    store, shop = f"sqlite:///{tmp_path / 'store.db'}", replace(build_key("shop", tenant=""), name="shop")
    with start_site(keys=KEYS, store=store) as before:
        before.run(before.yard.access.add(replace(shop, user="of the store")))
        window = open_signed_in(windows, before, ADMIN)
        open_section(window, "keys")
        card, dialog = locate_card(window, "shop"), window.page.get_by_role("dialog")
        for action, button in (("New secret for shop", "New secret"), ("Revoke shop", "Revoke")):
            expect(card.get_by_role("button", name=action)).to_be_visible()
            before.run(before.yard.access.rotate("shop", 60))
            card.get_by_role("button", name=action).click()
            dialog.get_by_role("button", name=button, exact=True).click()
            expect(dialog.get_by_role("alert")).to_contain_text("was changed since it was read")
            window.button("Cancel").click()
            expect(card).to_contain_text("the old secret is accepted until")
        window.page.goto("about:blank")
    server = sites.enter_context(start_site(keys=[*KEYS, shop], store=store))
    window = open_signed_in(windows, server, ADMIN)
    open_section(window, "keys")
    card = locate_card(window, "shop")
    expect(card).to_contain_text("There are two of this name")
    window.button("Remove the one that is not used").click()
    window.page.get_by_role("dialog").get_by_role("button", name="Revoke", exact=True).click()
    expect(card).not_to_contain_text("There are two of this name")
    expect(card).to_contain_text("from the file")
    windows.expected_complaint = "4"  # 401 before each sign-in, and 412
