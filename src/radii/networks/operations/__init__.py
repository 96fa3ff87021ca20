"""What a network can be made of: one class for each operation, with its value, its rounding and its bounds."""
