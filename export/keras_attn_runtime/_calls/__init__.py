"""Options, deadlines, cancellation and threads for model calls."""
