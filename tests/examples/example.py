"""Tools of the examples' tests: the programs, and the lines that they print."""

import os
import signal
import tempfile

import harness

FOLDER = os.environ.get("EXAMPLES", os.path.join(harness.ROOT, "build", "debug", "examples"))


def program(name):
    return os.path.join(FOLDER, name)


def run(name, *arguments, lines=(), **options):
    """Runs an example to its end with these lines as its input. Returns the lines it prints."""
    text = "".join(line + "\n" for line in lines)
    return harness.output_of(program(name), *arguments, stdin=text, **options).splitlines()


class Program(harness.Process):
    """An example in the background, which reads `lines`; its log can be read while it grows."""

    def __init__(self, name, *arguments, lines=()):
        with tempfile.TemporaryFile("w+") as given:
            given.write("".join(line + "\n" for line in lines))
            given.seek(0)
            super().__init__(program(name), *arguments, stdin=given)

    def log(self):
        """The words of each line printed so far."""
        return [line.split() for line in self.output().splitlines()]

    def pause(self):
        """Suspends it until SIGCONT. Once this returns, none of its threads runs."""
        self.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)

    def stop(self):
        """Kills the program, if it still runs: it may be suspended. Returns its exit code."""
        self.signal(signal.SIGKILL)
        self.wait()
        return super().stop()
