# Each target creates the environment that it needs. Only Python and make must be installed.
#
#   make demo       train a date translator, export it, run it without TensorFlow, draw its attention
#   make test       tests of the library and the runtime    make test-slow  the slow tests
#   make test-programs  tests of exports, conversions, commands, examples and guides, which take as long as the others
#   make test-jax   layer, search and training tests with JAX, in an environment without TensorFlow
#   make test-torch layer, search and training tests with PyTorch, in an environment without TensorFlow
#   make test-oldest tests of both targets with the oldest releases that setup.cfg allows
#   make test-convert converted checkpoints against transformers, in an environment with PyTorch, except the slow tests
#   make test-convert-slow  the slow ones: each setting of each kind of checkpoint, and published configurations
#   make test-parity-pytorch  blocks against PyTorch's, with the same weights
#   make docs       build the site in build/site/site
#   make lint       check the code                      make format     apply automatic fixes
#   make bench      training speed against the peers    make clean      remove all build outputs
#   make bench-decode RUN=... NAME=...  translation speed against CTranslate2
#   make bench-decode-rnn RUN=... NAME=...  translation speed with an RNN, against SavedModel and PyTorch

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.PHONY: demo docs test test-programs test-slow test-jax test-torch test-oldest test-convert test-convert-slow test-parity-pytorch lint format bench bench-decode bench-decode-rnn clean

PYTHON ?= python3
# TensorFlow's faster operators for CPUs, the default only on processors with VNNI.
export TF_ENABLE_ONEDNN_OPTS ?= 1
# No notices about new pip versions.
export PIP_DISABLE_PIP_VERSION_CHECK := 1

PROJECT := setup.cfg setup.py pyproject.toml
RUNTIME := export/setup.cfg export/pyproject.toml
DEMO := build/demo

# Check the Python version first: pip would complain about one package after another.
CHECK_PYTHON := @$(PYTHON) -c 'import sys; v = sys.version.split()[0]; sys.exit(None if (3, 11) <= sys.version_info < (3, 14) \
	else f"Expected Python 3.11 to 3.13. Received: Python {v}. Run make PYTHON=python3.13, with the name of yours.")'

# An environment is a folder with a stamp file, dated to the last complete installation.

# The demo needs less than the tests, which add the rest to the same environment.
.venv/demo-installed: $(PROJECT) $(RUNTIME)
	@echo "== Installing keras-attn and keras-attn-runtime into .venv: TensorFlow is large, this takes some minutes"
	$(CHECK_PYTHON)
	$(PYTHON) -m venv --clear .venv
	.venv/bin/pip install --quiet --progress-bar on -e '.[strings,plot]' -e './export[cpu]'
	touch $@

.venv/installed: .venv/demo-installed
	@echo "== Installing what the tests need into .venv"
	.venv/bin/pip install --quiet -e '.[all,test,docs]' -e './export[cpu]'
	touch $@

# TensorFlow is not installed here, because other backends must not need it.
.venv-jax/installed: $(PROJECT)
	@echo "== Installing keras-attn with JAX into .venv-jax"
	$(CHECK_PYTHON)
	$(PYTHON) -m venv --clear .venv-jax
	.venv-jax/bin/pip install --quiet -e '.[test]'
	touch $@

.venv-torch/installed: $(PROJECT)
	@echo "== Installing keras-attn with PyTorch into .venv-torch"
	$(CHECK_PYTHON)
	$(PYTHON) -m venv --clear .venv-torch
	.venv-torch/bin/pip install --quiet -e '.[torch,test]'
	touch $@

.venv-oldest/installed: $(PROJECT) $(RUNTIME) constraints-oldest.txt
	@echo "== Installing keras-attn and keras-attn-runtime with their oldest requirements into .venv-oldest"
	$(CHECK_PYTHON)
	$(PYTHON) -m venv --clear .venv-oldest
	.venv-oldest/bin/pip install --quiet -c constraints-oldest.txt -e '.[all,test]' -e './export[cpu]'
	touch $@

