"""What runs spend: prices, budgets and reservations, and what a log adds to the usage."""
