#include "stores/stores.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "testing/child_process.h"
#include "testing/error_of.h"
#include "testing/limited_keys.h"

namespace sluice {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr Instant kStart = 1'700'000'000'000'000'000;

std::string refusal_of(std::string_view url) {
  return error_of([&] { open_bare_store(url); });
}

std::string refusal_of_check(std::string_view text) {
  return error_of([&] {
    StoreUrl url(text);
    check_bare_store(url);
  });
}

std::string key_name(int number) {
  return "key" + std::to_string(number);
}

TEST(OpenBareStore, ReadsTheMemoryStoresUrl) {
  for (const auto* url : {"memory:", "memory:?", "memory:?max_bytes=1048576", "memory:?full=deny",
                          "memory:?full=allow&max_bytes=16777216"}) {
    const auto store = open_bare_store(url);
    ASSERT_NE(store, nullptr) << url;
    EXPECT_EQ(LimitedKeys(*store, "token_bucket 5/1h").take("a", kStart).remaining, 4) << url;
  }
}

TEST(OpenBareStore, SaysWhatIsWrongWithAUrl) {
  struct Wrong {
    const char* url;
    const char* error;
  };
  for (const auto& wrong : {
           Wrong{"redis+clustr://h",
                 "there is no such store (did you mean 'redis+cluster'?); there are memory:"},
           {"memory:?max_bytes=", "max_bytes is a whole number from 1048576"},
           {"memory:?max_bytes=1048575", "max_bytes is a whole number from 1048576"},
           {"memory:?max_bytes=-1", "max_bytes is a whole number from 1048576"},
           {"memory:?max_bytes=16M", "max_bytes is a whole number from 1048576"},
           {"memory:?max_bytes=18446744073709551616", "max_bytes is a whole number from 1048576"},
       }) {
    EXPECT_THAT(refusal_of(wrong.url), HasSubstr(wrong.error));
  }
}

// A password that a separator cuts, or that stands where it should not, in URLs that are damaged in
// any other way.
TEST(OpenBareStore, ShowsNoPartOfAUrlThatMayBeThePassword) {
  const std::vector<std::string> passwords = {
      "hunter2",   "%hunter2",  "hunter2%4",  "%00hunter2", "/hunter2",   "7/hunter2",
      "7?hunter2", "?hunter2=", "7?hunter2=", "hunter2?",   "1,hunter2:", "hunter2,[",
      "1@hunter2", "hunter2@",  "1234567",    "[hunter2",   "hunter2]:",  "hunter2\n"};
  int refused = 0;
  for (const std::string scheme : {"redis", "redis+sentinel", "unix", "memcached", "reds", ""}) {
    for (const std::string slashes : {"://", ":", ":/", "//", ""}) {
      for (const std::string user : {"", ":", "u:", "[::1:", "[::1]:", "%:"}) {
        for (const std::string& password : passwords) {
          for (const std::string host : {"", "@", "@h", "@h:x", "@@h,", "@[::1/0", "@h?a"}) {
            const std::string url = scheme + slashes + user + password + host;
            const std::string error = refusal_of_check(url);
            refused += error.empty() ? 0 : 1;
            EXPECT_THAT(error, AllOf(Not(HasSubstr("hunter2")), Not(HasSubstr("1234567")))) << url;
          }
        }
      }
    }
  }
  EXPECT_GT(refused, 20'000);
  for (const std::string option :
       {"password=x&hunter2", "password=%hunter2", "password=hunter2@", "password=hunter2:x@y",
        "passwrod=hunter2", "passwrod=x&hunter2", "hunter2", "hunter2=", "db=hunter2"}) {
    EXPECT_THAT(refusal_of_check("unix:///a?" + option), AllOf(Not(""), Not(HasSubstr("hunter2"))));
  }
}

TEST(OpenBareStore, SaysWhichFileForTlsCannotBeUsed) {
  const std::string error = " to h:1: the CA file /no/ca cannot be used: No such file or directory";
  for (const std::string scheme : {"rediss", "redis+cluster", "redis+sentinel", "memcached"}) {
    const std::string url = scheme + "://h:1" + (scheme == "redis+sentinel" ? "/it" : "") +
                            "?ca=/no/ca" + (scheme == "rediss" ? "" : "&tls=yes");
    EXPECT_EQ(refusal_of(url), "store '" + scheme + ":': TLS" + error);
    EXPECT_EQ(refusal_of_check(url), refusal_of(url));
  }
  EXPECT_THAT(refusal_of("rediss://h?ca=/no%0Afile"), HasSubstr("the CA file /no\\x0afile cannot"));
}

TEST(OpenBareStore, SaysThatTheSystemStartsNoThread) {
  if (::geteuid() != 0) return;  // Only root becomes another user.
  const int status = in_child_process([] {
    constexpr ::uid_t kNoOthers = 64'998;  // A user without other processes.
    const ::rlimit one{.rlim_cur = 1, .rlim_max = 1};
    if (::setrlimit(RLIMIT_NPROC, &one) != 0 || ::setuid(kNoOthers) != 0) return false;
    return refusal_of("redis://h") ==
               "store 'redis:': the system gives it no thread or descriptor: "
               "Resource temporarily unavailable" &&
           refusal_of("memcached://h").starts_with("store 'memcached:': the system gives it no");
  });
  EXPECT_EQ(status, 0);
}

// A small store in virtual time.
class VirtualStore {
 public:
  // Each key is asked when those before it are fresh.
  static Instant asked_at(int number) { return kStart + 2 * number * kHourNs; }

  // Takes from new keys until there is no room. Returns how many have been admitted.
  int fill() {
    for (int i = 0; i < 1'000'000; ++i) {
      const std::string error = error_of([&] { keys_.take(key_name(i), asked_at(i)); });
      if (error.empty()) continue;
      EXPECT_THAT(error, HasSubstr("1048576"));
      return i;
    }
    ADD_FAILURE() << "it never became full";
    return 0;
  }
  LimitedKeys& keys() { return keys_; }

 private:
  const std::shared_ptr<Store> store_ =
      open_bare_store("memory:?max_bytes=1048576", {.virtual_time = true});
  LimitedKeys keys_{*store_, "sliding_log 5/1h"};
};

// Time that passes makes no room, since a request for an earlier instant may follow.
TEST(VirtualTime, AFullStoreIsAnErrorAndForgetsNothing) {
  VirtualStore store;
  const int keys = store.fill();
  for (int i = 0; i < keys; ++i) {
    ASSERT_EQ(store.keys().peek(key_name(i), VirtualStore::asked_at(i)).remaining, 4)
        << i << " of " << keys;
  }
  // The last bytes may hold one or two more keys, but not more.
  const auto ask_on = [&] {
    for (int i = 0; i < 500; ++i) store.keys().take("more" + key_name(i), kStart);
  };
  EXPECT_THROW(ask_on(), StoreError);
}

TEST(VirtualTime, AnswersTheSameInEveryRun) {
  EXPECT_EQ(VirtualStore().fill(), VirtualStore().fill());
}

}  // namespace
}  // namespace sluice
