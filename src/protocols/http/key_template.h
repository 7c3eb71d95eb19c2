#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "protocols/http/original_request.h"

namespace sluice::http {

/// The most fields of a template.
inline constexpr std::size_t kMaxKeyFields = 16;

/// Appends the key that a template makes of a request: text with fields in braces, `{ip}`,
/// `{header:Name}`, `{query:name}`, `{method}`, `{path}` and `{host}`; `{{` and `}}` are a brace. A
/// header or parameter that is missing is the empty text. Throws Problem where find_mistake() finds
/// one.
void append_key(std::string_view key_template, const OriginalRequest& request, Arena& arena,
                std::string& output);

/// What is wrong with a template: a brace without its other, a field that there is not, or too many
/// fields.
struct TemplateMistake {
  std::string sentence;
  std::size_t offset = 0;  ///< Of the character where it is.
};
std::optional<TemplateMistake> find_mistake(std::string_view key_template);

/// The value of one field, without its braces. Throws Problem where there is no such field.
void append_key_field(std::string_view field, const OriginalRequest& request, Arena& arena,
                      std::string& output);

}  // namespace sluice::http
