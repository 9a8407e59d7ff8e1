#include <fcntl.h>
#include <fmt/format.h>
#include <sys/time.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/text/json.h"
#include "store/file.h"
#include "train/control/control_socket.h"
#include "train/control/unix_socket.h"
#include "train/workdir/workdir.h"

namespace tessera::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxAnswerBytes = size_t{4} << 20;

Descriptor open_run(const std::string& workdir) {
  Descriptor directory(::open(workdir.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (directory) return directory;
  if (errno == ENOENT) throw usage_error(fmt::format("there is no run at `{}`", workdir), {}, "name the run's directory");
  if (errno == ENOTDIR) throw usage_error(fmt::format("`{}` is not the directory of a run", workdir));
  throw store::IoError(errno, "open", workdir);
}

Error not_training(const std::string& workdir) {
  if (find_recipe(workdir).empty()) return usage_error(fmt::format("`{}` is not the directory of a run", workdir));
  return usage_error(
      fmt::format("{} is not training now (no control socket)", workdir), {},
      "ask it while it trains, on its machine; tessera train RECIPE --profile-host profiles a run's first steps");
}

Error no_answer(const std::string& workdir, int number) {
  if (number == EAGAIN || number == EINPROGRESS) {
    return data_error(fmt::format("the run of {} does not answer", workdir), {}, "see whether it is stopped or out of memory");
  }
  return data_error(fmt::format("the run of {} ended before it answered", workdir));
}

Descriptor connect_run(const std::string& workdir, std::optional<std::chrono::milliseconds> patience) {
  const Descriptor directory = open_run(workdir);
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) throw store::IoError(errno, "make a socket for", workdir);
  if (patience) {
    timeval time{};
    time.tv_sec = patience->count() / 1000;
    time.tv_usec = patience->count() % 1000 * 1000;
    for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO}) setsockopt(socket.get(), SOL_SOCKET, option, &time, sizeof time);
  }
  const int number = connect_to(socket, socket_address(directory, kControlSocket));
  if (number == ENOENT || number == ECONNREFUSED || number == ENOTSOCK) throw not_training(workdir);
  if (number == EAGAIN) throw no_answer(workdir, number);
  if (number != 0) throw store::IoError(number, "connect to", store::join_path(workdir, kControlSocket));
  return socket;
}

// A run that refuses may have answered before it read all: what fails here shows where the answer is read.
void send_line(const Descriptor& socket, std::string line) {
  line += '\n';
  for (std::string_view rest = line; !rest.empty();) {
    const ssize_t n = ::send(socket.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return;
    rest.remove_prefix(static_cast<size_t>(n));
  }
}

std::string receive_line(const Descriptor& socket, const std::string& workdir) {
  std::string line;
  std::array<char, 4096> part;
  while (!line.ends_with('\n')) {
    const ssize_t n = ::recv(socket.get(), part.data(), part.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw no_answer(workdir, n == 0 ? 0 : errno);
    line.append(part.data(), static_cast<size_t>(n));
    if (line.size() > kMaxAnswerBytes) throw data_error(fmt::format("the answer of the run of {} is too long", workdir));
  }
  return line;
}

}  // namespace

bool is_training(const std::string& workdir) {
  const Descriptor directory(::open(workdir.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return false;
  const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return false;
  const int number = connect_to(socket, socket_address(directory, kControlSocket));
  return number == 0 || number == EAGAIN;  // EAGAIN: so many ask it that one more would have to wait
}

Json ask_run(const std::string& workdir, const Json& request, std::optional<std::chrono::milliseconds> patience) {
  const Descriptor socket = connect_run(workdir, patience);
  send_line(socket, request.dump(-1, ' ', false, Json::error_handler_t::replace));
  Json answer = parse_ordered_json(receive_line(socket, workdir), store::join_path(workdir, kControlSocket));
  if (answer.value("ok", false)) return answer;
  const auto error = answer.find("error");
  throw data_error(error != answer.end() && error->is_string() ? error->get<std::string>() : "the run refused");
}

}  // namespace tessera::train
