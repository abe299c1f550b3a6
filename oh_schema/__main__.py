"""The command `python -m oh_schema [--check]`, which `make schema` and `make check` run."""

import sys

from oh_schema.files import ROOT, write_schema

sys.exit(write_schema(ROOT, check="--check" in sys.argv[1:]))
