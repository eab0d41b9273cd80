"""A bank, described in Chinese: payees are found by name, and a transfer needs a yes."""

from datetime import date
from typing import Annotated, Literal, NamedTuple, TypedDict

from pydantic import Field

from offline.clock import in_days
from toolyard import ToolError, tool

Account = Literal["储蓄", "信用卡", "投资"]
Category = Literal["餐饮", "住房", "交通", "购物", "收入"]


class Payee(TypedDict):
    name: str
    card: str


class Transaction(NamedTuple):
    account: Account
    day: date
    to: str
    category: Category
    amount: float


BALANCE: dict[Account, float] = {}
PAYEES: dict[str, Payee] = {}
TRANSACTIONS = (
    Transaction("储蓄", in_days(-1), "超市", "餐饮", -86.50),
    Transaction("储蓄", in_days(-3), "房东陈先生", "住房", -3500.0),
    Transaction("储蓄", in_days(-5), "工资", "收入", 15000.0),
    Transaction("信用卡", in_days(-2), "地铁", "交通", -6.0),
    Transaction("信用卡", in_days(-4), "书店", "购物", -128.0),
)


def reset() -> None:
    BALANCE.update({"储蓄": 12850.40, "信用卡": -1930.00, "投资": 50200.00})
    PAYEES.clear()
    PAYEES["P1"] = {"name": "张伟", "card": "6222020200112233"}
    PAYEES["P2"] = {"name": "李娜", "card": "6217000010009988"}
    PAYEES["P3"] = {"name": "房东陈先生", "card": "6228480402564890"}


@tool(description="查询账户余额", read_only=True, examples=["我还有多少钱"])
def get_balance(account: Annotated[Account, Field(description="账户")] = "储蓄") -> dict[str, object]:
    return {"account": account, "balance": BALANCE[account]}


@tool(description="查看账户的交易记录", read_only=True)
def list_transactions(
    account: Annotated[Account, Field(description="账户")] = "储蓄",
    since: Annotated[date | None, Field(description="从这一天开始")] = None,
    category: Annotated[Category | None, Field(description="只看这一类")] = None,
) -> list[dict[str, object]]:
    return [
        {**transaction._asdict(), "day": transaction.day.isoformat()}
        for transaction in TRANSACTIONS
        if transaction.account == account
        and (since is None or transaction.day >= since)
        and category in (None, transaction.category)
    ]


@tool(description="按姓名查找收款人", read_only=True)
def find_payee(name: Annotated[str, Field(description="收款人姓名")]) -> list[dict[str, str]]:
    return [
        {"payee_id": key, "name": payee["name"], "card": payee["card"]}
        for key, payee in PAYEES.items()
        if name in payee["name"]
    ]


@tool(description="转账给收款人", approval="ask", sources={"payee_id": "find_payee"}, examples=["给小明转账500元"])
def transfer_money(
    payee_id: Annotated[str, Field(description="收款人编号")],
    amount: Annotated[float, Field(gt=0, description="金额（元）")],
    note: Annotated[str | None, Field(description="附言")] = None,
) -> dict[str, object]:
    if payee_id not in PAYEES:
        raise ToolError(f"没有收款人{payee_id}", "not_found")
    if amount > BALANCE["储蓄"]:
        raise ToolError("余额不足", "conflict")
    BALANCE["储蓄"] -= amount
    return {"to": PAYEES[payee_id]["name"], "amount": amount, "balance": round(BALANCE["储蓄"], 2)}


@tool(description="添加新的收款人")
def add_payee(
    name: Annotated[str, Field(description="姓名")],
    card_number: Annotated[str, Field(description="银行卡号", pattern=r"^\d{16,19}$")],
) -> dict[str, str]:
    key = f"P{len(PAYEES) + 1}"
    PAYEES[key] = {"name": name, "card": card_number}
    return {"payee_id": key, "name": name}


@tool(description="缴纳生活费用", examples=["交电费200元"])
def pay_bill(
    kind: Annotated[Literal["水费", "电费", "燃气费", "话费", "宽带费"], Field(description="费用种类")],
    amount: Annotated[float, Field(gt=0, description="金额（元）")],
) -> dict[str, object]:
    BALANCE["储蓄"] -= amount
    return {"paid": kind, "amount": amount}


@tool(description="冻结银行卡（挂失）")
def freeze_card(card: Annotated[Literal["储蓄卡", "信用卡"], Field(description="哪张卡")]) -> str:
    return f"{card}已冻结"


TOOLS = (get_balance, list_transactions, find_payee, transfer_money, add_payee, pay_bill, freeze_card)
