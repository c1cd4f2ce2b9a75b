"""A graph and its messages, exactly: events, graph, features, propagation, models and their training.

Read `records` first. Files are opened in `events.files` and `models.folder` only, threads are started in
`propagation.spreading` only, and nothing here knows a network.
"""
