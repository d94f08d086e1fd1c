"""`python -m keras_attn.export FORMAT RUN OUT` runs `keras-attn export FORMAT RUN OUT`."""

import sys

from keras_attn_commands import main as program

if __name__ == "__main__":
    sys.exit(program.main(["export", *sys.argv[1:]]))
