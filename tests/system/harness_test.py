"""Tests of what every program beside a test needs: a port, and output that can be read."""

import unittest

from harness import FIRST_PORT, PORTS, Process, free_port, take_port


class Programs(unittest.TestCase):
    def test_each_port_is_another(self):
        ports = [free_port() for _ in range(500)]
        self.assertEqual(len(set(ports)), len(ports))
        self.assertFalse(any(map(take_port, ports)), "another test would get the same")
        self.assertGreaterEqual(min(ports), FIRST_PORT)
        self.assertLess(max(ports), FIRST_PORT + PORTS)

    def test_output_that_is_read_while_it_is_written_stays_whole(self):
        writes = "i=0; while [ $i -lt 40000 ]; do echo $i; i=$((i + 1)); done"
        with Process("sh", "-c", writes) as program:
            while program.running():
                program.output()
            self.assertTrue(program.output().split() == [str(i) for i in range(40000)])
