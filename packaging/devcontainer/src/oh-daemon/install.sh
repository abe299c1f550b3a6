#!/bin/sh
# Installs the daemon into an environment of its own, so that it meets no package of the project. Runs as root.
set -eu

usable() { "$1" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    for python in python3 python3.14 python3.13 python3.12 python3.11; do
        usable "$python" && return
    done
    return 1
}

if ! find_python && command -v apt-get >/dev/null; then
    apt-get update
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3 python3-venv
    rm -rf /var/lib/apt/lists/*
fi
if ! find_python; then
    echo "oh-daemon needs Python 3.11 or newer with its venv module: add the feature python before this one" >&2
    exit 1
fi
folder=/usr/local/share/oh-daemon
"$python" -m venv --clear "$folder"
"$folder/bin/pip" install --no-cache-dir --disable-pip-version-check "${PACKAGE:-oh-daemon}"
mkdir -p /usr/local/bin
ln -sf "$folder/bin/oh-daemon" /usr/local/bin/oh-daemon
oh-daemon --version
