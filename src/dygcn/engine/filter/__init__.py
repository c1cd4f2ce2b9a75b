"""The filter: whom others with a taste like one's own took, in sums that follow every event."""
