"""Options, deadlines, cancellation and threads of model calls."""
