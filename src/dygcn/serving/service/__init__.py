"""The live embedding over HTTP, beside brokers and databases."""
