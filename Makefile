# attest: set up, build, run the main job, test. `make help` lists the targets.
PACKAGES = gcc g++ cmake ninja-build pkg-config git python3 libcjson-dev libmd-dev libopenblas-openmp-dev
JOBS ?= $(shell nproc)
BUILD ?= build

.DEFAULT_GOAL := help
FRONTEND ?= 1.32.0
.PHONY: cudnn-frontend cudnn-library help fidelity deps build sweep test asan coverage install clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 18

deps: ## print what is missing and install it (as root or with sudo -n)
	@missing=; for p in $(PACKAGES); do \
	    dpkg-query -W -f '$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$p"; done; \
	if [ -z "$$missing" ]; then echo "deps: nothing is missing"; exit 0; fi; \
	echo "deps: missing:$$missing"; \
	command="apt-get install -y --no-install-recommends$$missing"; \
	if [ "$$(id -u)" = 0 ]; then as=; elif sudo -n true 2>/dev/null; then as="sudo -n"; else \
	    echo "deps: run this as root, then make again:"; echo "    apt-get update && $$command"; exit 1; fi; \
	$$as apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$as $$command

.cache/cudnn-frontend-$(FRONTEND):
	@rm -rf $@.part && mkdir -p $@.part
	python3 -m pip download -q --no-deps --disable-pip-version-check -d $@.part nvidia-cudnn-frontend==$(FRONTEND)
	@python3 -m zipfile -e $@.part/*.whl $@.part/wheel && mv $@.part/wheel $@ && rm -rf $@.part

cudnn-frontend: ## fetch cuDNN's frontend headers from PyPI (FRONTEND=1.32.0, 12 MB)
	@if [ -f /usr/local/cuda/include/cudnn.h ] || [ -f "$(CUDA_HOME)/include/cudnn.h" ]; then \
	    $(MAKE) --no-print-directory .cache/cudnn-frontend-$(FRONTEND) || \
	    echo "cudnn-frontend: cannot be fetched; the cuDNN part is left out"; \
	else echo "cudnn-frontend: no cudnn.h here; the cuDNN part is left out"; fi

VERSION ?= newest
cudnn-library: ## fetch another cuDNN from PyPI to compare with (VERSION=9.14 or newest, 200 to 700 MB)
	@rm -rf .cache/cudnn.part && mkdir -p .cache/cudnn.part .cache/cudnn
	python3 -m pip download -q --no-deps --disable-pip-version-check -d .cache/cudnn.part \
	    'nvidia-cudnn-cu13$(if $(filter newest,$(VERSION)),,==$(VERSION).*)'
	@wheel=$$(ls .cache/cudnn.part/*.whl) && version=$$(basename "$$wheel" | cut -d- -f2) && \
	    rm -rf ".cache/cudnn/$$version" && python3 -m zipfile -e "$$wheel" .cache/cudnn.part/wheel && \
	    mv .cache/cudnn.part/wheel ".cache/cudnn/$$version" && echo "cudnn-library: cuDNN $$version in .cache/cudnn"
	@rm -rf .cache/cudnn.part

build: deps cudnn-frontend ## build the tool at build/attest
	@cmake --preset dev -B $(BUILD) >$(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }
	@rm -f $(BUILD).log
	@cmake --build $(BUILD) -j $(JOBS)

PACKAGES_PYTHON = .cache/python/bin/python
ADAPTERS = ort_attention ort_contrib onnx_reference jax_xla
WANTED = kernels/python/cpu/requirements.txt
python-packages: ## install ONNX Runtime, onnx and JAX below .cache/python, pinned (1 GB); the sweep runs them then
	@cmp -s $(WANTED) .cache/python/requirements.txt || { rm -rf .cache/python && python3 -m venv .cache/python && \
	    $(PACKAGES_PYTHON) -m pip install -q --disable-pip-version-check -r $(WANTED) && \
	    cp $(WANTED) .cache/python/requirements.txt; } || { rm -rf .cache/python; \
	    echo "python-packages: onnxruntime cannot be installed; ort.* are left out"; \
	    echo "python-packages: onnx cannot be installed; onnx.reference is left out"; \
	    echo "python-packages: jax cannot be installed; jax.* are left out"; }

sweep: build python-packages ## the main job: run the suites on the backends at hand, print findings and audits
	@if [ -x $(PACKAGES_PYTHON) ]; then set -- default cpu-packages cpu-jax --worker \
	    "LIBATTEST=$(abspath $(BUILD))/libattest.so.1 exec $(PACKAGES_PYTHON) kernels/python/cpu/worker.py $(ADAPTERS)"; fi; \
	$(BUILD)/attest sweep "$$@" -o attest-out; code=$$?; echo; \
	if [ -f $(BUILD)/libattest_cudnn.so ]; then \
	    $(BUILD)/attest audit --selector cudnn --arch sm90 --space cudnn --against te-2.19 --stage validate --limit 3 -q || \
	    [ $$? = 1 ] || echo "cuDNN is not audited: libcudnn.so.9 cannot be asked (name it with ATTEST_CUDNN)"; \
	else echo "cuDNN is not audited: built without its headers or its frontend (make cudnn-frontend)"; fi; exit $$code

TORCH_PYTHON ?= .cache/torch/bin/python
sweep-torch: build ## PyTorch's CPU flash and math kernels, 23000 runs (installs torch below .cache/torch once, 5 GB)
	@test -x $(TORCH_PYTHON) || { python3 -m venv .cache/torch && $(TORCH_PYTHON) -m pip install -q \
	    --disable-pip-version-check torch==2.11.0 numpy==2.4.6 ml_dtypes==0.6.0; }
	$(BUILD)/attest sweep cpu-packages-torch -o attest-out-torch --worker \
	    "LIBATTEST=$(abspath $(BUILD))/libattest.so.1 exec $(TORCH_PYTHON) kernels/python/cpu/worker.py torch_cpu"

test: build ## build and run all tests (GPU tests are skipped where no GPU is)
	cd $(BUILD) && ctest -j $(JOBS) --output-on-failure

TE_CACHE ?= .cache/te
TE_PYTHON = $(TE_CACHE)/venv/bin/python
fidelity: build ## compare the te-* rule sets with the real releases (about 8 GB from PyPI, once)
	test -x $(TE_PYTHON) || { python3 -m venv $(TE_CACHE)/venv && $(TE_PYTHON) -m pip install -q torch==2.11.0 numpy \
	    packaging pydantic importlib-metadata nvdlfw-inspect onnxscript einops; }
	$(TE_PYTHON) kernels/python/te_selector/fetch.py $(TE_CACHE)
	$(TE_PYTHON) kernels/python/te_selector/record.py $(TE_CACHE) $(BUILD)/te_fused_half $(TE_CACHE)/recorded \
	    --sample $(TE_CACHE)/golden
	cd $(BUILD) && ATTEST_GOLDEN=$(abspath $(TE_CACHE))/recorded ctest -R '^fidelity' --timeout 1800 --output-on-failure
	for f in $(TE_CACHE)/golden/te-*.jsonl; do cmp $$f corpus/selectors/golden/$$(basename $$f) || exit 1; done

asan: deps ## the tests under AddressSanitizer and UBSan
	cmake --preset asan && cmake --build build-asan -j $(JOBS)
	cd build-asan && ctest -j $(JOBS) --output-on-failure -LE slow

coverage: deps ## line coverage of the tests (needs gcovr)
	cmake --preset coverage && cmake --build build-coverage -j $(JOBS)
	cd build-coverage && ctest -j $(JOBS) -LE slow
	gcovr -r . --exclude harness/tests --exclude harness/fuzz build-coverage

install: build ## install the tool, libattest and its headers (PREFIX=/usr/local)
	cmake --install $(BUILD) --prefix $(or $(PREFIX),/usr/local)

clean: ## remove the build folders and attest-out
	rm -rf build build-* attest-out
