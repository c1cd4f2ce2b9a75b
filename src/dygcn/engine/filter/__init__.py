"""The filter: a recommender from co-occurrence sums that follow every event."""
