"""What updates cost: time beside the bare additions, rows, bytes, and where rerunning becomes cheaper."""
