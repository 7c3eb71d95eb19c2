"""Runs redis-py against a server: redis_py.py PORT.

Written as its users write: what they call is called, and no more. Raises where an answer differs.
"""

import sys

import redis

BURST = 15
THROTTLE = ("CL.THROTTLE", "redis-py", BURST, 1, 3600)
CHECK = ("SLUICE.CHECK", "sliding_log 5/1h", "redis-py")


def expect(answer, expected):
    if answer != expected:
        raise AssertionError(f"{answer!r} is not {expected!r}")


def plain(client):
    for taken in range(1, BURST + 2):
        expect(client.execute_command(*THROTTLE)[:4], [0, BURST + 1, BURST + 1 - taken, -1])
    expect(client.execute_command(*THROTTLE)[:3], [1, BURST + 1, 0])
    expect(client.delete("redis-py", "never-seen"), 1)


def pipelines(client):
    # By default a pipeline is a transaction: MULTI, the commands, EXEC.
    for transaction in (True, False):
        with client.pipeline(transaction=transaction) as pipe:
            for _ in range(100):
                pipe.execute_command("CL.THROTTLE", "redis-py-many", 199, 1, 3600)
            pipe.ping()
            replies = pipe.execute()
        expect(len(replies), 101)
        first = 200 if transaction else 100
        expect([reply[2] for reply in replies[:100]], list(range(first - 1, first - 101, -1)))
        expect(replies[100], True)
    expect(client.delete("redis-py-many"), 1)


def a_command_that_fails(client):
    with client.pipeline() as pipe:
        pipe.execute_command("SLUICE.CHECK", "sliding_log 5/1h", "redis-py-bad")
        pipe.execute_command("NO.SUCH.COMMAND")
        try:
            pipe.execute()
        except redis.exceptions.ResponseError as error:
            if "unknown command" not in str(error):
                raise
        else:
            raise AssertionError("an unknown command passed")
    left = client.execute_command("SLUICE.PEEK", "sliding_log 5/1h", "redis-py-bad")
    expect(left[2], 5)  # Nothing was charged.


def a_watched_transaction(client):
    def spend(pipe):
        pipe.multi()
        pipe.execute_command(*CHECK)
        pipe.execute_command(*CHECK)

    expect([reply[2] for reply in client.transaction(spend, "redis-py")], [4, 3])
    with client.pipeline() as pipe:
        pipe.watch("redis-py")
        pipe.unwatch()
        pipe.multi()
        pipe.execute_command(*CHECK)
        pipe.reset()
    expect(client.execute_command(*CHECK)[2], 2)


def about_the_server(client):
    client.client_setname("me")
    expect(client.client_getname(), "me")
    number = client.client_id()
    expect([one["name"] for one in client.client_list() if one["id"] == str(number)], ["me"])
    expect(client.client_info()["id"], number)
    expect(client.config_get("database*"), {"databases": "1"})
    seconds, microseconds = client.time()
    if not (seconds > 1_700_000_000 and 0 <= microseconds < 1_000_000):
        raise AssertionError((seconds, microseconds))
    throttle = client.command()["cl.throttle"]
    expect((throttle["arity"], throttle["first_key_pos"], throttle["last_key_pos"]), (-5, 1, 1))
    if "write" not in throttle["flags"]:
        raise AssertionError(throttle)
    expect(client.command_count(), len(client.command()))
    expect(client.info("server")["mode"], "standalone")
    client.execute_command(*CHECK)
    keyspace = client.info("keyspace")["db0"]
    if keyspace["keys"] < 1:
        raise AssertionError(keyspace)
    expect(keyspace["expires"], keyspace["keys"])
    before = client.info("commandstats")["cmdstat_client|id"]
    client.client_id()
    try:
        client.execute_command("CLIENT ID", 1)
    except redis.ResponseError:
        pass
    expect(client.info("commandstats")["cmdstat_client|id"],
           {"calls": before["calls"] + 1, "rejected_calls": before["rejected_calls"] + 1})
    expect(client.ping(), True)


def permits(client):
    limit = "concurrency 1 lease=1m"
    is_given, permit, lease_ms = client.execute_command("SLUICE.ACQUIRE", limit, "redis-py")
    expect((is_given, lease_ms), (1, 60_000))
    denied = client.execute_command("SLUICE.ACQUIRE", limit, "redis-py")
    expect(denied[:2], [0, None])
    expect(client.execute_command("SLUICE.RENEW", limit, "redis-py", permit), 1)
    expect(client.execute_command("SLUICE.RELEASE", limit, "redis-py", permit), 1)
    expect(client.execute_command("SLUICE.RELEASE", limit, "redis-py", permit), 0)


def main(port):
    client = redis.Redis(port=port, decode_responses=True)
    plain(client)
    pipelines(client)
    a_command_that_fails(client)
    a_watched_transaction(client)
    about_the_server(client)
    permits(client)
    client.close()
    print("redis-py: ok")


if __name__ == "__main__":
    main(int(sys.argv[1]))
