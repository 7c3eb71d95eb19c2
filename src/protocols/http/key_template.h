#pragma once

#include <string>
#include <string_view>

#include "protocols/http/original_request.h"

namespace sluice::http {

/// Appends the key that a template makes of a request: text with fields in braces, `{ip}`,
/// `{header:Name}`, `{query:name}`, `{method}`, `{path}` and `{host}`; `{{` and `}}` are a brace. A
/// header or parameter that is missing is the empty text. Throws Problem where the template has a
/// brace without its other, or a field that there is not.
void append_key(std::string_view key_template, const OriginalRequest& request, Arena& arena,
                std::string& output);

/// The value of one field, without its braces. Throws Problem where there is no such field.
void append_key_field(std::string_view field, const OriginalRequest& request, Arena& arena,
                      std::string& output);

}  // namespace sluice::http
