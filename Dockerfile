# radii on a CPU: docker build -t radii . && docker run --rm -v "$PWD:/work" radii assess digits
FROM python:3.12-slim
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 RADII_CACHE=/tmp/radii
WORKDIR /radii
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN pip install torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu \
    && pip install -c constraints.txt ".[onnx]" \
    && useradd --create-home --uid 1000 radii
USER 1000
WORKDIR /work
ENTRYPOINT ["radii"]
CMD ["--help"]
