"""Hotels and bookings, described in Chinese; bookings are known by a number of a fixed shape."""

from datetime import date
from typing import Annotated, Literal, NamedTuple, TypedDict

from pydantic import Field

from offline.clock import in_days
from toolyard import ToolError, tool

RoomType = Literal["标准间", "大床房", "套房"]


class Hotel(NamedTuple):
    name: str
    city: str
    price: int
    stars: int


class Booking(TypedDict):
    hotel: str
    room_type: RoomType
    check_in: date
    nights: int
    guest: str


HOTELS = {
    "H01": Hotel("外滩花园酒店", "上海", 680, 5),
    "H02": Hotel("静安快捷酒店", "上海", 260, 3),
    "H03": Hotel("西湖山庄", "杭州", 520, 4),
    "H04": Hotel("王府井大酒店", "北京", 750, 5),
    "H05": Hotel("后海客栈", "北京", 320, 3),
}
BOOKINGS: dict[str, Booking] = {}


def reset() -> None:
    lake, town = HOTELS["H03"].name, HOTELS["H04"].name
    BOOKINGS.clear()
    BOOKINGS["B2001"] = Booking(hotel=lake, room_type="大床房", check_in=in_days(6), nights=2, guest="王芳")
    BOOKINGS["B2002"] = Booking(hotel=town, room_type="套房", check_in=in_days(20), nights=3, guest="李明")


@tool(description="搜索一个城市的酒店", read_only=True, examples=["帮我找一下广州的酒店", "深圳500元以下的酒店"])
def search_hotels(
    city: Annotated[str, Field(description="城市名称")],
    max_price: Annotated[float | None, Field(description="每晚最高价格（元）")] = None,
    stars: Annotated[int | None, Field(ge=1, le=5, description="星级")] = None,
) -> list[dict[str, object]]:
    return [
        {"hotel_id": key, "name": hotel.name, "price": hotel.price, "stars": hotel.stars}
        for key, hotel in HOTELS.items()
        if hotel.city == city and (max_price is None or hotel.price <= max_price) and stars in (None, hotel.stars)
    ]


@tool(description="按名称查找酒店", read_only=True)
def find_hotel(name: Annotated[str, Field(description="酒店名称或其中一部分")]) -> list[dict[str, object]]:
    return [
        {"hotel_id": key, "name": hotel.name, "price": hotel.price}
        for key, hotel in HOTELS.items()
        if name in hotel.name
    ]


@tool(
    description="预订酒店房间", sources={"hotel_id": "find_hotel"}, examples=["预订长城饭店的标准间，明天入住，住两晚"]
)
def book_room(
    hotel_id: Annotated[str, Field(description="酒店编号")],
    check_in: Annotated[date, Field(description="入住日期")],
    room_type: Annotated[RoomType, Field(description="房型")] = "标准间",
    nights: Annotated[int, Field(ge=1, le=30, description="住几晚")] = 1,
) -> dict[str, object]:
    if hotel_id not in HOTELS:
        raise ToolError(f"没有编号为{hotel_id}的酒店", "not_found")
    key = f"B{2001 + len(BOOKINGS)}"
    hotel = HOTELS[hotel_id].name
    BOOKINGS[key] = {"hotel": hotel, "room_type": room_type, "check_in": check_in, "nights": nights, "guest": "我"}
    stay = {"hotel": hotel, "room_type": room_type, "check_in": check_in.isoformat(), "nights": nights}
    return {"booking_no": key, **stay}


@tool(description="查看我的所有预订", read_only=True)
def list_bookings() -> list[dict[str, object]]:
    return [
        {"booking_no": key, **booking, "check_in": booking["check_in"].isoformat()} for key, booking in BOOKINGS.items()
    ]


@tool(description="取消预订")
def cancel_booking(booking_no: Annotated[str, Field(description="预订号，例如 B2001", pattern=r"^B\d{4}$")]) -> str:
    if booking_no not in BOOKINGS:
        raise ToolError(f"没有预订{booking_no}", "not_found")
    del BOOKINGS[booking_no]
    return f"预订{booking_no}已取消"


@tool(description="修改预订的入住日期")
def change_check_in(
    booking_no: Annotated[str, Field(description="预订号，例如 B2001", pattern=r"^B\d{4}$")],
    new_date: Annotated[date, Field(description="新的入住日期")],
) -> dict[str, object]:
    if booking_no not in BOOKINGS:
        raise ToolError(f"没有预订{booking_no}", "not_found")
    BOOKINGS[booking_no]["check_in"] = new_date
    return {"booking_no": booking_no, "check_in": new_date.isoformat()}


TOOLS = (search_hotels, find_hotel, book_room, list_bookings, cancel_booking, change_check_in)
