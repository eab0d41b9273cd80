"""A to-do list with projects and due days: a task is found by its words before anything is done to it."""

from datetime import date
from typing import Annotated, Literal, TypedDict

from pydantic import Field

from offline.clock import in_days
from toolyard import ToolError, tool

Priority = Literal["low", "normal", "high"]


class Task(TypedDict):
    title: str
    project: str | None
    due: date | None
    priority: Priority
    done: bool


PROJECTS: list[str] = []
TASKS: dict[int, Task] = {}


def reset() -> None:
    PROJECTS[:] = ["Home", "Work", "Garden"]
    TASKS.clear()
    rows: tuple[tuple[str, str, date | None, Priority], ...] = (
        ("Finish the tax return", "Home", in_days(0), "high"),
        ("Call the plumber", "Home", in_days(1), "normal"),
        ("Prepare slides for the board", "Work", in_days(0), "high"),
        ("Write the newsletter", "Work", in_days(5), "low"),
        ("Plant tulip bulbs", "Garden", None, "normal"),
        ("Renew passport", "Home", in_days(12), "normal"),
    )
    for key, (title, project, due, priority) in enumerate(rows, 11):
        TASKS[key] = {"title": title, "project": project, "due": due, "priority": priority, "done": key == 16}


def _task(key: int) -> dict[str, object]:
    if key not in TASKS:
        raise ToolError(f"there is no task {key}", "not_found")
    task = TASKS[key]
    return {"task_id": key, **task, "due": task["due"].isoformat() if task["due"] else None}


@tool(examples=["add buy milk to my list", "remind me to pay the rent by Friday"])
def add_task(
    title: Annotated[str, Field(description="What is to be done")],
    project: Annotated[str | None, Field(description="Name of the project it belongs to, such as Work or Home")] = None,
    due: Annotated[date | None, Field(description="The day by which it must be done")] = None,
    priority: Priority = "normal",
) -> dict[str, object]:
    """Add a task to the to-do list."""
    key = max(TASKS) + 1
    TASKS[key] = {"title": title, "project": project, "due": due, "priority": priority, "done": False}
    return _task(key)


@tool(read_only=True, examples=["what do I have to do tomorrow?", "show my tasks in Garden"])
def list_tasks(
    project: Annotated[str | None, Field(description="Only the tasks of this project")] = None,
    due: Annotated[date | None, Field(description="Only the tasks due on this day")] = None,
) -> list[dict[str, object]]:
    """List the open tasks, all of them or those of one project or one day."""
    return [
        _task(key)
        for key, task in TASKS.items()
        if not task["done"]
        and (project is None or (task["project"] or "").lower() == project.lower())
        and (due is None or task["due"] == due)
    ]


@tool(read_only=True)
def find_task(words: Annotated[str, Field(description="Words from the task's title")]) -> list[dict[str, object]]:
    """Find tasks by words of their title."""
    terms = [word for word in words.lower().split() if word not in ("the", "a", "my")]
    return [_task(key) for key, task in TASKS.items() if all(word in task["title"].lower() for word in terms)]


@tool(sources={"task_id": "find_task"}, examples=["mark the laundry as done", "I've called the bank"])
def complete_task(task_id: int) -> dict[str, object]:
    """Mark a task as done."""
    _task(task_id)
    TASKS[task_id]["done"] = True
    return _task(task_id)


@tool(sources={"task_id": "find_task"})
def reschedule_task(task_id: int, due: Annotated[date, Field(description="The new due date")]) -> dict[str, object]:
    """Move a task to another due date."""
    _task(task_id)
    TASKS[task_id]["due"] = due
    return _task(task_id)


@tool(sources={"task_id": "find_task"})
def delete_task(task_id: int) -> str:
    """Delete a task from the list."""
    _task(task_id)
    return f"deleted: {TASKS.pop(task_id)['title']}"


@tool
def create_project(name: str) -> dict[str, object]:
    """Create a new project to group tasks."""
    PROJECTS.append(name)
    return {"project": name, "projects": PROJECTS}


TOOLS = (add_task, list_tasks, find_task, complete_task, reschedule_task, delete_task, create_project)
