"""A durable embedding beside other systems: the HTTP service, sources of events, sinks of vectors."""
