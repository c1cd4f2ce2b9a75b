"""How well scores tell links from other pairs: what training and health need of it."""
