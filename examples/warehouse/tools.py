"""仓库助手的四个工具：查找原料、统计库存、生成报表，以及只有管理员可以使用的新建意图。"""

import os
from collections import defaultdict
from pathlib import Path
from typing import Annotated

import msgspec
from pydantic import Field, StringConstraints
from warehouse_catalogue import Material, Warehouse

from toolyard import Call, Context, Executor, ToolError, tool

Keyword = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=50)]


@tool(
    description="搜索原料信息",
    read_only=True,
    examples=[
        "查找{keyword}",
        "查找{keyword}原料",
        "查一下{keyword}",
        "查一下{keyword}还有多少",
        "有没有{keyword}",
        "还有多少{keyword}",
        "search materials for {keyword}",
        "find {keyword}",
        "how much {keyword} do we have?",
    ],
)
def search_materials(
    keyword: Annotated[Keyword, Field(description="原料的名称、类别或编号，例如：面粉", examples=["面粉"])],
) -> dict[str, object]:
    return {"success": True, "results": [_to_row(material) for material in open_warehouse().search(keyword)]}


@tool(
    description="统计各类原料的库存数量",
    read_only=True,
    examples=[
        "统计库存",
        "统计{category}的库存",
        "统计{category}类的库存",
        "inventory stats",
        "inventory stats for {category}",
    ],
)
def get_inventory_stats(
    category: Annotated[Keyword | None, Field(description="只统计这一类别；不填则统计全部", examples=["面粉"])] = None,
) -> dict[str, object]:
    sums: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    materials = open_warehouse().list_materials()
    for material in materials:
        if category in (None, material.category):
            sums[material.category][material.unit] += material.quantity
    if category is not None and not sums:
        categories = sorted({material.category for material in materials})
        raise ToolError(f"没有“{category}”这一类别", "not_found", {"categories": categories})
    return {"success": True, "categories": sums}


@tool(
    description="把原料的库存整理成报表（Markdown）",
    read_only=True,
    examples=[
        "生成{keyword}库存报表",
        "生成库存报表",
        "生成{keyword}的报表，标题{title}",
        "make a report of {keyword}",
        "make a report of {keyword} called {title}",
    ],
)
def format_report(
    title: Annotated[Keyword | None, Field(description="报表标题", examples=["十一月面粉"])] = None,
    keyword: Annotated[
        Keyword | None, Field(description="只列出含有关键词的原料；不填则列出全部", examples=["面粉"])
    ] = None,
) -> dict[str, object]:
    title = title or f"{keyword or '原料'}库存报表"
    materials = open_warehouse().search(keyword) if keyword else open_warehouse().list_materials()
    lines = [f"| {material.id} | {material.name} | {material.quantity}{material.unit} |" for material in materials]
    report = "\n".join([f"# {title}", "", "| 编号 | 名称 | 库存 |", "|---|---|---|", *lines])
    return {"success": True, "report": report}


class _Intent(msgspec.Struct):
    name: str
    description: str = ""


class CreateNewIntent(Executor):
    """一个执行器类：自己说明谁可以使用它。"""

    name = "create_new_intent"
    examples = ("新建意图{name}", "create a new intent called {name}")
    description = "新建一个意图（仅限管理员）"
    roles = ("admin",)
    parameters: dict[str, object] = {  # noqa: RUF012 - read, never written
        "type": "object",
        "properties": {
            "name": {
                "type": "string",
                "description": "意图的名称",
                "examples": ["退货"],
                "minLength": 1,
                "maxLength": 50,
            },
            "description": {"type": "string", "description": "这个意图做什么", "maxLength": 500},
        },
        "required": ["name"],
        "additionalProperties": False,
    }

    def execute(self, call: Call, context: Context) -> dict[str, object]:
        intent = msgspec.convert(call.arguments, _Intent)
        open_warehouse().create_intent(intent.name, intent.description, context.caller.user)
        return {"success": True, "name": intent.name, "created_by": context.caller.user}


def open_warehouse() -> Warehouse:
    """环境变量 WAREHOUSE_DB 指定的目录文件；默认在用户的数据目录中。"""
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Warehouse(Path(os.environ.get("WAREHOUSE_DB") or Path(data) / "toolyard" / "warehouse.db"))


def _to_row(material: Material) -> dict[str, object]:
    return {"id": material.id, "name": material.name, "quantity": material.quantity, "unit": material.unit}
