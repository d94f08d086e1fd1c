"""Commands of `keras-attn`.

The commands are a separate package, because importing `keras_attn` imports Keras and its backend,
which takes time. `keras_attn` is imported only while a command runs, so that `--help` is fast.

The module of a command defines `HELP` (one line), `DESCRIPTION`, `add_arguments(parser)` and
`run(arguments)`. `run` returns the exit status. It reports invalid combinations of options with
`arguments.parser.error`.
"""
