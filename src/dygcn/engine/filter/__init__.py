"""The filter: which answers nodes of the same taste have, in sums that follow every event."""
