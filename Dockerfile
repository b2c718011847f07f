# Images of logstore. No engine is needed to build them: docs/operations/containers.md.
#
#   docker build --target broker    -t logstore .          broker and commands, without Spark
#   docker build --target spark-job -t logstore-spark .    the same package with Spark and Java
#
# BASE is Debian 12 or newer, with apt: both stages install its Python.
ARG BASE=debian:bookworm-slim

# What wheels are made with, and the pins.
FROM ${BASE} AS build
RUN apt-get update \
 && apt-get install --yes --no-install-recommends \
      ca-certificates gcc libc6-dev python3 python3-dev python3-venv \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY requirements-build.lock ./
RUN python3 -m venv /build \
 && /build/bin/pip install --quiet --require-hashes --no-deps --requirement requirements-build.lock
# What lists the packages of an image, with their hashes (CycloneDX), stays in this stage.
COPY requirements-sbom.lock ./
RUN python3 -m venv /sbom \
 && /sbom/bin/pip install --quiet --require-hashes --no-deps --requirement requirements-sbom.lock
COPY requirements.lock pyproject.toml ./
COPY tools/locked_extras.py tools/

# This package, with its native codec.
FROM build AS package
COPY setup.py README.md LICENSE NOTICE ./
COPY logstore logstore
COPY broker broker
COPY spark_source spark_source
COPY pyspark_logstore pyspark_logstore
RUN /build/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir /wheels . \
 && test -n "$(ls /wheels/*-cp311-abi3-*.whl)"

# The environment of an image: pinned packages, hashes checked, then ours. It has no pip, and its
# bytecode is compiled here.
FROM build AS broker-environment
RUN python3 tools/locked_extras.py broker s3 > /pins \
 && python3 -m venv --without-pip /opt/logstore \
 && /sbom/bin/cyclonedx-py requirements --pyproject pyproject.toml --mc-type application \
      --output-reproducible --output-file /opt/logstore/sbom.cdx.json /pins \
 && /build/bin/pip --python /opt/logstore/bin/python install --quiet --no-deps --no-cache-dir \
      --require-hashes --requirement /pins
COPY --from=package /wheels /wheels
RUN /build/bin/pip --python /opt/logstore/bin/python install --quiet --no-deps --no-index /wheels/*.whl

# What both targets run on: Python, a user, and the only two folders that are written to.
FROM ${BASE} AS runtime
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates python3 \
 && rm -rf /var/lib/apt/lists/* \
 && groupadd --gid 10001 logstore \
 && useradd --uid 10001 --gid logstore --no-create-home --home-dir /state logstore \
 && install --directory --owner logstore --group logstore /state
ENV PATH=/opt/logstore/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/state \
    PYTHONUNBUFFERED=1
VOLUME ["/state", "/tmp"]

FROM runtime AS broker
COPY --from=broker-environment /opt/logstore /opt/logstore
ENV LOGSTORE_LISTEN=0.0.0.0:9092 \
    LOGSTORE_HTTP=0.0.0.0:9644 \
    LOGSTORE_STATE_DIR=/state
EXPOSE 9092 9644
USER 10001:10001
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["logstore", "health"]
CMD ["logstore", "serve"]

# Spark, Java, and everything that the other image has. PySpark has no wheel: it is built first.
FROM build AS spark-environment
RUN python3 tools/locked_extras.py broker s3 spark delta > /pins \
 && /build/bin/pip wheel --quiet --no-deps --no-cache-dir --require-hashes --no-build-isolation \
      --wheel-dir /pinned --requirement /pins \
 && python3 -m venv --without-pip /opt/logstore \
 && /sbom/bin/cyclonedx-py requirements --pyproject pyproject.toml --mc-type application \
      --output-reproducible --output-file /opt/logstore/sbom.cdx.json /pins \
 && /build/bin/pip --python /opt/logstore/bin/python install --quiet --no-deps --no-index \
      /pinned/*.whl \
 && rm -r /pinned
COPY --from=package /wheels /wheels
RUN /build/bin/pip --python /opt/logstore/bin/python install --quiet --no-deps --no-index /wheels/*.whl

FROM runtime AS spark-job
RUN apt-get update \
 && mkdir --parents /usr/share/man/man1 \
 && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
 && rm -rf /var/lib/apt/lists/*
COPY --from=spark-environment /opt/logstore /opt/logstore
USER 10001:10001
CMD ["python", "-m", "spark_source.compaction", "--once"]

# Without --target.
FROM broker
