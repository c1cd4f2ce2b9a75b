"""Nearest neighbours: cached vectors, brute force, an inverted file, and its upkeep."""
