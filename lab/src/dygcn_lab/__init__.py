"""The laboratory of dygcn: evaluation, baselines, experiments, costs, reports, promises put to the test."""
