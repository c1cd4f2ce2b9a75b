"""Sphinx configuration."""

project = "dygcn"
author = "The dygcn developers"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = "dygcn"
exclude_patterns = ["_build"]
autodoc_typehints = "description"
autodoc_member_order = "bysource"
suppress_warnings = ["myst.xref_missing"]
nitpicky = False
