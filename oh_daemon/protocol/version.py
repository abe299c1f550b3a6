"""The version of the package; `make schema` generates it."""

VERSION = "1.0.0"
