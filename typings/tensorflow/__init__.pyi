# TensorFlow has no type information. The stubs that come with basedpyright are incomplete: with
# them, functions that exist are reported as unknown. So everything in it is untyped here.
from typing import Any

def __getattr__(name: str) -> Any: ...
