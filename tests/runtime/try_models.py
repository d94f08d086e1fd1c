"""Opens model files and translates with them, in a separate process that may crash.

Reads file names from standard input, and writes a line for each: a JSON list of the status
("translated", "refused" or the class of an undocumented error), and of the translations or the
message.
"""

import json
import resource
import sys

from keras_attn_runtime import ModelFileError, Translator

TEXTS = ["some text", "", "two dogs run over the green field"]
GIBIBYTE = 2**30


def main():
    # A damaged file can request any amount of memory.
    resource.setrlimit(resource.RLIMIT_AS, (8 * GIBIBYTE, 8 * GIBIBYTE))
    for line in sys.stdin:
        print(json.dumps(outcome(line.rstrip("\n"))), flush=True)


def outcome(path):
    try:
        return "translated", Translator(path, num_threads=1)(TEXTS, max_length=20)
    except ModelFileError as error:
        return "refused", str(error)
    except Exception as error:
        return type(error).__name__, str(error)


if __name__ == "__main__":
    main()
