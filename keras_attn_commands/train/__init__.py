"""`keras-attn train PROGRAM`: complete training programs, one module for each.

`settings` declares settings, reads and writes them as TOML. `command` parses the command line. A
program consists of `NAME_settings`, without imports of Keras, and `NAME`.
"""
