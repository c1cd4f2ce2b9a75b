"""Input features x = h_0: made by `fit`, hashed from the id, or given by the user."""
