"""Every decoder that a stranger reaches, and inputs that were made to be slow for it."""
