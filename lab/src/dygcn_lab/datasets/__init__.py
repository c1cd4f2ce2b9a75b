"""Data sets for the laboratory: copies that come with it, and the page about all that dygcn knows."""
