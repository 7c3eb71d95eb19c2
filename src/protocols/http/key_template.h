#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "protocols/http/context.h"

namespace sluice::http {

// A key template is text with fields in braces: `{ip}`, `{header:Name}`, `{query:name}`,
// `{method}`, `{path}` and `{host}`; `{{` and `}}` are a brace.

/// The most fields of a template.
inline constexpr std::size_t kMaxKeyFields = 16;

/// The fields without a colon.
inline constexpr std::array<std::string_view, 4> kPlainFields = {"ip", "method", "path", "host"};

/// What is wrong with a template: an unmatched brace, an unknown field, too many fields, or no more
/// than the name of a field without its braces. (append_key() takes the last one as a text.)
struct TemplateMistake {
  std::string sentence;
  std::size_t offset = 0;  ///< Of the character where it is.
};
std::optional<TemplateMistake> find_mistake(std::string_view key_template);

/// The request that a proxy asks about: from X-Forwarded-Method, -Host, -Uri and -For, if a trusted
/// proxy sent them; without any of the first three, from X-Original-Method, -Host and -Uri (or
/// -URL, which then also tells the host if it is a whole URL). What no header says is that of this
/// request itself.
class OriginalRequest {
 public:
  /// `target` is the original target if it is a part of this request's target, otherwise empty.
  explicit OriginalRequest(const RequestContext& context, std::string_view target = {})
      : context_(context), target_(target) {}

  /// Appends the key that a template makes of the request. Throws Problem if find_mistake() finds a
  /// mistake, and as append_field().
  void append_key(std::string_view key_template, std::string& output) const;

  /// Appends the value of one field, which is given without braces: {ip} as ClientIp::key(), {host}
  /// as append_normal_host(), {path} as append_normal_path(), nothing for a header or parameter
  /// that is missing. Throws Problem if the field is unknown, or if a header or parameter is there
  /// twice: the server behind the proxy may read the other one.
  void append_field(std::string_view field, std::string& output) const;

 private:
  std::string_view forwarded(std::string_view name, std::string_view other_name) const;
  std::string_view uri() const;
  std::string_view host() const;
  std::string client_ip() const;

  const RequestContext& context_;
  const std::string_view target_;
};

}  // namespace sluice::http
