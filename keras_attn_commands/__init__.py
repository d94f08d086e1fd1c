"""Commands of `keras-attn`. Each command is a module.

The commands are a separate package, because importing `keras_attn` imports Keras and its backend,
which takes time. The modules import `keras_attn` in `run`, so that `--help` is fast.

A module defines `HELP` (one line), `DESCRIPTION`, `add_arguments(parser)` and `run(arguments)`.
`run` returns the exit status. `arguments.parser` is the parser of the command; use it to report
invalid combinations of options.
"""
