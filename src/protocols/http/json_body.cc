#include "protocols/http/json_body.h"

#include <algorithm>
#include <cmath>

#include "core/near_miss.h"
#include "protocols/http/parse_json.h"

namespace sluice::http {
namespace {

namespace json = boost::json;

// Up to this a double has every integer.
constexpr double kMostExact = 9'007'199'254'740'992;

bool is_json(std::string_view content_type) {
  std::string_view type = content_type.substr(0, content_type.find(';'));
  while (type.ends_with(' ') || type.ends_with('\t')) type.remove_suffix(1);
  return equals_ignoring_case(type, kJson);
}

std::string_view key_of(const json::key_value_pair& member) {
  return {member.key().data(), member.key().size()};
}

const json::object& require_object(const json::value& value) {
  if (const auto* object = value.if_object()) return *object;
  throw Problem{.detail = "there must be a JSON object"};
}

}  // namespace

json::value parse_body(ThreadState& thread, const Message& message) {
  if (!is_json(message.only_field("Content-Type"))) {
    throw Problem{.status = 415, .detail = "the body must be sent as application/json"};
  }
  return parse_json(message.body, thread.arena->storage());
}

Members::Members(const json::value& object) : object_(require_object(object)) {}

void Members::refuse(const std::string& why) const {
  throw Problem{.detail = why};
}

bool Members::has(std::string_view name) {
  if (object_.contains(to_json(name))) return true;
  asked_.push_back(name);
  return false;
}

const json::value* Members::find(std::string_view name) {
  asked_.push_back(name);
  const json::value* const value = object_.if_contains(to_json(name));
  if (value != nullptr) ++found_;
  return value;
}

const json::value& Members::require(std::string_view name) {
  const json::value* const value = find(name);
  if (value != nullptr) return *value;
  refuse_near_miss(name);
  refuse("the member " + quoted_name(name) + " is missing");
}

std::string_view Members::text(std::string_view name) {
  const json::value& value = require(name);
  const json::string* const text = value.if_string();
  if (text == nullptr) refuse("the member " + quoted_name(name) + " must be a string");
  if (text->size() > kMaxTextBytes) {
    refuse("the member " + quoted_name(name) + " has more than " + std::to_string(kMaxTextBytes) +
           " bytes");
  }
  return {text->data(), text->size()};
}

std::int64_t Members::integer(std::string_view name, Range range,
                              std::optional<std::int64_t> absent) {
  const json::value* const value = absent ? find(name) : &require(name);
  if (value == nullptr) return *absent;
  // A number with a fraction of zero is an integer in JSON Schema, and some clients write 1.0
  // for 1.
  std::optional<std::int64_t> number;
  if (const auto* integer = value->if_int64()) number = *integer;
  if (const auto* real = value->if_double(); real != nullptr && std::abs(*real) <= kMostExact) {
    if (std::trunc(*real) == *real) number = static_cast<std::int64_t>(*real);
  }
  if (number && *number >= range.least && *number <= range.most) return *number;
  refuse("the member " + quoted_name(name) + " must be an integer from " +
         std::to_string(range.least) + " to " + std::to_string(range.most));
}

bool Members::flag(std::string_view name) {
  const json::value* const value = find(name);
  if (value == nullptr) return false;
  const bool* const flag = value->if_bool();
  if (flag == nullptr) refuse("the member " + quoted_name(name) + " must be true or false");
  return *flag;
}

const json::array& Members::array(std::string_view name) {
  const json::array* const array = require(name).if_array();
  if (array == nullptr) refuse("the member " + quoted_name(name) + " must be an array");
  return *array;
}

void Members::refuse_unknown(std::string_view name) const {
  refuse("the member " + quoted_name(name) + " is unknown" + suggest_name(name, asked_));
}

void Members::refuse_near_miss(std::string_view missing) const {
  for (const auto& member : object_) {
    if (!find_near_miss(key_of(member), {&missing, 1}).empty()) refuse_unknown(key_of(member));
  }
}

void Members::end() const {
  if (found_ == object_.size()) return;
  for (const auto& member : object_) {
    const std::string_view name = key_of(member);
    if (std::find(asked_.begin(), asked_.end(), name) == asked_.end()) refuse_unknown(name);
  }
}

}  // namespace sluice::http
