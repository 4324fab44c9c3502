# Images with ctd_jax and the versions of constraints/, checked by hash.
#
#   docker build --target=cpu --tag=ctd_jax:cpu \
#     --build-arg=COMMIT="$(git rev-parse HEAD)" .
#   docker run --rm --volume="$PWD/runs:/runs" ctd_jax:cpu \
#     train --config=configs/tiny.py --workdir=/runs/tiny
#
# Targets: cpu; cuda, for NVIDIA's container toolkit (run --gpus=all); tpu.
# Pages of an index: run --publish=8321:8321 ... serve --host=0.0.0.0 --token \
#   --index=...
# Layers that change rarely come first: for another commit only the package is
# built, pushed and pulled again.

# A version that constraints/ locks.
ARG PYTHON=3.11

FROM python:${PYTHON}-slim-bookworm AS python
ENV PATH=/opt/ctd_jax/bin:$PATH \
  PIP_DISABLE_PIP_VERSION_CHECK=1 \
  PIP_NO_CACHE_DIR=1

FROM python AS wheel
WORKDIR /source
COPY constraints/build.txt constraints/
RUN pip install --require-hashes --requirement=constraints/build.txt
COPY LICENSE README.md pyproject.toml setup.py ./
COPY configs configs
COPY ctd_jax ctd_jax
COPY data data
RUN pip wheel --no-build-isolation --no-deps --wheel-dir=/wheel .

FROM python AS requirements
ARG PYTHON
WORKDIR /constraints
RUN python -m venv /opt/ctd_jax
COPY constraints .
# Build tools first, so that pip does not fetch other versions of them.
RUN pip install --require-hashes --requirement=build.txt \
  && pip install --require-hashes --no-build-isolation \
    --requirement="py${PYTHON}.txt"

FROM requirements AS requirements-cuda
RUN pip install --require-hashes --requirement="py${PYTHON}-cuda.txt"

FROM requirements AS requirements-tpu
RUN pip install --require-hashes --requirement="py${PYTHON}-tpu.txt"

FROM python AS user
ARG COMMIT=""
# Results name the commit; an image has no checkout to ask.
ENV CTD_JAX_COMMIT=${COMMIT}
# Rare characters of the pages.
RUN apt-get update \
  && apt-get install --yes --no-install-recommends \
    fonts-hanazono=20170904-2.1 \
  && rm -rf /var/lib/apt/lists/*
RUN useradd --uid=1000 --create-home ctd_jax
WORKDIR /home/ctd_jax
ENTRYPOINT ["ctd-jax"]
CMD ["--help"]

FROM user AS cpu
COPY --from=requirements /opt/ctd_jax /opt/ctd_jax
RUN --mount=from=wheel,source=/wheel,target=/wheel \
  pip install --no-deps --no-index /wheel/*.whl
USER 1000

FROM user AS cuda
# The requirements include CUDA's libraries; the driver is the host's.
ENV NVIDIA_VISIBLE_DEVICES=all \
  NVIDIA_DRIVER_CAPABILITIES=compute,utility
COPY --from=requirements-cuda /opt/ctd_jax /opt/ctd_jax
RUN --mount=from=wheel,source=/wheel,target=/wheel \
  pip install --no-deps --no-index /wheel/*.whl
USER 1000

FROM user AS tpu
COPY --from=requirements-tpu /opt/ctd_jax /opt/ctd_jax
RUN --mount=from=wheel,source=/wheel,target=/wheel \
  pip install --no-deps --no-index /wheel/*.whl
# Stays root: in a pod, only root may be able to use devices and buckets.
