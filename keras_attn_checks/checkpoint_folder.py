import json
from pathlib import Path

from keras_attn_checks.message import Argument, Message
from keras_attn_checks.path_kind import CONFIG, RUN, describe_path

STATE = "checkpoint"
"""Text file in a folder of TensorFlow checkpoints. It contains the name of the newest one."""


ADAPTER = "adapter_config.json"
"""File of an adapter in the format of PEFT, such as LoRA."""


def folder_problem(folder: Path) -> str | None:
    """Returns an error message, unless a path is a checkpoint folder of transformers.

    Args:
        folder: Path that `keras-attn convert` received.

    Returns:
        String, an error message that describes the path and what to do. `None` if the path is a
        folder with a `config.json`.
    """
    received = Argument("path", str(folder))
    if folder.is_dir():
        if (folder / ADAPTER).is_file():
            return _adapter_problem(folder)
        if (folder / CONFIG).is_file():
            return None
        text = _describe_folder(folder)
        return Message(f"Expected a folder with {CONFIG}. Received: ", received, f", {text}")
    if folder.exists():
        text = _describe_file(folder)
        return Message("Expected the path of a folder. Received: ", received, f", {text}")
    name = str(folder)
    if not folder.is_absolute() and name.count("/") <= 1 and not name.startswith("."):
        advice = (
            "If this is the name of a model on the Hugging Face Hub, download it first: `pip "
            f"install huggingface_hub`, then `hf download {name} --local-dir {folder.name}`, and "
            f"convert the folder {folder.name!r}."
        )
    else:
        advice = "Check the path."
    problem = f", which does not exist. {advice}"
    return Message("Expected the path of a folder. Received: ", received, problem)


def is_opennmt_checkpoint(path: Path) -> bool:
    """Returns whether a path is a TensorFlow checkpoint, or a folder with such checkpoints."""
    if path.is_dir():
        return (path / STATE).is_file() or any(path.glob("*.index"))
    path = path.with_suffix("") if path.suffix == ".index" else path
    return path.with_name(f"{path.name}.index").is_file()


def _adapter_problem(folder):
    """Returns the error message of a folder with an adapter of PEFT, which transformers loads."""
    try:
        config = json.loads((folder / ADAPTER).read_text(encoding="utf-8"))
        base = str(config["base_model_name_or_path"])
    except (LookupError, OSError, RecursionError, TypeError, ValueError):
        base = "BASE"
    return Message(
        "Expected a folder with the weights of a whole model. Received: ",
        Argument("path", str(folder)),
        f", an adapter of PEFT ({ADAPTER}). Merge it into its base model, and convert the result: "
        f"`AutoPeftModel.from_pretrained({str(folder)!r}).merge_and_unload().save_pretrained("
        f"{folder.name + '-merged'!r})`, with the class for the task. The base model is "
        f"{base!r}. If the adapter is merged already, remove {ADAPTER}.",
    )


def _describe_folder(path):
    """Describes a folder without `config.json`, and what to do, for an error message."""
    kind = describe_path(path)
    if kind == "a run directory":
        return "a run directory, which is already converted. Pass it to `keras-attn export`."
    if kind == "a directory":
        return f"in which {CONFIG} is missing. Copy the whole folder of the checkpoint."
    return f"{kind}, which cannot be converted. Pass the folder of the original checkpoint."


def _describe_file(path):
    """Describes a file, and what to do, for an error message."""
    kind, folder = describe_path(path), path.parent
    if (folder / RUN).is_file():
        return (
            f"{kind} of a run directory, which is already converted. Pass {str(folder)!r} to "
            "`keras-attn export`."
        )
    if (folder / CONFIG).is_file():
        return f"{kind}. Pass its folder, {str(folder)!r}."
    return f"{kind}. Pass the folder that contains {CONFIG}, the weights and the tokenizers."
