<?php
// Runs phpredis against a server: php phpredis.php PORT
//
// Written as its users write. Exits with 1 and says where an answer differs.

const BURST = 15;
const CHECK = ['SLUICE.CHECK', 'sliding_log 5/1h', 'phpredis'];

function expect($answer, $expected)
{
    if ($answer !== $expected) {
        throw new Exception(json_encode($answer) . ' is not ' . json_encode($expected));
    }
}

function throttle($key, $burst = BURST)
{
    return ['CL.THROTTLE', $key, (string) $burst, '1', '3600'];
}

function plain($redis)
{
    for ($taken = 1; $taken <= BURST + 1; ++$taken) {
        $reply = $redis->rawCommand(...throttle('phpredis'));
        expect(array_slice($reply, 0, 4), [0, BURST + 1, BURST + 1 - $taken, -1]);
    }
    expect(array_slice($redis->rawCommand(...throttle('phpredis')), 0, 3), [1, BURST + 1, 0]);
    expect($redis->del('phpredis', 'never-seen'), 1);
}

function many($redis, $sender)
{
    for ($i = 0; $i < 100; ++$i) {
        $sender->rawCommand(...throttle('phpredis-many', 199));
    }
    $sender->ping();
    $replies = $sender->exec();
    expect(count($replies), 101);
    for ($i = 0; $i < 100; ++$i) {
        expect(array_slice($replies[$i], 0, 3), [0, 200, 199 - $i]);
    }
    expect($redis->del('phpredis-many'), 1);
}

function errors($redis)
{
    expect($redis->rawCommand('CL.THROTTLE', 'phpredis'), false);
    expect($redis->getLastError(),
           "ERR wrong number of arguments for 'cl.throttle' command");
    $redis->clearLastError();

    // An unknown command in a transaction: nothing is charged. (exec() would wait for ever, with
    // Redis as well: phpredis does not understand EXECABORT.)
    $redis->multi()->rawCommand(...CHECK);
    expect($redis->rawCommand('NO.SUCH.COMMAND'), false);
    expect($redis->discard(), true);
    expect($redis->rawCommand('SLUICE.PEEK', CHECK[1], CHECK[2])[2], 5);

    // A command that fails in a transaction: the others are charged.
    $redis->multi()->rawCommand('SLUICE.CHECK', 'nowhere', 'phpredis');
    $replies = $redis->rawCommand('SLUICE.PEEK', CHECK[1], CHECK[2])->exec();
    expect([$replies[0], $replies[1][2]], [false, 5]);
    expect($redis->getLastError(), "ERR no limit is named 'nowhere'");
}

function watched($redis)
{
    expect($redis->watch('phpredis'), true);
    $replies = $redis->multi()->rawCommand(...CHECK)->rawCommand(...CHECK)->exec();
    expect(array_column($replies, 2), [4, 3]);
    expect($redis->unwatch(), true);
}

$redis = new Redis();
$redis->connect('127.0.0.1', (int) $argv[1]);
plain($redis);
many($redis, $redis->pipeline());
many($redis, $redis->multi());
errors($redis);
watched($redis);
$redis->close();
echo "phpredis: ok\n";
