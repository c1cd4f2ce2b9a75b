"""A rule, a source and a sink of another distribution."""
