"""How well scores separate links from negative samples, for training and health."""
