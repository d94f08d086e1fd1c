"""The code of the guides of the runtime works as printed, with tiny files."""

import json
import shutil

import onnx
import pytest
from keras_attn_runtime import InputError, ModelFileError
from keras_attn_runtime._commands.main import build_parser, main

from tests.page_blocks import blocks, commands, run_block, run_page
from tests.runtime.fake_model import build_model, metadata

PAGES = ("runtime-command", "runtime-speed", "javascript")


@pytest.fixture
def files(tokenizer_model, tmp_path, monkeypatch):
    """Enters a folder with the file that the guides read."""
    monkeypatch.chdir(tmp_path)
    onnx.save(build_model(metadata(tokenizer_model)), "model.onnx")
    return tmp_path


def test_readme_of_the_runtime(files):
    assert run_page("../export/README.md", {})["result"].text == "some text"


def test_guide_of_runtime_speed(files):
    assert len(run_page("runtime-speed.md", {})["results"]) == 100


def test_guide_of_other_hosts(files, capsys):
    arguments = ["--tokenizers", "tokenizers", "--settings", "settings.json"]
    assert main(["extract", "model.onnx", *arguments]) == 0
    capsys.readouterr()
    run_block("other-hosts.md", 0, {})
    assert capsys.readouterr().out == "some text\n"


@pytest.mark.parametrize("page", PAGES)
def test_commands_have_the_options_in_the_guides(page):
    calls = commands(f"{page}.md", "keras-attn-runtime")
    assert calls
    for arguments in calls:
        build_parser().parse_args(arguments)


class TestService:
    """The web service in docs/deploy.md."""

    @pytest.fixture
    def names(self, model_path, tmp_path, monkeypatch):
        pytest.importorskip("starlette")
        pytest.importorskip("httpx2")
        monkeypatch.chdir(tmp_path)
        shutil.copy(model_path, "translator.onnx")
        (service,) = blocks("deploy.md", "python")
        names = {"__name__": "service"}
        exec(compile(service, "service.py", "exec"), names)
        return names

    @pytest.fixture
    def post(self, names):
        from starlette.testclient import TestClient

        with TestClient(names["app"]) as client:

            def post(content):
                answer = client.post("/translate", content=content)
                return answer.status_code, answer.json()

            yield post

    def test_translates_texts(self, post):
        body = json.dumps({"texts": ["some text", "two dogs"]})
        assert post(body) == (200, {"translations": [["some text"], ["two dogs"]]})
        body = json.dumps({"texts": ["some text"], "num_hypotheses": 2})
        assert post(body) == (200, {"translations": [["some text", ""]]})

    def test_wrong_text_is_422_with_its_index(self, post):
        status, answer = post(json.dumps({"texts": ["some text", "two dogs " * 300]}))
        assert status == 422 and answer["index"] == 1
        assert answer["error"].startswith("expected at most max_source_length=512 tokens")
        status, answer = post(json.dumps({"texts": [3]}))
        assert status == 422 and answer["index"] == 0

    def test_deadline_is_504(self, names, post):
        names["TIMEOUT"] = 0
        status, answer = post(json.dumps({"texts": ["some text"]}))
        assert status == 504 and "did not finish within" in answer["error"]

    def test_failed_engine_is_500(self, names, post, monkeypatch):
        def fail(*_, **__):
            raise ModelFileError("ONNX Runtime failed")

        monkeypatch.setattr(names["Translator"], "translate", fail)
        answer = {"error": "ONNX Runtime failed"}
        assert post(json.dumps({"texts": ["some text"]})) == (500, answer)

    @pytest.mark.parametrize(
        "body, message",
        [
            ('{"texts": ["some text"], "num_hypotheses": 9}', "num_hypotheses of at most 2"),
            ('{"texts": "some text"}', "Expected texts to be a list"),
            ("{}", "Expected texts to be a list"),
            ("[]", "Expected a JSON object"),
            ("{", "property name"),
        ],
    )
    def test_wrong_request_is_400(self, post, body, message):
        status, answer = post(body)
        assert status == 400 and message in answer["error"]

    def test_handlers_are_those_in_the_table(self, names):
        handlers = names["app"].exception_handlers
        assert set(handlers) == {InputError, names["DeadlineExceeded"], ModelFileError, ValueError}
