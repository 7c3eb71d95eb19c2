#include "permits/holder.h"

#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <stdexcept>
#include <utility>

namespace sluice::permits {
namespace {

std::string program() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "sluice_permit_holder")
      .string();
}

}  // namespace

Holder::Holder(const Source& source) {
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw std::runtime_error("no sockets for a permit holder");
  }
  peer_ = servers::patient_peer(UniqueFd(ends[0]));
  UniqueFd theirs(ends[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDOUT_FILENO);
  std::array<std::string, 3> words{program(), source.url, source.limit};
  std::array<char*, 4> arguments{};
  for (std::size_t i = 0; i < words.size(); ++i) arguments[i] = words[i].data();
  const int fault =
      ::posix_spawn(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (fault != 0) throw std::runtime_error(words[0] + " cannot be started");
  theirs.reset();  // So that the end of the program is seen at once.
  hear("ready");
}

Holder::~Holder() {
  if (pid_ > 0) kill();
}

void Holder::tell(const std::string& line) {
  if (!peer_.send(line + "\n")) throw std::runtime_error("the permit holder does not listen");
}

std::string Holder::hear() {
  std::string line = peer_.line();
  if (!line.ends_with('\n')) throw std::runtime_error("the permit holder says nothing, or is gone");
  line.pop_back();
  return line;
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

void Holder::acquire() {
  tell("acquire 30000");
  hear("granted");
}

void Holder::kill() {
  ::kill(pid_, SIGKILL);
  finish();
}

void Holder::pause() {
  ::kill(pid_, SIGSTOP);
  int status = 0;
  ::waitpid(pid_, &status, WUNTRACED);
}

void Holder::resume() {
  ::kill(pid_, SIGCONT);
}

int Holder::finish() {
  peer_.end();
  int status = -1;
  ::waitpid(std::exchange(pid_, -1), &status, 0);
  return status;
}

}  // namespace sluice::permits
