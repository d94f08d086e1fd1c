import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

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
        (["--addresses", "a:1,b:1", "--indices", "0,0", "PROGRAM"], "repetitions, received [0, 0]"),
        (["--addresses", "10.0.0.1,10.0.0.2", "PROGRAM"], "HOST:PORT with a port from 1 to 65535"),
        (["--addresses", "a:1,a:1", "PROGRAM"], "different addresses, received 'a:1,a:1'"),
        (["--addresses", "a:1,", "PROGRAM"], "expected HOST:PORT"),
        (["--addresses", "a:70000", "PROGRAM"], "received 'a:70000'"),
        (["--workers", "0", "PROGRAM"], "a number of 1 or more, received 0"),
        (["nothing.py"], "'nothing.py', which is no file"),
    ],
)
def test_launch_refuses_wrong_options(program, arguments, message, capsys):
    arguments = [program if each == "PROGRAM" else each for each in arguments]
    with pytest.raises(SystemExit, match="2"):
        main(["launch", *arguments])
    assert message in capsys.readouterr().err


WAITING = """
import os, pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, lambda *_: (folder / "received").touch())
(folder / f"{os.getpid()}.pid").touch()
while True:
    time.sleep(0.1)
"""
COMMAND = """
import signal, sys
from keras_attn_commands import launch
from keras_attn_commands.main import main
launch.STOP_SECONDS = 0.5
for name in launch.STOP_SIGNALS:  # nohup, which may run the tests, ignores SIGHUP
    signal.signal(getattr(signal, name), signal.SIG_DFL)
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows does not have these signals")
@pytest.mark.parametrize(
    "name, behaviour", [("SIGTERM", "stubborn"), ("SIGHUP", "default"), ("SIGQUIT", "default")]
)
def test_launch_stops_its_workers_after_a_signal(tmp_path, name, behaviour):
    (tmp_path / "program.py").write_text(WAITING)
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", COMMAND, "launch", "--workers", "2", "--restarts", "1"]
    launcher = subprocess.Popen(
        [*command, str(tmp_path / "program.py"), str(tmp_path), behaviour],
        env={**os.environ, "PYTHONPATH": str(root)},
        stderr=subprocess.DEVNULL,
    )
    while len(list(tmp_path.glob("*.pid"))) < 2:
        assert launcher.poll() is None
        time.sleep(0.05)
    launcher.send_signal(getattr(signal, name))
    assert launcher.wait(30) == 128 + getattr(signal, name)
    for path in tmp_path.glob("*.pid"):
        with pytest.raises(ProcessLookupError):
            os.kill(int(path.stem), 0)
    assert len(list(tmp_path.glob("*.pid"))) == 2  # not started again
    assert (tmp_path / "received").exists() == (behaviour == "stubborn")
