"""Tools of the examples' tests: the programs, and the lines that they print."""

import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))

import harness  # noqa: E402

FOLDER = os.environ.get("EXAMPLES", os.path.join(harness.ROOT, "build", "debug", "examples"))


def program(name):
    return os.path.join(FOLDER, name)


def run(name, *arguments, lines=(), **options):
    """Runs an example to its end with these lines as its input. Returns the lines it prints."""
    done = harness.run(program(name), *arguments, stdin="".join(line + "\n" for line in lines),
                       **options)
    assert done.returncode == 0, f"{name} ended with {done.returncode}: {done.stderr}"
    return done.stdout.splitlines()


class Program:
    """An example in the background, which reads `lines`; its log can be read while it grows."""

    def __init__(self, name, *arguments, lines=()):
        self._log = tempfile.TemporaryFile()
        with tempfile.TemporaryFile("w+") as given:
            given.write("".join(line + "\n" for line in lines))
            given.seek(0)
            self._process = subprocess.Popen([program(name), *arguments], stdin=given,
                                             stdout=self._log, stderr=self._log)

    def log(self):
        """The words of each line printed so far."""
        return [line.split() for line in harness.written_to(self._log).splitlines()]

    def signal(self, number):
        self._process.send_signal(number)

    def pause(self):
        """Suspends it until SIGCONT. Once this returns, none of its threads runs."""
        self.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def wait(self):
        """The exit code, once the program has ended."""
        return self._process.wait(harness.PATIENCE_S)

    def stop(self):
        """Ends the program, if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._log.close()


def await_that(condition, what, pause_s=0.02):
    """Waits until `condition` returns a true value, and returns that. Raises AssertionError after
    PATIENCE_S."""
    deadline = time.monotonic() + harness.PATIENCE_S
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(pause_s)
    raise AssertionError(f"not within {harness.PATIENCE_S} s: {what}")
