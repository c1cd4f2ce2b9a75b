"""Fit once, then feed it changes: the object that users hold."""
