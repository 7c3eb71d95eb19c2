#include "stores/memcached/lane.h"

#include <atomic>
#include <utility>

namespace sluice::memcached {
namespace {

// Before it, a value could not be removed by its token, and before 1.6.10 none be written as now.
constexpr Version kLeastVersion{1, 6, 13};

std::atomic<std::uint32_t> connections_made{0};

}  // namespace

// One exchange, and the replies to it in the order of its keys.
class Lane::Batch final : public Exchange {
 public:
  explicit Batch(Lane& lane) : lane_(lane) {}

  void write(std::string& output) override { lane_.write(*this, output); }
  void on_reply(std::string_view reply) override { lane_.on_reply(*this, reply); }
  void on_lost(Loss loss, std::string_view why) override { lane_.on_lost(*this, loss, why); }

  /// False where it is not what the commands that were sent can be answered with.
  bool read(std::string_view text) {
    MetaReader reader(text);
    replies.clear();
    for (const KeyEntry* key : keys) {
      const auto reply = reader.next();
      const std::size_t number = replies.size();
      if (!reply || reply->number.value_or(number) != number || !key->can_be_answered(*reply)) {
        return false;
      }
      replies.push_back(*reply);
    }
    return reader.at_end();
  }

  std::vector<KeyEntry*> keys;
  std::vector<MetaReply> replies;
  Clock::time_point sent_at;

 private:
  Lane& lane_;
};

Lane::Lane(const LaneSettings& settings, KeyOwner& owner)
    : endpoint_(settings.endpoint),
      owner_(owner),
      health_("memcached " + settings.endpoint.text(), settings.deadline) {}

Lane::~Lane() = default;

// Enough for the server to have work while replies are read and answers are judged, which takes
// about as long as its own.
PipelineOptions Lane::pipeline_options() const {
  PipelineOptions options = health_.pipeline_options(endpoint_);
  options.max_in_flight = 4;
  return options;
}

std::string_view Lane::fault(Clock::time_point now) const {
  std::optional<Clock::time_point> oldest;
  if (!in_flight_.empty()) oldest = in_flight_.front()->sent_at;
  return health_.fault(oldest, now);
}

Exchange* Lane::next_exchange() {
  return urgent_.empty() && waiting_.empty() ? nullptr : &idle_batch();
}

Lane::Batch& Lane::idle_batch() {
  if (idle_batches_.empty()) {
    batches_.push_back(std::make_unique<Batch>(*this));
    idle_batches_.push_back(batches_.back().get());
  }
  Batch& batch = *idle_batches_.back();
  idle_batches_.pop_back();
  batch.sent_at = Clock::now();
  in_flight_.push_back(&batch);
  return batch;
}

// Takes what has gathered up to the moment of sending.
void Lane::write(Batch& batch, std::string& output) {
  const std::size_t before = output.size();
  for (auto* queue : {&urgent_, &waiting_}) {
    while (!queue->empty() && batch.keys.size() < kMaxCommands &&
           output.size() - before < kMaxBytes) {
      KeyEntry& key = *queue->front();
      queue->pop_front();
      owner_.before_sending(key);
      key.append_command(output, static_cast<std::uint32_t>(batch.keys.size()));
      batch.keys.push_back(&key);
    }
  }
  append_end(output);
}

void Lane::release(Batch& batch) {
  std::erase(in_flight_, &batch);
  batch.keys.clear();
  idle_batches_.push_back(&batch);
}

// The pipeline has let go of the batch, and will not tell it of a loss.
void Lane::on_reply(Batch& batch, std::string_view reply) {
  if (batch.read(reply)) return hand_out(batch);
  const std::string why = name() + " has answered something else than what was asked";
  on_lost(batch, Loss::kUnknown, why);
  connection_.reconnect(why);
}

void Lane::hand_out(Batch& batch) {
  for (std::size_t i = 0; i < batch.keys.size(); ++i) {
    owner_.on_reply(*batch.keys[i], batch.replies[i]);
  }
  release(batch);
}

void Lane::on_lost(Batch& batch, Loss loss, std::string_view why) {
  health_.on_lost(batch.sent_at);
  // First: what is in flight for ever would make the server a silent one.
  const std::vector<KeyEntry*> keys = std::move(batch.keys);
  release(batch);
  for (KeyEntry* key : keys) owner_.on_lost(*key, loss, why);
}

// To `version`, then to `mn`: another server may call itself so, and have no meta commands.
std::optional<std::string> Lane::on_greeting(std::size_t i, std::string_view reply) {
  if (i == 0 ? read_version(reply) >= kLeastVersion : reply == "MN\r\n") return std::nullopt;
  const std::string line(reply.substr(0, reply.find('\r')));
  return name() + " says '" + line + "' to " + (i == 0 ? "'version'" : "a meta command") +
         ": it has to be memcached 1.6.13 or later, with room for a connection";
}

void Lane::on_up() {
  connection_number_ = ++connections_made;
  health_.on_up();
}

// What waits for a connection that may be back in a moment goes on waiting.
void Lane::on_down(std::string_view why) {
  connection_number_ = 0;
  health_.on_down(why);
  lose(urgent_, why);
  if (is_broken()) lose(waiting_, why);
}

// A key that is lost may be sent again at once, and is then not lost with the rest.
void Lane::lose(std::deque<KeyEntry*>& queue, std::string_view why) {
  const auto lost = std::exchange(queue, {});
  for (KeyEntry* key : lost) owner_.on_lost(*key, Loss::kUnsent, why);
}

}  // namespace sluice::memcached
