"""A grocery shop in memory: the tools of an app whose cart, pages and cards are next to them.

Every `shop_tools()` is a shop of its own. The catalogue is fixed, so that a request's codes can be written down.
"""

import re
from dataclasses import dataclass, field
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, StringConstraints

from toolyard import ToolError, tool
from toolyard.venues.function import FunctionTool

Category = Literal[
    "dairy", "bakery", "fruit", "vegetables", "meat", "fish", "drinks", "snacks", "pantry", "frozen", "household"
]
Code = Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}-\d{3}$"), Field(description="The product's code")]
Query = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100)]
Quantity = Annotated[int, Field(ge=1, le=99)]


class Product(NamedTuple):
    code: str
    name: str
    name_zh: str
    category: Category
    price: float
    stock: int

    def row(self) -> dict[str, object]:
        return {"code": self.code, "name": self.name, "name_zh": self.name_zh, "price": self.price}


CATALOGUE = (
    Product("DAI-001", "Full Cream Milk 1 L", "全脂牛奶", "dairy", 1.29, 120),
    Product("DAI-002", "Semi-Skimmed Milk 1 L", "低脂牛奶", "dairy", 1.19, 80),
    Product("DAI-003", "Oat Milk 1 L", "燕麦奶", "dairy", 1.99, 40),
    Product("DAI-004", "Salted Butter 250 g", "咸味黄油", "dairy", 2.49, 60),
    Product("DAI-005", "Free Range Eggs 10 pieces", "散养鸡蛋", "dairy", 3.29, 75),
    Product("DAI-006", "Natural Yoghurt 500 g", "原味酸奶", "dairy", 1.49, 50),
    Product("DAI-007", "Strawberry Yoghurt 150 g", "草莓酸奶", "dairy", 0.69, 90),
    Product("DAI-008", "Mature Cheddar Cheese 200 g", "切达奶酪", "dairy", 2.99, 35),
    Product("DAI-009", "Mozzarella Cheese 125 g", "马苏里拉奶酪", "dairy", 1.29, 45),
    Product("BAK-001", "Wholemeal Bread 500 g", "全麦面包", "bakery", 1.79, 30),
    Product("BAK-002", "White Toast Bread 500 g", "白吐司面包", "bakery", 1.39, 40),
    Product("BAK-003", "Butter Croissant", "黄油可颂", "bakery", 0.95, 48),
    Product("BAK-004", "Plain Bagels 4 pieces", "原味贝果", "bakery", 2.19, 20),
    Product("FRU-001", "Bananas 1 kg", "香蕉", "fruit", 1.69, 100),
    Product("FRU-002", "Gala Apples 1 kg", "嘎啦苹果", "fruit", 2.39, 85),
    Product("FRU-003", "Lemons 4 pieces", "柠檬", "fruit", 1.49, 55),
    Product("FRU-004", "Blueberries 125 g", "蓝莓", "fruit", 2.29, 25),
    Product("FRU-005", "Seedless Grapes 500 g", "无籽葡萄", "fruit", 2.79, 0),
    Product("VEG-001", "Vine Tomatoes 500 g", "番茄", "vegetables", 1.99, 70),
    Product("VEG-002", "Cucumber", "黄瓜", "vegetables", 0.79, 64),
    Product("VEG-003", "Carrots 1 kg", "胡萝卜", "vegetables", 1.19, 90),
    Product("VEG-004", "Potatoes 2 kg", "土豆", "vegetables", 2.59, 45),
    Product("VEG-005", "Red Onions 500 g", "红洋葱", "vegetables", 1.09, 58),
    Product("VEG-006", "Baby Spinach 200 g", "嫩菠菜", "vegetables", 1.89, 22),
    Product("VEG-007", "Garlic 3 bulbs", "大蒜", "vegetables", 0.99, 70),
    Product("MEA-001", "Chicken Breast 400 g", "鸡胸肉", "meat", 4.99, 30),
    Product("MEA-002", "Minced Beef 500 g", "牛肉馅", "meat", 5.49, 28),
    Product("MEA-003", "Smoked Bacon 200 g", "烟熏培根", "meat", 2.89, 33),
    Product("FIS-001", "Fresh Salmon Fillet 250 g", "新鲜三文鱼", "fish", 6.99, 0),
    Product("FIS-002", "Tuna in Brine 3 cans", "金枪鱼罐头", "fish", 3.49, 60),
    Product("FIS-003", "King Prawns 200 g", "大虾", "fish", 5.99, 3),
    Product("DRI-001", "Still Water 1.5 L", "矿泉水", "drinks", 0.59, 300),
    Product("DRI-002", "Orange Juice 1 L", "橙汁", "drinks", 2.19, 44),
    Product("DRI-003", "Apple Juice 1 L", "苹果汁", "drinks", 1.89, 38),
    Product("DRI-004", "Ground Coffee 250 g", "咖啡粉", "drinks", 4.49, 52),
    Product("DRI-005", "Green Tea 20 bags", "绿茶", "drinks", 2.29, 47),
    Product("DRI-006", "Cola 1.5 L", "可乐", "drinks", 1.59, 110),
    Product("DRI-007", "Red Wine 0.75 L", "红酒", "drinks", 7.99, 24),
    Product("DRI-008", "White Wine 0.75 L", "白葡萄酒", "drinks", 11.5, 18),
    Product("SNA-001", "Dark Chocolate 100 g", "黑巧克力", "snacks", 1.99, 65),
    Product("SNA-002", "Sea Salt Crisps 150 g", "海盐薯片", "snacks", 1.79, 72),
    Product("SNA-003", "Roasted Almonds 200 g", "烤杏仁", "snacks", 3.99, 31),
    Product("SNA-004", "Oat Biscuits 250 g", "燕麦饼干", "snacks", 1.59, 40),
    Product("PAN-001", "Spaghetti 500 g", "意大利面", "pantry", 1.09, 95),
    Product("PAN-002", "Basmati Rice 1 kg", "香米", "pantry", 2.99, 66),
    Product("PAN-003", "Plain Flour 1 kg", "面粉", "pantry", 0.89, 88),
    Product("PAN-004", "Granulated Sugar 1 kg", "白砂糖", "pantry", 1.15, 77),
    Product("PAN-005", "Extra Virgin Olive Oil 500 ml", "特级初榨橄榄油", "pantry", 8.49, 26),
    Product("PAN-006", "Tomato Ketchup 500 ml", "番茄酱", "pantry", 2.29, 51),
    Product("PAN-007", "Sea Salt 500 g", "海盐", "pantry", 0.99, 83),
    Product("PAN-008", "Runny Honey 340 g", "蜂蜜", "pantry", 3.79, 29),
    Product("PAN-009", "Soy Sauce 150 ml", "酱油", "pantry", 1.99, 42),
    Product("PAN-010", "Peanut Butter 350 g", "花生酱", "pantry", 2.69, 37),
    Product("FRO-001", "Vanilla Ice Cream 900 ml", "香草冰淇淋", "frozen", 3.49, 27),
    Product("FRO-002", "Garden Peas 750 g", "青豆", "frozen", 1.69, 49),
    Product("FRO-003", "Margherita Pizza", "玛格丽特披萨", "frozen", 2.99, 36),
    Product("HOU-001", "Dish Soap 500 ml", "洗洁精", "household", 1.39, 58),
    Product("HOU-002", "Toilet Paper 8 rolls", "卫生纸", "household", 3.99, 90),
    Product("HOU-003", "Laundry Detergent 1.5 L", "洗衣液", "household", 6.49, 34),
    Product("HOU-004", "Kitchen Sponges 3 pieces", "海绵擦", "household", 1.19, 61),
)
BY_CODE = {product.code: product for product in CATALOGUE}
IN_THE_CART = {"BAK-001": 2, "DAI-005": 1, "DRI-002": 3}


