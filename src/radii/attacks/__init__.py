"""Attacks: searches for inputs of the ball that change the prediction."""
