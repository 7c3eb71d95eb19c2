#include "servers/resp_client.h"

#include <stdexcept>

namespace sluice::servers {

std::string Reply::printed() const {
  if (type == '_') return "(nil)";
  if (type == '-') return "-" + text;
  if (type != '*') return text;
  std::string lines;
  for (const Reply& element : elements) {
    if (!lines.empty()) lines += '\n';
    lines += element.printed();
  }
  return lines;
}

std::string encode_command(const std::vector<std::string>& words) {
  std::string bytes = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words) {
    bytes += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  }
  return bytes;
}

Reply RespClient::ask(const std::vector<std::string>& words) {
  send(encode_command(words));
  return read();
}

void RespClient::send(std::string_view bytes) {
  if (!peer_.send(bytes)) throw std::runtime_error("cannot send");
}

Reply RespClient::read() {
  const std::string line = read_line(peer_);
  if (line.empty()) throw std::runtime_error("an empty line is no reply");
  const std::string rest = line.substr(1);
  switch (line[0]) {
    case '+':
    case '-':
    case ':':
      return {line[0], rest};
    case '$': {
      const long bytes = std::stol(rest);
      if (bytes < 0) return {};
      const auto size = static_cast<std::size_t>(bytes);
      std::string text = peer_.read(size + 2);
      if (text.size() < size + 2) throw std::runtime_error("the reply is cut");
      text.resize(size);
      return {'$', std::move(text)};
    }
    case '*': {
      const long count = std::stol(rest);
      if (count < 0) return {};
      Reply reply{'*'};
      for (long i = 0; i < count; ++i) reply.elements.push_back(read());
      return reply;
    }
    default:
      throw std::runtime_error("no reply of RESP2: " + line);
  }
}

}  // namespace sluice::servers
