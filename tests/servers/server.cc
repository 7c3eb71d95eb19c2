#include "servers/server.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <stdexcept>
#include <thread>
#include <utility>

#include "servers/socket.h"
#include "testing/unique_fd.h"

namespace sluice::servers {
namespace {

constexpr std::chrono::milliseconds kPause{5};

// Runs between fork and exec in the child of a program with threads, so it must not allocate.
[[noreturn]] void become(char** words, int output, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // The parent ended before the line above.
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  ::execvp(words[0], words);
  constexpr char kMissing[] = "cannot be run: is it installed?\n";
  if (::write(STDERR_FILENO, kMissing, sizeof(kMissing) - 1) < 0) ::_exit(126);
  ::_exit(127);
}

}  // namespace

Server::~Server() {
  kill();
}

void Server::start(std::vector<std::string> command) {
  command_ = std::move(command);
  launch();
  await_answer();
}

void Server::restart() {
  kill();
  launch();
  await_answer();
}

void Server::launch() {
  const UniqueFd output(
      ::open(folder_.path("log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!output) fail("cannot write its log");
  std::vector<char*> words;
  for (std::string& word : command_) words.push_back(word.data());
  words.push_back(nullptr);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) become(words.data(), output.get(), parent);
  if (pid_ < 0) fail("cannot fork");
}

void Server::await_answer() {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  std::string last = "no answer";
  while (std::chrono::steady_clock::now() < deadline) {
    if (has_ended()) fail("ended by itself");
    try {
      if (answers()) return;
    } catch (const std::exception& error) {
      last = error.what();
    }
    std::this_thread::sleep_for(kPause);
  }
  kill();
  fail("does not answer: " + last);
}

bool Server::has_ended() {
  if (pid_ > 0 && ::waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = -1;
  return pid_ <= 0;
}

void Server::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void Server::pause() {
  if (pid_ <= 0) fail("does not run");
  ::kill(pid_, SIGSTOP);
  int status = 0;
  ::waitpid(pid_, &status, WUNTRACED);
  if (!WIFSTOPPED(status)) {
    pid_ = -1;
    fail("ended instead of standing still");
  }
}

void Server::resume() {
  if (pid_ <= 0) fail("does not run");
  ::kill(pid_, SIGCONT);
}

void Server::fail(const std::string& what) const {
  throw std::runtime_error(command_.front() + " on 127.0.0.1:" + std::to_string(port_) + " " +
                           what + "\n" + folder_.read("log"));
}

}  // namespace sluice::servers
