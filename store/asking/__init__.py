"""Sort items by asking judges: a collection, the machine that asks, a ranking."""