# PyTorch's own index provides smaller CPU builds: PIP_EXTRA_INDEX_URL selects it.
.venv-convert/installed: $(PROJECT) $(RUNTIME)
	@echo "== Installing keras-attn, PyTorch and transformers into .venv-convert"
	$(CHECK_PYTHON)
	$(PYTHON) -m venv --clear .venv-convert
	.venv-convert/bin/pip install --quiet -e '.[all,test,convert,verify]' -e './export[cpu]'
	touch $@

# A server environment: only the runtime, as a package.
.venv-runtime/installed: $(RUNTIME) $(wildcard export/keras_attn_runtime/*.py export/keras_attn_runtime/*/*.py)
	@echo "== Installing keras-attn-runtime into .venv-runtime"
	$(CHECK_PYTHON)
	$(PYTHON) -m venv --clear .venv-runtime
	.venv-runtime/bin/pip install --quiet './export[cpu]'
	touch $@

.venv-bench/installed: $(PROJECT)
	@echo "== Installing keras-attn, PyTorch, KerasHub and CTranslate2 into .venv-bench"
	$(CHECK_PYTHON)
	$(PYTHON) -m venv --clear .venv-bench
	.venv-bench/bin/pip install --quiet -e '.[all,bench,test]'
	touch $@

# TensorFlow writes these lines while it is imported, whatever its log level.
WITHOUT_TENSORFLOW_LOG := 2> >(grep --line-buffered --invert-match --extended-regexp \
	'^([IWE][0-9]{4} |WARNING: All log messages before absl|To enable the following instructions)' >&2)

# python -I ignores the current folder and PYTHONPATH, so only installed packages are imported.
demo: .venv/demo-installed .venv-runtime/installed
	rm -rf $(DEMO)
	mkdir -p $(DEMO)
	@echo "== 1. Train on generated dates"
	.venv/bin/python examples/train_translation.py --run-dir $(DEMO)/run $(WITHOUT_TENSORFLOW_LOG)
	@echo "== 2. Export"
	.venv/bin/keras-attn export saved-model $(DEMO)/run $(DEMO)/saved_model
	.venv/bin/keras-attn export onnx $(DEMO)/run $(DEMO)/translator.onnx
	@echo "== 3. Translate unseen dates with the ONNX file, where these packages are installed"
	.venv-runtime/bin/pip list --format=freeze > $(DEMO)/packages.txt
	@! grep --extended-regexp --ignore-case '^(tensorflow.*|keras|keras-attn)==' $(DEMO)/packages.txt \
		|| { echo "The environment of the runtime must have neither TensorFlow nor Keras." >&2; exit 1; }
	.venv-runtime/bin/python -I .venv-runtime/bin/keras-attn-runtime translate $(DEMO)/translator.onnx \
		< $(DEMO)/run/data/test.source > $(DEMO)/test.translated
	.venv-runtime/bin/python -I examples/exact_match.py \
		$(DEMO)/test.translated $(DEMO)/run/data/test.target | tee $(DEMO)/exact_match.txt
	@grep --quiet --extended-regexp '^exact match: (98|99|100)\.' $(DEMO)/exact_match.txt \
		|| { echo "Expected an exact match of at least 98 %." >&2; exit 1; }
	@echo "== 4. Draw the attention"
	@printf '%s\n' "en: Monday the 3rd of May 2021" "de: den 1. April 1999" "fr: 14 juillet 2030" > $(DEMO)/dates.txt
	.venv/bin/python examples/attention_map.py $(DEMO)/run $(DEMO)/dates.txt \
		--out $(DEMO)/attention.png $(WITHOUT_TENSORFLOW_LOG)
	@echo "== Three dates, translated by the ONNX file"
	@.venv-runtime/bin/python -I .venv-runtime/bin/keras-attn-runtime translate $(DEMO)/translator.onnx \
		< $(DEMO)/dates.txt | paste -d '>' $(DEMO)/dates.txt - | sed 's/>/ -> /'
	@echo "Wrote $(DEMO)/run, $(DEMO)/translator.onnx, $(DEMO)/saved_model and $(DEMO)/attention.png"
	@echo "Next, on your own data:"
	@echo "  .venv/bin/keras-attn train translation --help"
	@echo "  .venv/bin/keras-attn evaluate $(DEMO)/run"
	@echo "  .venv-runtime/bin/keras-attn-runtime translate $(DEMO)/translator.onnx < YOUR_DATES.txt"

