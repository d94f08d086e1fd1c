import json
import os

import pytest

from keras_attn_commands import launch
from keras_attn_commands.main import main

PROGRAM = """
import json, os, pathlib, sys, time
index = int(os.environ["KERAS_DISTRIBUTION_PROCESS_ID"])
names = "TF_CONFIG", "KERAS_DISTRIBUTION_JOB_ADDRESSES", "KERAS_DISTRIBUTION_NUM_PROCESSES"
report = {name: os.environ[name] for name in names} | {"arguments": sys.argv[2:]}
folder = pathlib.Path(sys.argv[1])
(folder / f"{index}.json").write_text(json.dumps(report))
if "fail-once" in sys.argv and index == 1 and not (folder / "failed").exists():
    (folder / "failed").touch()
    sys.exit(3)
if "fail-once" in sys.argv and not (folder / "restarted").exists():
    (folder / "restarted").touch()
    time.sleep(60)  # waits for the other worker
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


def test_launch_gives_each_worker_its_variables(program, tmp_path):
    assert main(["launch", "--workers", "2", program, str(tmp_path), "--option", "1"]) == 0
    reports = [json.loads((tmp_path / f"{index}.json").read_text()) for index in range(2)]
    for index, report in enumerate(reports):
        config = json.loads(report["TF_CONFIG"])
        addresses = config["cluster"]["worker"]
        assert config["task"] == {"type": "worker", "index": index}
        assert len(set(addresses)) == 2
        assert report["KERAS_DISTRIBUTION_JOB_ADDRESSES"] == ",".join(addresses)
        assert report["KERAS_DISTRIBUTION_NUM_PROCESSES"] == "2"
        assert report["arguments"] == ["--option", "1"]


def test_launch_starts_the_workers_of_this_machine_only(program, tmp_path):
    options = ["--addresses", "a:1,b:2,c:3", "--indices", "2"]
    assert main(["launch", *options, program, str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.glob("*.json")) == ["2.json"]


def test_launch_ends_the_others_and_starts_again(program, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(launch, "GRACE_SECONDS", 0.5)
    assert main(["launch", "--restarts", "1", program, str(tmp_path), "fail-once"]) == 0
    errors = capfd.readouterr().err
    assert "Worker 1 failed: exit status 3." in errors
    assert "Starting all workers again." in errors
    os.remove(tmp_path / "failed")
    assert main(["launch", program, str(tmp_path), "fail-once"]) == 3


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--workers", "2", "--addresses", "a:1,b:1", "PROGRAM"], "pass one of them"),
        (["--indices", "0", "PROGRAM"], "--indices needs --addresses"),
        (["--addresses", "a:1,b:1", "--indices", "2", "PROGRAM"], "from 0 to 1, received [2]"),
        (["--workers", "0", "PROGRAM"], "a number of 1 or more, received 0"),
        (["nothing.py"], "'nothing.py', which is no file"),
    ],
)
def test_launch_refuses_wrong_options(program, arguments, message, capsys):
    arguments = [program if each == "PROGRAM" else each for each in arguments]
    with pytest.raises(SystemExit, match="2"):
        main(["launch", *arguments])
    assert message in capsys.readouterr().err
