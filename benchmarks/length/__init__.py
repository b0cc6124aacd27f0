"""Small decoders trained from nothing, read at 1 to 16 times their length under every multiplier and rule."""
