"""Several processes for one graph: shards that own slots of nodes."""
