// Sends login codes by SMS, which cost money and annoy people who did not ask for them:
//   SMS_PEPPER=$(openssl rand -hex 32) sms_code STORE_URL < requests
// A request is a line, "+49 170 1234567 203.0.113.7": a telephone number and the client's address.
// A code is sent only if the limits of the number, of the address and of all clients together admit
// it. It is charged to all three or to none, so a client that is told to wait has lost nothing.
#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "sluice/keys.h"
#include "sluice/sluice.h"

namespace {

class CodeGate {
 public:
  CodeGate(const std::shared_ptr<sluice::Store>& store, std::string_view pepper)
      : by_number_(store, sluice::Limit("sliding_log 1/1m & sliding_log 3/1h", "sms.number")),
        by_address_(store, sluice::Limit("sliding_log 10/1h", "sms.address")),
        everyone_(store, sluice::Limit("token_bucket 1000/1h burst=100", "sms.everyone")),
        hasher_(pepper) {}

  sluice::Decision admit(std::string_view number, std::string_view address) {
    const std::string number_key = hasher_.key(number);  // The store never sees the number.
    const std::string address_key = client_ip_.key(address);
    return sluice::check_all(
        {{by_number_, number_key}, {by_address_, address_key}, {everyone_, "all"}});
  }

 private:
  sluice::Limiter by_number_;
  sluice::Limiter by_address_;
  sluice::Limiter everyone_;
  sluice::KeyHasher hasher_;
  sluice::ClientIp client_ip_;
};

// The same text for every way to write a number; empty if `text` is not a number.
std::string canonical_number(std::string_view text) {
  std::string digits;
  for (const char character : text) {
    if (std::isdigit(static_cast<unsigned char>(character)))
      digits += character;
    else if (std::string_view("+ -/()").find(character) == std::string_view::npos)
      return {};
  }
  return digits.size() < 7 || digits.size() > 15 ? std::string() : "+" + digits;
}

// Stands for the SMS gateway.
void send_code(const std::string& number) {
  std::printf("sent to %s\n", number.c_str());
}

void answer(CodeGate& gate, const std::string& line) {
  const std::size_t space = std::min(line.rfind(' '), line.size());
  const std::string number = canonical_number(line.substr(0, space));
  if (number.empty() || space + 1 >= line.size()) {
    std::printf("not a telephone number and an address\n");
    return;
  }
  const sluice::Decision decision = gate.admit(number, line.substr(space + 1));
  if (decision.allowed) {
    std::this_thread::sleep_for(decision.delay);  // Above 0 only if a limit is a leaky_bucket.
    send_code(number);
  } else {
    const auto wait = std::chrono::ceil<std::chrono::seconds>(decision.retry_after);
    std::printf("wait %lld s\n", static_cast<long long>(wait.count()));
  }
}

}  // namespace

int main(int count, char** arguments) {
  const char* pepper = std::getenv("SMS_PEPPER");
  if (count != 2 || pepper == nullptr) {
    std::fprintf(stderr, "usage: SMS_PEPPER=SECRET sms_code STORE_URL < requests\n");
    return 2;
  }
  try {
    CodeGate gate(sluice::open_store(arguments[1]), pepper);
    for (std::string line; std::getline(std::cin, line); std::fflush(stdout)) answer(gate, line);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sms_code: %s\n", error.what());
    return 1;
  }
}