@dataclass(slots=True)
class Shop:
    """A cart and the page that is open."""

    cart: dict[str, int] = field(default_factory=dict[str, int])
    page: str = "home"
    broken: bool = False

    def open(self, page: str, **more: object) -> dict[str, object]:
        self.page = page
        return {"ok": True, "page": page, **more}

    def require_reachable(self) -> "Shop":
        if self.broken:
            raise ToolError("the shop's server cannot be reached", "execution_error")
        return self

    def contents(self) -> dict[str, object]:
        items = [{**BY_CODE[code].row(), "qty": qty} for code, qty in self.require_reachable().cart.items()]
        total = sum(BY_CODE[code].price * qty for code, qty in self.cart.items())
        return {"items": items, "total": round(total, 2)}


def search_catalogue(query: str, max_price: float | None = None) -> list[Product]:
    """The products that have every word of the query in their name, or the whole of it in their Chinese name."""
    query_words = _words(query)
    fits = [
        product
        for product in CATALOGUE
        if query in product.name_zh or (query_words and query_words <= _words(f"{product.name} {product.code}"))
    ]
    return [fit for fit in fits if max_price is None or fit.price <= max_price]


def _words(text: str) -> set[str]:
    return {_singular(word) for word in re.findall(r"[a-z0-9.]+", text.casefold())}


