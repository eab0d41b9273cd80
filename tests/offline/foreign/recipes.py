"""Recipes, a meal plan and a shopping list, described in Chinese."""

from datetime import date
from typing import Annotated, Literal, TypedDict

from pydantic import Field

from offline.clock import TODAY, in_days
from toolyard import ToolError, tool

Meal = Annotated[Literal["早餐", "午餐", "晚餐"], Field(description="哪一餐")]


class Recipe(TypedDict):
    name: str
    minutes: int
    ingredients: list[str]
    steps: str


RECIPES: dict[str, Recipe] = {}
PLAN: dict[tuple[date, str], str] = {}


def reset() -> None:
    RECIPES.clear()
    PLAN.clear()
    rows = (
        ("番茄炒蛋", 15, "番茄 鸡蛋 葱", "鸡蛋炒熟盛出，番茄炒软，一起翻炒。"),
        ("宫保鸡丁", 30, "鸡肉 花生 干辣椒", "鸡肉切丁腌制，爆香辣椒，下鸡丁和花生。"),
        ("红烧肉", 90, "五花肉 冰糖 酱油", "焯水，炒糖色，小火炖一小时。"),
        ("麻婆豆腐", 20, "豆腐 牛肉末 豆瓣酱", "炒香豆瓣酱，下豆腐烧五分钟。"),
        ("豆腐煲", 50, "豆腐 香菇 虾仁", "砂锅小火慢炖。"),
        ("香菇鸡汤", 80, "鸡肉 香菇 姜", "小火炖煮。"),
    )
    for number, (name, minutes, ingredients, steps) in enumerate(rows, 1):
        recipe: Recipe = {"name": name, "minutes": minutes, "ingredients": ingredients.split(), "steps": steps}
        RECIPES[f"R{number}"] = recipe
    PLAN.update({(in_days(1), "午餐"): "番茄炒蛋", (in_days(1), "晚餐"): "香菇鸡汤", (in_days(3), "午餐"): "牛肉面"})


@tool(description="搜索菜谱", read_only=True, examples=["有什么牛肉的菜", "找20分钟以内的菜"])
def search_recipes(
    keyword: Annotated[str, Field(description="菜名或食材")],
    max_minutes: Annotated[int | None, Field(description="最长用时（分钟）")] = None,
) -> list[dict[str, object]]:
    return [
        {"recipe_id": key, "name": recipe["name"], "minutes": recipe["minutes"]}
        for key, recipe in RECIPES.items()
        if (keyword in recipe["name"] or any(keyword in part for part in recipe["ingredients"]))
        and (max_minutes is None or recipe["minutes"] <= max_minutes)
    ]


@tool(
    description="查看一道菜的做法和配料",
    read_only=True,
    sources={"recipe_id": "search_recipes"},
    examples=["糖醋排骨怎么做"],
)
def get_recipe(recipe_id: Annotated[str, Field(description="菜谱编号")]) -> dict[str, object]:
    if recipe_id not in RECIPES:
        raise ToolError(f"没有菜谱 {recipe_id}", "not_found")
    return {"recipe_id": recipe_id, **RECIPES[recipe_id]}


@tool(description="添加新菜谱")
def add_recipe(
    name: Annotated[str, Field(description="菜名")],
    minutes: Annotated[int, Field(gt=0, description="用时（分钟）")],
    ingredients: Annotated[list[str] | None, Field(description="配料")] = None,
) -> dict[str, object]:
    RECIPES["R7"] = {"name": name, "minutes": minutes, "ingredients": ingredients or [], "steps": ""}
    return {"recipe_id": "R7", "name": name, "minutes": minutes}


@tool(description="安排某天某一餐吃什么", examples=["周一晚餐安排饺子", "明天早餐吃包子"])
def plan_meal(
    day: Annotated[date, Field(description="日期")],
    meal: Meal,
    dish: Annotated[str, Field(description="菜名")],
) -> dict[str, str]:
    PLAN[day, meal] = dish
    return {"日期": day.isoformat(), "餐": meal, "菜": dish}


@tool(description="查看用餐计划：某天吃什么", read_only=True)
def show_meal_plan(day: Annotated[date | None, Field(description="日期，默认今天")] = None) -> list[dict[str, str]]:
    day = day or TODAY
    return [{"日期": when.isoformat(), "餐": meal, "菜": dish} for (when, meal), dish in PLAN.items() if when == day]


@tool(description="取消某天某一餐的安排")
def remove_meal(day: Annotated[date, Field(description="日期")], meal: Meal) -> str:
    if (day, meal) not in PLAN:
        raise ToolError(f"{day}没有安排{meal}", "not_found")
    return f"已取消{day}的{meal}：{PLAN.pop((day, meal))}"


@tool(description="把食材加到采购清单")
def add_to_shopping_list(
    item: Annotated[str, Field(description="食材")],
    quantity: Annotated[int, Field(ge=1, description="数量")] = 1,
) -> dict[str, object]:
    return {"item": item, "quantity": quantity}


TOOLS = (search_recipes, get_recipe, add_recipe, plan_meal, show_meal_plan, remove_meal, add_to_shopping_list)
