#pragma once

#include <string>
#include <string_view>

#include "protocols/http/context.h"

namespace sluice::http {

/// The request that a proxy asks about: from X-Forwarded-Method, -Host, -Uri and -For, if a trusted
/// proxy sent them; without any of the first three, from X-Original-Method, -Host and -Uri (or
/// -URL). What no header says is that of this request itself.
class OriginalRequest {
 public:
  /// `target` is the original target if it is a part of this request's target, otherwise empty.
  OriginalRequest(const RequestContext& context, std::string_view target = {})
      : context_(context), target_(target) {}

  std::string_view method() const;
  /// As append_normal_path() writes it.
  std::string path() const;
  std::string_view query() const;
  /// As append_normal_host() writes it.
  std::string host() const;
  /// ClientIp::key() of the client.
  std::string client_ip() const;
  /// A header of the request, as the proxy passes it on; empty if it is missing. Throws Problem if
  /// it is there twice: the server behind the proxy may read the other one.
  std::string_view header(std::string_view name) const;

 private:
  std::string_view forwarded(std::string_view name, std::string_view other_name) const;
  std::string_view uri() const;

  const RequestContext& context_;
  const std::string_view target_;
};

}  // namespace sluice::http
