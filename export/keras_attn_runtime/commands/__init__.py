"""Commands of `keras-attn-runtime`. Each command is a module.

A module defines `HELP` (one line), `DESCRIPTION`, `add_arguments(parser)` and `run(arguments)`.
`run` returns the exit status. `arguments.parser` is the parser of the command; use it to report
invalid combinations of options.
"""