def _singular(word: str) -> str:
    for plural, single in (("ies", "y"), ("oes", "o"), ("s", "")):
        if len(word) > 3 and word.endswith(plural):
            return word.removesuffix(plural) + single
    return word


def get_product(code: str) -> Product:
    if code not in BY_CODE:
        raise ToolError(f"there is no product {code}", "not_found", {"code": code})
    return BY_CODE[code]


def shop_tools(shop: Shop) -> list[FunctionTool[..., object]]:
    return [*_cart_tools(shop), *_navigation_tools(shop), *_display_tools(shop)]


def _cart_tools(shop: Shop) -> list[FunctionTool[..., object]]:
    @tool(
        read_only=True,
        examples=[
            "do you have {query}?",
            "find {query}",
            "find {query} under {max_price}",
            "search for {query}",
            "有没有{query}",
            "查找{query}",
        ],
    )
    def search_products(
        query: Annotated[Query, Field(description="What the product is called, or part of it, such as milk")],
        max_price: Annotated[float | None, Field(gt=0, description="Only products up to this price")] = None,
    ) -> dict[str, object]:
        """Search the shop's products by name. The best match comes first."""
        shop.require_reachable()
        return {
            "products": [
                {**product.row(), "in_stock": product.stock > 0} for product in search_catalogue(query, max_price)
            ]
        }

    @tool(
        sources={"code": "search_products"},
        examples=[
            "add {code} to my cart",
            "add {qty} {code} to my cart",
            "put {code} in my cart",
            "put {qty} {code} in my cart",
            "把{code}加入购物车",
            "把{code}加到购物车",
        ],
    )
    def add_to_cart(code: Code, qty: Quantity = 1) -> dict[str, object]:
        """Add a product to the shopping cart."""
        item = get_product(code)
        if shop.require_reachable().cart.get(code, 0) + qty > item.stock:
            stock_note = f"only {item.stock} are left" if item.stock else "it is out of stock"
            raise ToolError(f"{item.name} ({item.name_zh}): {stock_note}", "out_of_stock", {"stock": item.stock})
        shop.cart[code] = shop.cart.get(code, 0) + qty
        return {"ok": True, **item.row(), "qty": qty}

    @tool(
        sources={"code": "get_cart"},
        examples=[
            "take {code} out of my cart",
            "remove {code}",
            "remove {code} from my cart",
            "把{code}从购物车里拿掉",
        ],
    )
    def remove_from_cart(
        code: Code, qty: Annotated[Quantity | None, Field(description="How many; all of them if left out")] = None
    ) -> dict[str, object]:
        """Remove a product from the shopping cart."""
        qty_in_cart = shop.require_reachable().cart.get(code, 0)
        if not qty_in_cart:
            raise ToolError(f"{get_product(code).name} is not in the cart", "not_found", {"code": code})
        qty_removed = min(qty or qty_in_cart, qty_in_cart)
        shop.cart[code] = qty_in_cart - qty_removed
        if qty_in_cart == qty_removed:
            del shop.cart[code]
        return {"ok": True, **get_product(code).row(), "removed": qty_removed}

    @tool(read_only=True, examples=["what is in my cart?", "how much is my cart?", "购物车里有什么"])
    def get_cart() -> dict[str, object]:
        """The products in the shopping cart, how many of each, and the total."""
        return shop.contents()

    return [search_products, add_to_cart, remove_from_cart, get_cart]


