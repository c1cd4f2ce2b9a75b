"""The files of a durable folder: log, snapshots, dead letters, erasures."""
