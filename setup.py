"""Adds the example programs to the packages. setup.cfg contains everything else.

The programs are only in `examples/`. A wheel contains them as the package
`keras_attn_commands.example_programs`, from which `keras-attn examples` copies them.
"""

from setuptools import find_packages, setup

PROGRAMS = "keras_attn_commands.example_programs"

setup(
    # Not export/, which is a separate distribution, and not tests.
    packages=[*find_packages(include=["keras_attn*"]), PROGRAMS],
    package_dir={PROGRAMS: "examples"},
)
