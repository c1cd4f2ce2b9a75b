"""A live embedding that survives a loss of power: log, snapshots, recovery, and the feed of changes."""
