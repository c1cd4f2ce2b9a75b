"""Every promise put to the test: `run` runs the checks of `promises`, `page` writes what they found."""
