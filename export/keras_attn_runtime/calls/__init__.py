"""One call of a model: its options, deadline, cancellation and threads."""
