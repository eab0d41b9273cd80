"""A public library, described in Chinese: what is borrowed is searched for, what is given back is in the loans."""

from datetime import date, timedelta
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from offline.clock import TODAY, in_days
from toolyard import ToolError, tool

Category = Literal["小说", "历史", "科技", "儿童"]


class Book(NamedTuple):
    title: str
    author: str
    category: Category
    available: int


BOOKS = {
    "B001": Book("活着", "余华", "小说", 0),
    "B002": Book("三体", "刘慈欣", "小说", 2),
    "B003": Book("万历十五年", "黄仁宇", "历史", 1),
    "B004": Book("平凡的世界", "路遥", "小说", 3),
    "B005": Book("时间简史", "霍金", "科技", 1),
    "B006": Book("围城", "钱钟书", "小说", 0),
    "B007": Book("百年孤独", "马尔克斯", "小说", 0),
}
LOANS: dict[str, date] = {}


def reset() -> None:
    LOANS.clear()
    LOANS.update({"B006": in_days(3), "B007": in_days(8)})


def _book(key: str) -> dict[str, object]:
    if key not in BOOKS:
        raise ToolError(f"没有编号为 {key} 的书", "not_found")
    return {"book_id": key, **BOOKS[key]._asdict()}


@tool(description="在图书馆查找图书", read_only=True, examples=["有没有鲁迅的书", "查一下红楼梦", "找儿童类的书"])
def search_books(
    keyword: Annotated[str | None, Field(description="书名或作者")] = None,
    category: Annotated[Category | None, Field(description="类别")] = None,
) -> list[dict[str, object]]:
    return [
        _book(key)
        for key, book in BOOKS.items()
        if (not keyword or keyword.strip("《》") in book.title + book.author + book.category)
        and (category is None or book.category == category)
    ]


@tool(description="借一本书", sources={"book_id": "search_books"})
def borrow_book(
    book_id: Annotated[str, Field(description="图书编号")],
    days: Annotated[int, Field(ge=1, le=60, description="借多少天")] = 30,
) -> dict[str, object]:
    book = _book(book_id)
    if not book["available"]:
        raise ToolError(f"《{book['title']}》已全部借出", "conflict")
    LOANS[book_id] = in_days(days)
    return {"title": book["title"], "应还日期": in_days(days).isoformat()}


@tool(description="查看我借的书和归还日期", read_only=True, examples=["我借了什么书", "which books do I have?"])
def list_my_loans() -> list[dict[str, object]]:
    return [{"book_id": key, "title": BOOKS[key].title, "应还日期": due.isoformat()} for key, due in LOANS.items()]


@tool(description="归还借的书", sources={"book_id": "list_my_loans"})
def return_book(book_id: Annotated[str, Field(description="图书编号")]) -> dict[str, object]:
    if book_id not in LOANS:
        raise ToolError("这本书不在您的借阅中", "not_found")
    del LOANS[book_id]
    return {"已归还": BOOKS[book_id].title}


@tool(description="续借，延长借期", sources={"book_id": "list_my_loans"})
def renew_book(
    book_id: Annotated[str, Field(description="图书编号")],
    days: Annotated[int, Field(ge=1, le=30, description="延长的天数")] = 15,
) -> dict[str, object]:
    if book_id not in LOANS:
        raise ToolError("这本书不在您的借阅中", "not_found")
    LOANS[book_id] += timedelta(days=days)
    return {"title": BOOKS[book_id].title, "应还日期": LOANS[book_id].isoformat()}


@tool(description="预约已借出的书", sources={"book_id": "search_books"})
def reserve_book(
    book_id: Annotated[str, Field(description="图书编号")],
    pickup: Annotated[date | None, Field(description="取书日期")] = None,
) -> dict[str, object]:
    return {"已预约": _book(book_id)["title"], "取书日期": pickup.isoformat() if pickup else None}


@tool(description="查询图书馆的开放时间：几点开门、几点关门", read_only=True)
def get_opening_hours(day: Annotated[date | None, Field(description="日期，默认今天")] = None) -> dict[str, str]:
    day = day or TODAY
    return {"日期": day.isoformat(), "开放时间": "10:00–17:00" if day.weekday() >= 5 else "08:30–21:00"}


TOOLS = (search_books, borrow_book, list_my_loans, return_book, renew_book, reserve_book, get_opening_hours)
