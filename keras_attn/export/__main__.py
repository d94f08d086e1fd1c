"""`python -m keras_attn.export FORMAT RUN OUT` runs `keras-attn export FORMAT RUN OUT`.

Python imports the package `keras_attn`, and therefore Keras, before it runs this module. `python -m
keras_attn_commands export` runs the same command without this delay.
"""

import sys

from keras_attn_commands import main as program

if __name__ == "__main__":
    sys.exit(program.main(["export", *sys.argv[1:]]))
