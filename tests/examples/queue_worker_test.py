"""examples/queue_worker: eight workers of ten threads each; at most 60 of their jobs may run at
once, and 200 start per second. One of the workers is killed in the middle.

The times are read from the workers' logs: a job logs its start after it was admitted, and its
end before it releases its permit. Its result is read from Redis.
"""

import collections
import signal
import time
import unittest

import harness
from tests.examples import example

LEASE_MS = 3600
WORKERS = 8
JOBS = 800
WORK_MS = 100
AT_ONCE = 60
A_SECOND = 200


class Worker(example.Program):
    def __init__(self, redis, lease_ms):
        super().__init__("queue_worker", "127.0.0.1", str(redis.port), "reports", str(lease_ms))

    def events(self):
        """(instant, "start", "done", "lost" or "back", job's id) of each line of its log."""
        return [(float(words[0]), words[1], words[2]) for words in self.log()]

    def whats(self):
        return [what for _, what, _ in self.events()]

    def jobs_at_work(self):
        """The ids of the jobs that have started and have not ended."""
        at_work = set()
        for _, what, job in self.events():
            (at_work.add if what == "start" else at_work.discard)(job)
        return at_work


class QueueWorker(unittest.TestCase):
    def setUp(self):
        self.redis = self.enterContext(harness.RedisServer())

    def begin_worker(self, lease_ms=LEASE_MS):
        return self.enterContext(Worker(self.redis, lease_ms))

    def results(self):
        return self.redis.ask("LRANGE", "reports:results", 0, -1)

    def await_results(self, count):
        harness.await_true(f"{count} results",
                           lambda: self.redis.ask("LLEN", "reports:results") >= count)

    def kill_at_work(self, worker):
        """Kills the worker while it runs several jobs. Returns these, and the time."""
        def stopped_at_work():
            worker.pause()
            if len(worker.jobs_at_work()) >= 3:
                return True
            worker.signal(signal.SIGCONT)
            return False
        harness.await_true("jobs at work", stopped_at_work)
        worker.signal(signal.SIGKILL)
        self.assertEqual(worker.wait(), -signal.SIGKILL)
        at_work = worker.jobs_at_work()
        self.assertTrue(at_work)
        return at_work, time.time()

    def test_every_job_is_done_once_though_a_worker_is_killed(self):
        jobs = [f"job{i}" for i in range(JOBS)]
        self.redis.ask("LPUSH", "reports", *[f"{job} {WORK_MS}" for job in jobs])
        workers = [self.begin_worker() for _ in range(WORKERS)]
        self.await_results(JOBS // 10)
        killed, killed_at = self.kill_at_work(workers[0])
        self.await_results(JOBS)
        for worker in workers[1:]:
            worker.signal(signal.SIGTERM)
            self.assertEqual(worker.wait(), 0)

        self.assertEqual(sorted(self.results()), sorted(jobs))
        for key in ("reports", "reports:later"):
            self.assertEqual(self.redis.ask("EXISTS", key), 0, key)

        events = [event for worker in workers for event in worker.events()]
        starts = collections.Counter(job for _, what, job in events if what == "start")
        self.assertEqual(set(starts), set(jobs))
        twice = {job for job, count in starts.items() if count > 1}
        self.assertLessEqual(twice, killed)  # All others have run once.
        self.assertLessEqual(max(starts.values()), 2)
        self.assertEqual([event for event in events if event[1] == "lost"], [])
        self.assertGreater(sum(what == "back" for _, what, _ in events), AT_ONCE)
        self.check_at_once(events + [(killed_at, "killed", job) for job in killed])

    def check_at_once(self, events):
        at_once, highest = 0, 0
        # A job that starts at the instant at which another ends does not overlap with it.
        for _, change in sorted((instant, 1 if what == "start" else -1)
                                for instant, what, _ in events if what != "back"):
            at_once += change
            highest = max(highest, at_once)
        self.assertEqual(at_once, 0)
        self.assertLessEqual(highest, AT_ONCE)
        self.assertGreater(highest, AT_ONCE // 2)  # Enough jobs were ready.

    def test_no_more_than_200_start_within_a_second(self):
        self.redis.ask("LPUSH", "reports", *[f"job{i} 0" for i in range(3 * A_SECOND + 1)])
        worker = self.begin_worker()
        self.await_results(3 * A_SECOND + 1)
        instants = [instant for instant, what, _ in worker.events() if what == "start"]
        # Three whole windows passed; a second for a first start that was logged late.
        self.assertGreater(max(instants) - min(instants), 2)

    def test_a_worker_that_lost_its_lease_does_not_count(self):
        """It notices so at the end of its work, or between two of its steps, which take 500 ms."""
        sleeper = self.begin_worker(lease_ms=2000)
        self.put_to_sleep_at(sleeper, "short 490", "long 1200")
        self.begin_worker(lease_ms=2000)
        self.await_results(2)
        sleeper.signal(signal.SIGCONT)
        harness.await_true("the sleeper's end of its jobs", lambda: not sleeper.jobs_at_work())
        for job in ("short", "long"):
            whats = [what for _, what, its_job in sleeper.events() if its_job == job]
            self.assertEqual(whats[-2:], ["start", "lost"], job)
        self.assertEqual(sorted(self.results()), ["long", "short"])
        for key in ("reports", "reports:later"):
            self.assertEqual(self.redis.ask("EXISTS", key), 0, key)

    def put_to_sleep_at(self, worker, *jobs):
        """Suspends the only worker while it runs all of these jobs. If one is done before that,
        pushes them again."""
        def push():
            self.redis.ask("FLUSHALL")
            self.redis.ask("LPUSH", "reports", *jobs)

        def stopped_at_work():
            worker.pause()
            if len(worker.jobs_at_work()) == len(jobs) and not self.results():
                return True
            worker.signal(signal.SIGCONT)
            if len(self.results()) == len(jobs):
                push()
            return False

        push()
        harness.await_true("a worker that is stopped at work", stopped_at_work)

    def test_a_long_job_keeps_its_lease(self):
        self.redis.ask("LPUSH", "reports", f"long {LEASE_MS * 5 // 4}")
        workers = [self.begin_worker() for _ in range(2)]
        self.await_results(1)
        harness.await_true("its end", lambda: ["start", "done"] in [worker.whats()
                                                                    for worker in workers])
        self.assertIn([], [worker.whats() for worker in workers])

    def test_a_lost_redis_ends_the_worker(self):
        worker = self.begin_worker()
        self.redis.ask("LPUSH", "reports", "a 10")
        self.await_results(1)
        self.redis.stop()
        self.assertEqual(worker.wait(), 1)
        self.assertIn("queue_worker:", worker.log()[-1])
