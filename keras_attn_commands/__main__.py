"""`python -m keras_attn_commands` runs `keras-attn`."""

from keras_attn_commands import main as program

if __name__ == "__main__":
    program.run()
