"""Issues and pull requests of a code host, known by their numbers; a merge needs a yes."""

from typing import Annotated, Literal, TypedDict

from pydantic import Field

from toolyard import ToolError, tool

Label = Literal["bug", "feature", "docs"]


class Issue(TypedDict):
    title: str
    label: Label | None
    state: Literal["open", "closed"]
    assignee: str | None


class Pull(TypedDict):
    title: str
    author: str
    state: Literal["open", "merged", "closed"]


ISSUES: dict[int, Issue] = {}
PULLS: dict[int, Pull] = {}


def reset() -> None:
    ISSUES.clear()
    slow = "Search is slow on large repositories"
    ISSUES[42] = {"title": slow, "label": "bug", "state": "open", "assignee": "maria"}
    ISSUES[57] = {"title": "Dark mode flickers", "label": "bug", "state": "open", "assignee": None}
    ISSUES[61] = {"title": "Add CSV export", "label": "feature", "state": "open", "assignee": "tom"}
    ISSUES[63] = {"title": "Typo in the install guide", "label": "docs", "state": "open", "assignee": None}
    ISSUES[38] = {"title": "Crash at startup on Windows", "label": "bug", "state": "closed", "assignee": "tom"}
    PULLS[112] = {"title": "Cache search results", "author": "maria", "state": "open"}
    PULLS[115] = {"title": "Fix flicker in dark mode", "author": "tom", "state": "open"}
    PULLS[109] = {"title": "Upgrade the linter", "author": "maria", "state": "merged"}


def _issue(number: int) -> dict[str, object]:
    if number not in ISSUES:
        raise ToolError(f"issue #{number} does not exist", "not_found")
    return {"number": number, **ISSUES[number]}


@tool(read_only=True, examples=["show open bugs", "which issues are assigned to me?"])
def list_issues(
    state: Literal["open", "closed", "all"] = "open",
    label: Label | None = None,
    assignee: Annotated[str | None, Field(description="Login of the user the issues are assigned to")] = None,
) -> list[dict[str, object]]:
    """List issues of the repository, filtered by state, label or assignee."""
    return [
        _issue(number)
        for number, issue in ISSUES.items()
        if (state == "all" or issue["state"] == state)
        and (label is None or issue["label"] == label)
        and (assignee is None or (issue["assignee"] or "") == assignee.lower())
    ]


@tool
def create_issue(
    title: Annotated[str, Field(min_length=3, description="Short title of the issue")],
    body: Annotated[str, Field(description="Longer description, Markdown")] = "",
    label: Label | None = None,
) -> dict[str, object]:
    """Open a new issue in the repository."""
    number = 120
    ISSUES[number] = {"title": title, "label": label, "state": "open", "assignee": None}
    return _issue(number)


@tool
def close_issue(number: Annotated[int, Field(description="Issue number")]) -> dict[str, object]:
    """Close an issue."""
    _issue(number)
    ISSUES[number]["state"] = "closed"
    return _issue(number)


@tool
def assign_issue(
    number: Annotated[int, Field(description="Issue number")],
    user: Annotated[str, Field(description="Login of the user who should work on it")],
) -> dict[str, object]:
    """Assign an issue to a user."""
    _issue(number)
    ISSUES[number]["assignee"] = user
    return _issue(number)


@tool
def add_comment(
    number: Annotated[int, Field(description="Number of the issue or pull request")],
    text: Annotated[str, Field(description="The comment")],
) -> dict[str, object]:
    """Comment on an issue or a pull request."""
    return {"number": number, "comment": text}


@tool(read_only=True)
def list_pull_requests(
    state: Literal["open", "merged", "closed"] = "open", author: str | None = None
) -> list[dict[str, object]]:
    """List pull requests (PRs)."""
    return [
        {"number": number, **pull_request}
        for number, pull_request in PULLS.items()
        if pull_request["state"] == state and (author is None or pull_request["author"] == author.lower())
    ]


@tool(approval="ask")
def merge_pull_request(
    number: Annotated[int, Field(description="Number of the pull request (PR)")],
    method: Literal["merge", "squash", "rebase"] = "merge",
) -> dict[str, object]:
    """Merge a pull request."""
    if number not in PULLS:
        raise ToolError(f"pull request #{number} does not exist", "not_found")
    PULLS[number]["state"] = "merged"
    return {"number": number, "state": "merged", "method": method}


TOOLS = (list_issues, create_issue, close_issue, assign_issue, add_comment, list_pull_requests, merge_pull_request)
