"""The version of the log, alone in a module, since lists of conversations import nothing slow."""

LOG_VERSION = 2
"""Version of each line. Only release candidates before 1.0.0 wrote version 1."""
