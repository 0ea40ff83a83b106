"""Charts: pure functions from a trace to a Plotly figure."""
