"""Nearest neighbours: cached unit rows, brute force, an inverted file, and its upkeep."""
