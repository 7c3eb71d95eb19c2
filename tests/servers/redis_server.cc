#include "servers/redis_server.h"

#include <fstream>
#include <stdexcept>
#include <utility>

#include "servers/certificates.h"
#include "servers/socket.h"

namespace sluice::servers {

RedisServer::RedisServer(RedisOptions options)
    : Server(options.port != 0 ? options.port : free_port()), options_(std::move(options)) {
  write_config();
  std::vector<std::string> command{"redis-server", folder() / "redis.conf"};
  if (options_.sentinel) command.push_back("--sentinel");
  start(std::move(command));
}

// A file instead of arguments, since sentinels, and servers that they reconfigure, rewrite it.
void RedisServer::write_config() const {
  std::ofstream file(folder() / "redis.conf");
  file << "bind 127.0.0.1\ndir " << folder().native() << "\nunixsocket " << unix_path().native()
       << "\nsave \"\"\nappendonly no\nio-threads 1\nshutdown-timeout 0\n"
       << "repl-diskless-sync-delay 0\nenable-debug-command yes\n"
       << (options_.tls ? "port 0\ntls-port " : "port ") << port() << '\n';
  if (options_.tls) {
    const Certificates& made = certificates();
    file << "tls-cert-file " << made.server.native() << "\ntls-key-file "
         << made.server_key.native() << "\ntls-ca-cert-file " << made.ca.native()
         << "\ntls-auth-clients optional\ntls-replication yes\ntls-cluster yes\n";
  }
  if (!options_.password.empty()) {
    file << "requirepass " << options_.password << "\nmasterauth " << options_.password << '\n';
  }
  for (const std::string& line : options_.config) file << line << '\n';
  if (!file.flush()) throw std::runtime_error("cannot write " + (folder() / "redis.conf").native());
}

std::string RedisServer::url() const {
  const std::string who = options_.password.empty() ? "" : "default:" + options_.password + "@";
  return (options_.tls ? "rediss://" : "redis://") + who + "127.0.0.1:" + std::to_string(port()) +
         "/0";
}

std::filesystem::path RedisServer::unix_path() const {
  return folder() / "redis.sock";
}

RespClient RedisServer::client() const {
  RespClient client(unix_path());
  if (!options_.password.empty()) client.ask({"AUTH", options_.password});
  return client;
}

std::string RedisServer::command(const std::vector<std::string>& words) const {
  return client().ask(words).printed();
}

std::string RedisServer::info(const std::string& field) const {
  const std::string all = "\n" + command({"INFO", "everything"});
  const std::size_t begin = all.find("\n" + field + ":");
  if (begin == std::string::npos) return {};
  const std::size_t value = begin + field.size() + 2;
  return all.substr(value, all.find('\r', value) - value);
}

bool RedisServer::answers() {
  return command({"PING"}) == "PONG";
}

}  // namespace sluice::servers
