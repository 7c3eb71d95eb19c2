# Runs redis-rb against a server: redis_rb.rb PORT
#
# Written as its users write. Raises where an answer differs.

require 'redis'

BURST = 15
CHECK = ['SLUICE.CHECK', 'sliding_log 5/1h', 'redis-rb'].freeze

def expect(answer, expected)
  raise "#{answer.inspect} is not #{expected.inspect}" unless answer == expected
end

def throttle(key, burst = BURST)
  ['CL.THROTTLE', key, burst, 1, 3600]
end

def plain(redis)
  (1..BURST + 1).each do |taken|
    expect redis.call(*throttle('redis-rb')).first(4), [0, BURST + 1, BURST + 1 - taken, -1]
  end
  expect redis.call(*throttle('redis-rb')).first(3), [1, BURST + 1, 0]
  expect redis.del('redis-rb', 'never-seen'), 1
end

def many(redis, method)
  replies = redis.public_send(method) do |sender|
    100.times { sender.call(*throttle('redis-rb-many', 199)) }
    sender.ping
  end
  expect replies.length, 101
  replies.first(100).each_with_index do |reply, i|
    expect reply.first(3), [0, 200, 199 - i]
  end
  expect replies.last, 'PONG'
  expect redis.del('redis-rb-many'), 1
end

def error_of
  yield
  raise 'this passed'
rescue Redis::CommandError => error
  error.message
end

def errors(redis)
  expect error_of { redis.call('CL.THROTTLE', 'redis-rb') },
         "ERR wrong number of arguments for 'cl.throttle' command"

  # An unknown command in a transaction: nothing is charged.
  message = error_of do
    redis.multi do |transaction|
      transaction.call(*CHECK)
      transaction.call('NO.SUCH.COMMAND')
    end
  end
  raise message unless message.match?(/unknown command|EXECABORT/)

  expect redis.call('SLUICE.PEEK', *CHECK.drop(1))[2], 5
end

def watched(redis)
  replies = redis.watch('redis-rb') do
    redis.multi { |transaction| 2.times { transaction.call(*CHECK) } }
  end
  expect(replies.map { |reply| reply[2] }, [4, 3])
  expect redis.unwatch, 'OK'
end

redis = Redis.new(host: '127.0.0.1', port: Integer(ARGV[0]))
plain(redis)
many(redis, :pipelined)
many(redis, :multi)
errors(redis)
watched(redis)
redis.close
puts 'redis-rb: ok'
