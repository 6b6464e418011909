"""What is done with a batch of items in memory, by a recipe; nothing of it is stored."""
