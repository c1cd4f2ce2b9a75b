"""Sphinx configuration.

``pip install torch`` (a CPU build is enough) and ``pip install ".[docs]" ./lab`` install what pages and
tutorials need. Then ``python -m sphinx -W -b html docs build/html`` fails at any link or anchor inside the
documentation that leads nowhere. ``python -m sphinx -b linkcheck docs build/links`` also asks the addresses
of other sites, so it needs a network.
"""

from docutils.nodes import Text, literal_block

from dygcn import __version__

project = "dygcn"
author = "The dygcn developers"
version = release = __version__
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
exclude_patterns = ["_build"]
nitpicky = False  # links of pages are checked without it; it would ask for every type in a signature

myst_heading_anchors = 3
autodoc_typehints = "description"
autodoc_member_order = "bysource"

nb_execution_mode = "cache"  # beside the built pages: a notebook runs again when its code changes
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_execution_timeout = 300
nb_merge_streams = True

html_theme = "furo"
html_show_copyright = False
html_title = f"dygcn {version}"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
pygments_dark_style = "monokai"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

linkcheck_ignore = [r"http://(localhost|127\.0\.0\.1)(:\d+)?/"]  # of a service on the reader's own machine
linkcheck_timeout = 20
linkcheck_retries = 2


def drop_last_blank_line(app, document):
    """Remove the blank line that a tested example needs at its end."""
    for block in document.findall(literal_block):
        text = block.astext().rstrip("\n")
        if len(block.children) == 1 and text != block.astext():
            block.rawsource, block[:] = text, [Text(text)]


def setup(app):
    """Connect what is done to pages."""
    app.connect("doctree-read", drop_last_blank_line)
