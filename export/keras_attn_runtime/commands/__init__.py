"""The commands of `keras-attn-runtime`, one module each.

A module has `HELP` (one line), `DESCRIPTION`, `add_arguments(parser)` and `run(arguments)`, which
returns the exit status. `arguments.parser` is the parser of the command, for errors about
combinations of options.
"""
