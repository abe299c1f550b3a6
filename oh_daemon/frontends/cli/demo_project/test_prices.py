import unittest

from prices import total


class TotalTest(unittest.TestCase):
    def test_a_large_order_gets_the_discount(self):
        self.assertEqual(total(9_999), 9_999)
        self.assertEqual(total(20_000), 17_000)
