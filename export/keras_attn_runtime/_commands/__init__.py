"""Commands in `keras-attn-runtime`, one module each.

A module defines `HELP` (one line), `DESCRIPTION`, `add_arguments(parser)` and `run(arguments)`.
`run` returns the exit status. Use `arguments.parser` to report invalid combinations of options.
"""