docs: .venv/installed
	.venv/bin/python docs/site/make_pages.py build/site $(WITHOUT_TENSORFLOW_LOG)
	cd build/site && ../../.venv/bin/zensical build --strict -f mkdocs.yml $(WITHOUT_TENSORFLOW_LOG)
	@echo "Wrote build/site/site. To read it: .venv/bin/python -m http.server --directory build/site/site"

# Each worker loads TensorFlow, so there are at most 4. All tests in a module run in one worker and share fixtures.
WORKERS := --numprocesses auto --maxprocesses 4 --dist loadfile

PROGRAM_TESTS := $(addprefix tests/,export convert commands examples \
	test_documentation.py test_site.py test_training_guides.py)

# Each worker uses one core and computes with one thread.
test: .venv/installed
	TF_NUM_INTRAOP_THREADS=1 OMP_NUM_THREADS=1 \
		.venv/bin/python -m pytest $(WORKERS) -m "not slow" $(addprefix --ignore=,$(PROGRAM_TESTS))

test-programs: .venv/installed
	TF_NUM_INTRAOP_THREADS=1 OMP_NUM_THREADS=1 \
		.venv/bin/python -m pytest $(WORKERS) -m "not slow" $(PROGRAM_TESTS)

test-slow: .venv/installed
	TF_NUM_INTRAOP_THREADS=1 OMP_NUM_THREADS=1 .venv/bin/python -m pytest $(WORKERS) -m slow

BACKEND_TESTS := $(addprefix tests/,_backend _decoding_state _drop_ins _layer _random _serialization attention \
		decoders encoders forecasting masks models output_layers positions rnn search testing training transformer) \
	$(addprefix tests/test_,configurations.py keras_style.py time_distributed.py)

# Compiling small functions takes nearly all the time, so fewer optimizations are faster.
test-jax: .venv-jax/installed
	KERAS_BACKEND=jax JAX_DISABLE_MOST_OPTIMIZATIONS=1 \
		.venv-jax/bin/python -m pytest $(WORKERS) -rs -m "not slow" $(BACKEND_TESTS)

# Not part of .ci/run.
test-torch: .venv-torch/installed
	KERAS_BACKEND=torch OMP_NUM_THREADS=1 \
		.venv-torch/bin/python -m pytest $(WORKERS) -rs -m "not slow" $(BACKEND_TESTS)

# Not part of .ci/run.
test-oldest: .venv-oldest/installed
	TF_NUM_INTRAOP_THREADS=1 OMP_NUM_THREADS=1 .venv-oldest/bin/python -m pytest $(WORKERS) -m "not slow"

test-convert: .venv-convert/installed
	TF_NUM_INTRAOP_THREADS=1 OMP_NUM_THREADS=1 \
		.venv-convert/bin/python -m pytest $(WORKERS) -rs -m "not slow" tests/convert

# Not part of .ci/run.
test-convert-slow: .venv-convert/installed
	TF_NUM_INTRAOP_THREADS=1 OMP_NUM_THREADS=1 \
		.venv-convert/bin/python -m pytest $(WORKERS) -rs -m slow tests/convert

test-parity-pytorch: .venv-bench/installed
	.venv-bench/bin/python -m pytest tests/transformer/test_against_pytorch.py

lint: .venv/installed
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/python tests/check_layout.py
	.venv/bin/python tests/check_types.py
	.venv/bin/python tests/check_english.py
	.venv/bin/basedpyright --pythonpath .venv/bin/python

format: .venv/installed
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

bench: .venv-bench/installed
	.venv-bench/bin/python benchmarks/train_rnn.py
	.venv-bench/bin/python benchmarks/train_transformer.py

bench-decode: .venv-bench/installed
	.venv-bench/bin/python benchmarks/decode.py $(RUN) --name $(NAME)

bench-decode-rnn: .venv-bench/installed
	.venv-bench/bin/python benchmarks/decode_rnn.py $(RUN) --name $(NAME)

clean:
	rm -rf .venv .venv-jax .venv-torch .venv-oldest .venv-convert .venv-runtime .venv-bench build export/build
	rm -rf *.egg-info export/*.egg-info .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
