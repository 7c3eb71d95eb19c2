#include "server/resp_service.h"

#include <atomic>
#include <cstdint>
#include <utility>

#include "limiter/limit_book.h"
#include "protocols/resp/session.h"

namespace sluice {
namespace {

/// What all RESP connections share, and each of them keeps alive.
struct Office {
  /// One desk a thread.
  std::vector<std::unique_ptr<resp::Desk>> desks;
  std::atomic<std::int64_t> last_id = 0;
};

class RespHandler final : public StreamHandler {
 public:
  RespHandler(std::shared_ptr<Office> office, std::size_t thread, Wake wake)
      : office_(std::move(office)),
        session_(*office_->desks[thread], ++office_->last_id, std::move(wake)) {}

  Progress on_data(std::string_view input, std::string& output) override {
    const resp::Progress progress = session_.on_data(input, output);
    return {progress.consumed, next(progress.next)};
  }

 private:
  static Next next(resp::Progress::Next next) {
    switch (next) {
      case resp::Progress::Next::kNeedMore:
        return Next::kNeedMore;
      case resp::Progress::Next::kMore:
        return Next::kMore;
      case resp::Progress::Next::kLater:
        return Next::kLater;
      case resp::Progress::Next::kClose:
        break;
    }
    return Next::kClose;
  }

  std::shared_ptr<Office> office_;
  resp::Session session_;
};

}  // namespace

std::vector<Service> make_resp_services(const std::vector<Address>& addresses,
                                        const RespParts& parts) {
  const auto office = std::make_shared<Office>();
  for (std::size_t i = 0; i < parts.threads; ++i) {
    LimitBook book(parts.store);
    for (const Limit& limit : parts.limits) book.add(limit);
    office->desks.push_back(std::make_unique<resp::Desk>(parts.store, std::move(book)));
  }
  std::vector<Service> services;
  for (const Address& address : addresses) {
    services.push_back({.address = address,
                        .make_handler =
                            [office](std::size_t thread, Wake wake) {
                              return std::make_unique<RespHandler>(office, thread, std::move(wake));
                            },
                        .refusal = "-ERR max number of clients reached\r\n"});
  }
  return services;
}

}  // namespace sluice
