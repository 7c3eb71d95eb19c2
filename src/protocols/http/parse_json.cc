#include "protocols/http/parse_json.h"

#include <algorithm>
#include <array>
#include <boost/container/small_vector.hpp>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/value_stack.hpp>
#include <cassert>
#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "protocols/http/message.h"

namespace sluice::http {
namespace {

namespace json = boost::json;
using json::error_code;
using json::string_view;

/// Builds a value from the parser's events, and notices names that an object has twice.
class Builder {
 public:
  static constexpr std::size_t max_object_size = kMaxJsonMembers;
  static constexpr std::size_t max_array_size = kMaxJsonValues;
  static constexpr std::size_t max_key_size = json::string::max_size();
  static constexpr std::size_t max_string_size = json::string::max_size();

  /// `text` is what is parsed.
  Builder(std::string_view text, const json::storage_ptr& storage) : text_(text) {
    stack_.reset(storage);
  }

  json::value release() { return stack_.release(); }
  bool has_duplicate() const { return has_duplicate_; }
  /// REQUIRES: has_duplicate().
  std::string_view duplicate() const {
    assert(has_duplicate_);
    return names_.back();
  }

  bool on_document_begin(error_code&) { return true; }
  bool on_document_end(error_code&) { return true; }
  bool on_object_begin(error_code&) {
    begins_.push_back(names_.size());
    return true;
  }
  bool on_object_end(std::size_t size, error_code& error) {
    names_.resize(begins_.back());
    begins_.pop_back();
    stack_.push_object(size);
    return count(size, error);
  }
  bool on_array_begin(error_code&) { return true; }
  bool on_array_end(std::size_t size, error_code& error) {
    stack_.push_array(size);
    return count(size, error);
  }
  bool on_key_part(string_view part, std::size_t, error_code&) {
    name_.append(part.data(), part.size());
    stack_.push_chars(part);
    return true;
  }
  bool on_key(string_view part, std::size_t, error_code& error) {
    const std::string_view name = take_name({part.data(), part.size()});
    const auto begin = names_.begin() + static_cast<std::ptrdiff_t>(begins_.back());
    has_duplicate_ = std::find(begin, names_.end(), name) != names_.end();
    names_.push_back(name);
    stack_.push_key(part);
    if (has_duplicate_) error = json::error::syntax;
    return !has_duplicate_;
  }
  bool on_string_part(string_view part, std::size_t, error_code&) {
    stack_.push_chars(part);
    return true;
  }
  bool on_string(string_view part, std::size_t, error_code&) {
    stack_.push_string(part);
    return true;
  }
  bool on_number_part(string_view, error_code&) { return true; }
  bool on_int64(std::int64_t number, string_view, error_code&) {
    stack_.push_int64(number);
    return true;
  }
  bool on_uint64(std::uint64_t number, string_view, error_code&) {
    stack_.push_uint64(number);
    return true;
  }
  bool on_double(double number, string_view, error_code&) {
    stack_.push_double(number);
    return true;
  }
  bool on_bool(bool value, error_code&) {
    stack_.push_bool(value);
    return true;
  }
  bool on_null(error_code&) {
    stack_.push_null();
    return true;
  }
  bool on_comment_part(string_view, error_code&) { return true; }
  bool on_comment(string_view, error_code&) { return true; }

 private:
  bool count(std::size_t values, error_code& error) {
    values_ += values;
    if (values_ > kMaxJsonValues) error = json::error::array_too_large;
    return !error;
  }

  // The name that ends with this part: where it stands in the text, unless parts came before, or it
  // is written with escapes.
  std::string_view take_name(std::string_view part) {
    const std::less_equal<> before;
    const bool is_in_text = before(text_.data(), part.data()) &&
                            before(part.data() + part.size(), text_.data() + text_.size());
    if (name_.empty() && is_in_text) return part;
    copies_.push_back(std::exchange(name_, {}).append(part));
    return copies_.back();
  }

  const std::string_view text_;
  std::array<unsigned char, 2048> room_;  // Enough for most bodies.
  json::value_stack stack_{{}, room_.data(), room_.size()};
  boost::container::small_vector<std::string_view, 16> names_;  // Of the objects that are open.
  boost::container::small_vector<std::size_t, kMaxJsonDepth> begins_;  // Where those of each begin.
  std::string name_;                                                   // The parts that have come.
  std::deque<std::string> copies_;  // Of names that do not stand so in the text.
  std::size_t values_ = 0;          // Of the objects and arrays that have ended.
  bool has_duplicate_ = false;
};

std::string sentence_of(const error_code& error, std::size_t at) {
  if (error == json::error::object_too_large) {
    return "an object of the body has more than " + std::to_string(kMaxJsonMembers) + " members";
  }
  if (error == json::error::array_too_large) {
    return "the body has more than " + std::to_string(kMaxJsonValues) + " values";
  }
  return "the body is no JSON from byte " + std::to_string(at) + " on" +
         (error == json::error::too_deep ? ": it is nested too deeply" : "");
}

}  // namespace

std::string quoted_name(std::string_view name) {
  constexpr std::size_t kMostShown = 64;
  return "\"" + std::string(name.substr(0, kMostShown)) +
         (name.size() > kMostShown ? "...\"" : "\"");
}

json::value parse_json(std::string_view text, const json::storage_ptr& storage) {
  json::parse_options options;
  options.max_depth = kMaxJsonDepth;
  json::basic_parser<Builder> parser(options, text, storage);
  error_code error;
  const std::size_t read = parser.write_some(false, text.data(), text.size(), error);
  if (!error && read < text.size()) error = json::error::extra_data;
  if (!error) return parser.handler().release();
  const Builder& builder = parser.handler();
  throw Problem{.detail = builder.has_duplicate()
                              ? "the member " + quoted_name(builder.duplicate()) +
                                    " is there twice in one object of the body"
                              : sentence_of(error, read),
                .members = ",\"offset\":" + std::to_string(read)};
}

}  // namespace sluice::http
