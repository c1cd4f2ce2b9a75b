"""Measurements that a command or a script can rerun."""
