#include "stores/memcached/turn.h"

#include "stores/memcached/lane.h"

namespace sluice::memcached {

void Turn::write(std::string& output, std::uint32_t number) {
  if (!writes) owner.on_sending(*this);
  if (!writes) {
    append_get(output, key, number);
  } else if (removes) {
    append_delete(output, {key, token}, number);
  } else {
    append_set(output, {key, value, expiry_s, token}, number);
  }
}

bool Turn::can_be(const MetaReply& reply) const {
  switch (reply.code) {
    case Code::kValue:
    case Code::kMiss:
      return !writes;
    case Code::kError:
      return true;
    default:
      return writes;
  }
}

void Turn::on_replies(std::span<const MetaReply> replies) {
  if (writes) {
    owner.on_written(*this, replies[0]);
  } else {
    owner.on_read(*this, replies[0]);
  }
}

void Turn::on_lost(Loss loss, std::string_view why) {
  if (writes && loss == Loss::kUnknown) {
    owner.on_unknown(*this, why);
  } else {
    owner.on_unsent(*this, why);
  }
}

std::string_view Turn::abandon(Errand& errand) {
  ErrandList::take_out(errand);
  if (losses == 0) return lane->late();
  late =
      lane->late() + ": others changed '" + key + "' first, " + std::to_string(losses) + " times";
  return late;
}

}  // namespace sluice::memcached
