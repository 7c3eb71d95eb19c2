#include "permits/holder.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <stdexcept>
#include <utility>

namespace sluice::permits {
namespace {

constexpr int kPatienceMs = 30'000;

std::string program() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "sluice_permit_holder")
      .string();
}

}  // namespace

Holder::Holder(const Source& source) {
  std::array<int, 2> input{-1, -1};
  std::array<int, 2> output{-1, -1};
  if (::pipe2(input.data(), O_CLOEXEC) != 0 || ::pipe2(output.data(), O_CLOEXEC) != 0) {
    throw std::runtime_error("no pipes for a permit holder");
  }
  to_ = input[1];
  from_ = output[0];
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  std::array<std::string, 5> words{program(), source.url, source.limit, source.name, source.key};
  std::array<char*, 6> arguments{};
  for (std::size_t i = 0; i < words.size(); ++i) arguments[i] = words[i].data();
  const int fault =
      ::posix_spawn(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(input[0]);
  ::close(output[1]);
  if (fault != 0) throw std::runtime_error(words[0] + " cannot be started");
  hear("ready");
}

Holder::~Holder() {
  if (pid_ > 0) kill();
  ::close(from_);
}

void Holder::tell(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(to_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    throw std::runtime_error("the permit holder does not listen");
  }
}

std::string Holder::hear() {
  for (;;) {
    if (const auto end = heard_.find('\n'); end != std::string::npos) {
      std::string line = heard_.substr(0, end);
      heard_.erase(0, end + 1);
      return line;
    }
    pollfd readable{.fd = from_, .events = POLLIN, .revents = 0};
    if (::poll(&readable, 1, kPatienceMs) <= 0) {
      throw std::runtime_error("the permit holder says nothing");
    }
    std::array<char, 256> bytes{};
    const ssize_t got = ::read(from_, bytes.data(), bytes.size());
    if (got <= 0) throw std::runtime_error("the permit holder has gone");
    heard_.append(bytes.data(), static_cast<std::size_t>(got));
  }
}

std::string Holder::hear(const std::string& word) {
  const std::string line = hear();
  if (!line.starts_with(word)) {
    throw std::runtime_error("the permit holder says '" + line + "' and not '" + word + "'");
  }
  return line.size() > word.size() ? line.substr(word.size() + 1) : "";
}

std::chrono::nanoseconds Holder::hear_time(const std::string& word) {
  return std::chrono::nanoseconds(std::stoll(hear(word)));
}

void Holder::signal(int number) const {
  ::kill(pid_, number);
}

void Holder::acquire() {
  tell("acquire 30000");
  hear("granted");
}

void Holder::kill() {
  signal(SIGKILL);
  finish();
}

void Holder::pause() {
  signal(SIGSTOP);
  int status = 0;
  ::waitpid(pid_, &status, WUNTRACED);
}

void Holder::resume() {
  signal(SIGCONT);
}

int Holder::finish() {
  ::close(std::exchange(to_, -1));
  int status = -1;
  ::waitpid(std::exchange(pid_, -1), &status, 0);
  return status;
}

}  // namespace sluice::permits