def _navigation_tools(shop: Shop) -> list[FunctionTool[..., object]]:
    @tool(read_only=True, examples=["go to the home page", "go home", "回到首页"])
    def navigate_to_home() -> dict[str, object]:
        """Open the shop's home page."""
        return shop.open("home")

    @tool(read_only=True, examples=["open the search page", "open the results for {query}", "打开搜索页"])
    def navigate_to_search(
        query: Annotated[str, StringConstraints(max_length=100), Field(description="What to search for there")] = "",
    ) -> dict[str, object]:
        """Open the search page."""
        return shop.open("search", query=query)

    @tool(
        read_only=True, examples=["go to the {category} section", "open the category {category}", "打开{category}分类"]
    )
    def navigate_to_category(category: Category) -> dict[str, object]:
        """Open the page of a category of products."""
        return shop.open("category", category=category)

    @tool(read_only=True, sources={"code": "search_products"}, examples=["open the page of {code}", "打开{code}的页面"])
    def navigate_to_product(code: Code) -> dict[str, object]:
        """Open the page of one product with its details."""
        return shop.open("product", **get_product(code).row())

    @tool(read_only=True, examples=["go to the cart page", "open my cart", "打开购物车"])
    def navigate_to_cart() -> dict[str, object]:
        """Open the page of the shopping cart."""
        return shop.open("cart")

    @tool(read_only=True, examples=["take me to checkout", "go to checkout", "check out", "去结账"])
    def navigate_to_checkout() -> dict[str, object]:
        """Open the checkout, where the customer pays."""
        return shop.open("checkout")

    @tool(read_only=True, examples=["show my past orders", "show my orders", "我的订单"])
    def navigate_to_orders() -> dict[str, object]:
        """Open the page of the customer's orders."""
        return shop.open("orders")

    @tool(read_only=True, examples=["open my account", "打开我的账户"])
    def navigate_to_account() -> dict[str, object]:
        """Open the customer's account: address, password, payment."""
        return shop.open("account")

    pages = [navigate_to_home, navigate_to_search, navigate_to_category, navigate_to_product]
    return [*pages, navigate_to_cart, navigate_to_checkout, navigate_to_orders, navigate_to_account]


def _display_tools(shop: Shop) -> list[FunctionTool[..., object]]:
    @tool(sources={"codes": "search_products"}, read_only=True, examples=["show me {codes}", "给我看{codes}"])
    def show_products(codes: Annotated[list[Code], Field(min_length=1, max_length=20)]) -> dict[str, object]:
        """Draw cards of these products in the chat."""
        return {"ok": True, "shown": [get_product(code).row() for code in codes]}

    @tool(read_only=True, examples=["show me my cart", "show my cart", "显示购物车"])
    def show_cart() -> dict[str, object]:
        """Draw the shopping cart in the chat."""
        return {"ok": True, **shop.contents()}

    return [show_products, show_cart]
