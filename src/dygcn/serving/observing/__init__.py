"""What operators see of a service: log lines, request ids, traces, metrics, alerts and a dashboard."""
