"""The version of the package; `make schema` generates it."""

VERSION = "0.1.0"
