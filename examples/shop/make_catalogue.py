"""Write the shop's catalogue: some hundreds of products in a SQLite file, the same ones every time.

python examples/shop/make_catalogue.py catalogue.db
"""

import random
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

TABLE = """CREATE TABLE products (
    code TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    brand TEXT NOT NULL,
    category TEXT NOT NULL,
    size TEXT NOT NULL,
    cents INTEGER NOT NULL CHECK (cents > 0),
    stock INTEGER NOT NULL CHECK (stock >= 0),
    description TEXT NOT NULL
)"""


class Kind(NamedTuple):
    """A kind of product, which the shop sells in several sizes and from several brands."""

    name: str
    cents: int
    """The price of the first size, from which that of each product differs a little."""
    sizes: tuple[str, ...]
    description: str


BRANDS = {
    "Dairy": ("Meadow Lane", "Alpenhof", "Daisy & Co"),
    "Bakery": ("Stone Oven", "Crust & Crumb"),
    "Fruit": ("Orchard Row", "Sunfield"),
    "Vegetables": ("Green Acre", "Sunfield"),
    "Meat and fish": ("Harbour Catch", "Hill Farm"),
    "Pantry": ("Larder", "Nonna Pia", "Everyday"),
    "Drinks": ("Clearwell", "Roast Republic", "Everyday"),
    "Snacks": ("Snackwell", "Cocoa House"),
    "Frozen": ("Northpole", "Everyday"),
    "Household": ("Brightly", "Everyday"),
}
KINDS = {
    "Dairy": (
        Kind("Full Cream Milk", 149, ("1 L", "2 L"), "Fresh milk from grazing cows, 3.8 % fat."),
        Kind("Low Fat Milk", 139, ("1 L", "2 L"), "Fresh milk with half the fat."),
        Kind("Oat Drink", 219, ("1 L",), "Creamy oats for coffee and cereal; no lactose."),
        Kind("Natural Yogurt", 129, ("500 g", "1 kg"), "Mild and thick, without sugar."),
        Kind("Greek Yogurt", 189, ("500 g",), "Strained twice, ten per cent fat."),
        Kind("Salted Butter", 259, ("250 g", "500 g"), "Churned slowly, with sea salt."),
        Kind("Unsalted Butter", 259, ("250 g", "500 g"), "For baking and for bread."),
        Kind("Mature Cheddar", 379, ("200 g", "400 g"), "A cheese aged for twelve months, sharp and crumbly."),
        Kind("Mozzarella", 169, ("125 g",), "A soft cheese, in its own brine."),
        Kind("Goat Cheese", 319, ("150 g",), "A mild log, good on toast."),
        Kind("Parmesan", 489, ("200 g",), "A hard cheese, aged for two years, for grating."),
        Kind("Double Cream", 199, ("300 ml",), "Whips to stiff peaks."),
        Kind("Free Range Eggs", 289, ("6 pack", "12 pack"), "From hens that go outside."),
    ),
    "Bakery": (
        Kind("White Bread", 159, ("400 g", "800 g"), "Soft sliced loaf for toast and sandwiches."),
        Kind("Wholemeal Bread", 179, ("400 g", "800 g"), "Stone-ground wheat, dark crust."),
        Kind("Sourdough Bread", 349, ("600 g",), "Left to rise for a day and a night."),
        Kind("Rye Bread", 269, ("500 g",), "Dense, with caraway."),
        Kind("Baguette", 129, ("250 g",), "Crisp outside, airy inside; baked this morning."),
        Kind("Butter Croissants", 249, ("4 pack",), "Twenty-seven layers."),
        Kind("Bagels", 199, ("5 pack",), "Boiled, then baked."),
        Kind("Burger Buns", 149, ("6 pack",), "Brioche, lightly sweet."),
        Kind("Cinnamon Rolls", 329, ("4 pack",), "With a lot of cinnamon."),
        Kind("Banana Bread", 299, ("350 g",), "Made with very ripe bananas."),
    ),
    "Fruit": (
        Kind("Bananas", 119, ("5 pack",), "Fair trade, still a little green."),
        Kind("Gala Apples", 229, ("6 pack", "1.5 kg"), "Sweet and crisp."),
        Kind("Pears", 249, ("4 pack",), "Ready to eat in two days."),
        Kind("Oranges", 279, ("5 pack", "2 kg"), "Juicy, few seeds."),
        Kind("Lemons", 149, ("4 pack",), "Unwaxed: the peel can be used."),
        Kind("Strawberries", 299, ("400 g",), "From the next valley."),
        Kind("Blueberries", 279, ("200 g",), "Firm and tart."),
        Kind("Red Grapes", 259, ("500 g",), "Without seeds."),
        Kind("Avocados", 199, ("2 pack",), "Ripen in the kitchen."),
        Kind("Mango", 179, ("each",), "Ripe when it smells."),
    ),
    "Vegetables": (
        Kind("Carrots", 89, ("500 g", "1 kg"), "Washed, with their tops off."),
        Kind("Potatoes", 199, ("2 kg", "5 kg"), "All-rounders: mash, chips, roast."),
        Kind("Red Onions", 119, ("1 kg",), "Mild enough for salads."),
        Kind("Garlic", 79, ("3 pack",), "Three whole bulbs."),
        Kind("Cherry Tomatoes", 169, ("330 g",), "On the vine."),
        Kind("Cucumber", 89, ("each",), "Crisp and cool."),
        Kind("Broccoli", 129, ("350 g",), "Dark green heads."),
        Kind("Baby Spinach", 159, ("200 g",), "Washed and ready."),
        Kind("Mixed Peppers", 179, ("3 pack",), "Red, yellow and green."),
        Kind("Mushrooms", 139, ("300 g",), "Chestnut, with a nutty taste."),
        Kind("Romaine Lettuce", 119, ("2 pack",), "The heart of a Caesar salad."),
    ),
    "Meat and fish": (
        Kind("Chicken Breast", 549, ("400 g", "800 g"), "Skinless, from free range birds."),
        Kind("Beef Mince", 479, ("500 g",), "Ten per cent fat."),
        Kind("Pork Sausages", 349, ("6 pack",), "With sage and black pepper."),
        Kind("Smoked Bacon", 299, ("250 g",), "Smoked over beech."),
        Kind("Salmon Fillets", 749, ("2 pack", "4 pack"), "Skin on, without bones."),
        Kind("Cod Fillet", 629, ("300 g",), "Caught by line."),
        Kind("Tiger Prawns", 599, ("200 g",), "Cooked and peeled."),
        Kind("Firm Tofu", 229, ("400 g",), "Presses and fries well."),
    ),
    "Pantry": (
        Kind("Spaghetti", 99, ("500 g", "1 kg"), "Durum wheat, drawn through bronze."),
        Kind("Penne", 99, ("500 g",), "Ridged, so that the sauce stays."),
        Kind("Basmati Rice", 249, ("1 kg", "5 kg"), "Long grains, aged for a year."),
        Kind("Bread Flour", 149, ("1.5 kg",), "Strong white flour for bread and pizza."),
        Kind("Rolled Oats", 139, ("1 kg",), "For porridge and flapjacks."),
        Kind("Chopped Tomatoes", 79, ("400 g", "4 pack"), "Ripe plum tomatoes in their juice."),
        Kind("Chickpeas", 69, ("400 g",), "Soft, in water."),
        Kind("Olive Oil", 649, ("500 ml", "1 L"), "Extra virgin, cold pressed."),
        Kind("Honey", 379, ("340 g",), "Runny, from wild flowers."),
        Kind("Peanut Butter", 259, ("340 g",), "Only peanuts and salt."),
        Kind("Strawberry Jam", 219, ("370 g",), "Half fruit, half sugar."),
        Kind("Sea Salt", 129, ("250 g",), "In flakes."),
        Kind("Caster Sugar", 149, ("1 kg",), "Fine, for baking."),
        Kind("Breakfast Muesli", 329, ("750 g",), "Oats, nuts and dried fruit."),
    ),
    "Drinks": (
        Kind("Ground Coffee", 449, ("227 g", "454 g"), "Medium roast: chocolate and hazelnut."),
        Kind("English Tea", 299, ("80 bags", "160 bags"), "Strong, for milk."),
        Kind("Green Tea", 249, ("40 bags",), "Light and grassy."),
        Kind("Orange Juice", 229, ("1 L", "1.75 L"), "Squeezed, with bits."),
        Kind("Apple Juice", 189, ("1 L",), "Cloudy, not from concentrate."),
        Kind("Still Water", 59, ("1.5 L", "6 pack"), "From a deep spring."),
        Kind("Sparkling Water", 69, ("1.5 L", "6 pack"), "Fine bubbles."),
        Kind("Cola", 179, ("1.5 L", "8 pack"), "With cane sugar."),
        Kind("Ginger Beer", 149, ("500 ml",), "Hot, and without alcohol."),
        Kind("Hot Chocolate", 279, ("300 g",), "A third of it is cocoa."),
    ),
    "Snacks": (
        Kind("Dark Chocolate", 199, ("100 g",), "Seventy per cent cocoa."),
        Kind("Milk Chocolate", 179, ("100 g", "200 g"), "Creamy, with a snap."),
        Kind("Sea Salt Crisps", 149, ("150 g", "6 pack"), "Cooked in small batches."),
        Kind("Tortilla Chips", 139, ("200 g",), "Blue maize."),
        Kind("Roasted Almonds", 349, ("200 g",), "Dry roasted, lightly salted."),
        Kind("Shortbread", 229, ("160 g",), "All butter."),
        Kind("Oat Biscuits", 159, ("300 g",), "For dunking."),
        Kind("Popcorn", 119, ("90 g",), "Sweet and salty."),
        Kind("Fruit Gums", 129, ("200 g",), "With real juice."),
    ),
    "Frozen": (
        Kind("Garden Peas", 159, ("900 g",), "Frozen within three hours."),
        Kind("Mixed Berries", 329, ("500 g",), "Straight into the blender."),
        Kind("Oven Chips", 229, ("1 kg",), "Ready in twenty minutes."),
        Kind("Margherita Pizza", 349, ("350 g",), "From a wood oven."),
        Kind("Fish Fingers", 299, ("10 pack", "20 pack"), "Cod in breadcrumbs."),
        Kind("Vanilla Ice Cream", 399, ("900 ml",), "With specks of vanilla."),
        Kind("Spinach Gnocchi", 279, ("500 g",), "From frozen in four minutes."),
    ),
    "Household": (
        Kind("Toilet Paper", 449, ("9 pack", "18 pack"), "Three layers, recycled."),
        Kind("Kitchen Towels", 279, ("2 pack", "4 pack"), "Strong when wet."),
        Kind("Washing-up Liquid", 159, ("500 ml",), "Cuts grease, kind to hands."),
        Kind("Laundry Liquid", 699, ("1 L", "2 L"), "For colours, at thirty degrees."),
        Kind("Bin Bags", 199, ("20 pack",), "Fifty litres, with a drawstring."),
        Kind("Dishwasher Tablets", 599, ("30 pack",), "All in one."),
        Kind("Hand Soap", 179, ("250 ml",), "Smells of lemon."),
        Kind("Toothpaste", 229, ("100 ml",), "With fluoride and mint."),
    ),
}


def iter_products() -> Iterator[tuple[str, str, str, str, str, int, int, str]]:
    """Yield every kind in every size and brand of its category. Prices and stock are random with a fixed seed."""
    randomness = random.Random(4711)
    for category_number, (category, kinds) in enumerate(KINDS.items(), 1):
        number = 0
        for kind in kinds:
            for brand in BRANDS[category]:
                for size_step, size in enumerate(kind.sizes):
                    number += 1
                    cents = round(kind.cents * (1 + 0.8 * size_step) * randomness.uniform(0.9, 1.25))
                    stock = 0 if randomness.random() < 0.04 else randomness.randint(3, 120)
                    code = f"{category_number:02}{number:03}"
                    yield code, kind.name, brand, category, size, cents - cents % 10 + 9, stock, kind.description


def write_catalogue(path: Path) -> int:
    """Write the catalogue to a file, in place of an existing one. Return the number of products."""
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = list(iter_products())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(TABLE)
        connection.executemany("INSERT INTO products VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
    return len(rows)


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "catalogue.db")
    sys.stdout.write(f"{write_catalogue(target)} products in {target}\n")
