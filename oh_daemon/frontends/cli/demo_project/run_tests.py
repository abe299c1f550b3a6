"""Run the tests and say how many failed or passed; exit code 1 when one failed."""

import sys
import unittest

result = unittest.TextTestRunner(stream=sys.stdout).run(unittest.defaultTestLoader.discover("."))
failed = len(result.failures) + len(result.errors)
print(f"{failed} failed" if failed else f"{result.testsRun} passed")
sys.exit(bool(failed))
