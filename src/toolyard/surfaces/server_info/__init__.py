"""What the server says about itself: whether it answers, and its API."""
