#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "protocols/http/original_request.h"

namespace sluice::http {

/// The most fields of a template.
inline constexpr std::size_t kMaxKeyFields = 16;

/// The fields without a colon.
inline constexpr std::array<std::string_view, 4> kPlainFields = {"ip", "method", "path", "host"};

/// Appends the key that a template makes of a request: text with fields in braces, `{ip}`,
/// `{header:Name}`, `{query:name}`, `{method}`, `{path}` and `{host}`; `{{` and `}}` are a brace. A
/// header or parameter that is missing is the empty text. Throws Problem if find_mistake() finds a
/// mistake.
void append_key(std::string_view key_template, const OriginalRequest& request, Arena& arena,
                std::string& output);

/// What is wrong with a template: an unmatched brace, an unknown field, too many fields, or no more
/// than the name of a field without its braces. (append_key() takes the last one as a text.)
struct TemplateMistake {
  std::string sentence;
  std::size_t offset = 0;  ///< Of the character where it is.
};
std::optional<TemplateMistake> find_mistake(std::string_view key_template);

/// Appends the value of one field, which is given without braces. Throws Problem if the field is
/// unknown.
void append_key_field(std::string_view field, const OriginalRequest& request, Arena& arena,
                      std::string& output);

}  // namespace sluice::http
