#include "cluster/group/local_etcd.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cluster/group/run_key.h"
#include "http/client.h"

namespace tessera::group {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kTries = 5;  // of ports that were free a moment ago
constexpr std::chrono::seconds kStartPatience{30}, kPortPatience{20};

// Ports that are free now, different ones.
std::array<uint16_t, 2> free_ports() {
  std::array<uint16_t, 2> ports{};
  std::array<int, 2> sockets{};
  for (size_t i = 0; i < ports.size(); ++i) {
    sockets[i] = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    socklen_t length = sizeof address;
    if (::bind(sockets[i], reinterpret_cast<sockaddr*>(&address), length) != 0 ||
        ::getsockname(sockets[i], reinterpret_cast<sockaddr*>(&address), &length) != 0)
      throw device_error("no port is free for etcd");
    ports[i] = ntohs(address.sin_port);
  }
  for (const int socket : sockets) ::close(socket);
  return ports;
}

bool port_is_free(const std::string& host, uint16_t port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);  // connections that are closing don't count, as for etcd
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  ::inet_pton(AF_INET, host.c_str(), &address.sin_addr);
  const bool bound = ::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  const bool taken = !bound && errno == EADDRINUSE;
  ::close(socket);
  return !taken;
}

// An earlier start of the run may be about to end.
void wait_for_port(const std::string& host, uint16_t port) {
  for (const auto until = Clock::now() + kPortPatience; !port_is_free(host, port);) {
    if (Clock::now() >= until) {
      throw Error(Exit::kPreempted,
                  fmt::format("another program has the port {} of {}, where the processes are to meet", port, host), {},
                  "is an earlier run still there? --coordinator-address HOST:PORT names another etcd");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

bool answers(const std::string& address, const std::string& key) {
  try {
    auto at = http::parse_endpoint(address, "");
    at->key = key;
    return http::post_json(*at, "/v3/maintenance/status", "{}", std::chrono::seconds(2)).status == 200;
  } catch (const http::ConnectionError&) {
    return false;
  }
}

// Ends with the thread that calls. -1 where there is no such program.
pid_t spawn(std::vector<std::string> command, const std::string& log) {
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  const pid_t parent = ::getpid(), pid = ::fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  ::setpgid(0, 0);  // Ctrl-C is for those who meet there
  const int out = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), in = ::open("/dev/null", O_RDONLY);
  ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  ::execvp(words[0], words.data());
  ::_exit(127);
}

// That this user alone can read.
void write_secret(const std::string& path, const std::string& text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const bool good = file >= 0 && ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (file >= 0) ::close(file);
  if (!good) throw device_error(fmt::format("cannot write `{}`", path));
}

// Among members it is alone, but takes no others either.
std::vector<std::string> tls_options(const std::string& key, const std::string& directory) {
  const std::string key_file = directory + "/key.pem", certificate = directory + "/certificate.pem";
  write_secret(key_file, key);
  write_secret(certificate, certificate_of(key));
  std::vector<std::string> options;
  for (const std::string of : {"--", "--peer-"}) {
    for (std::string word : {of + "key-file", key_file, of + "cert-file", certificate, of + "trusted-ca-file", certificate,
                             of + "client-cert-auth"}) {
      options.push_back(std::move(word));
    }
  }
  return options;
}

std::string last_line(const std::string& path) {
  std::ifstream file(path);
  std::string line, last;
  while (std::getline(file, line)) {
    if (!line.empty()) last = line;
  }
  return last;
}

}  // namespace

LocalEtcd::LocalEtcd(const std::string& host, std::string key, uint16_t port) : host_(host), key_(std::move(key)), port_(port) {
  try {
    if (port_ != 0) wait_for_port(host_, port_);
    start();
  } catch (...) {
    end();
    throw;
  }
}

LocalEtcd::~LocalEtcd() { end(); }

bool LocalEtcd::runs() {
  if (pid_ > 0 && ::waitpid(pid_, nullptr, WNOHANG) == 0) return true;
  pid_ = -1;
  return false;
}

void LocalEtcd::revive() {
  if (runs()) return;
  fs::remove_all(directory_.path() + "/data");
  start();
}

void LocalEtcd::start() {
  const std::string log = directory_.path() + "/log", data = directory_.path() + "/data";
  const std::string scheme = key_.empty() ? "http" : "https";
  for (int i = 0; i < kTries; ++i) {
    const auto [client, peer] = free_ports();
    address_ = fmt::format("{}:{}", host_, port_ != 0 ? port_ : client);
    const std::string clients = scheme + "://" + address_, peers = fmt::format("{}://127.0.0.1:{}", scheme, peer);
    std::vector<std::string> command = {"etcd",
                                        "--name",
                                        "tessera",
                                        "--data-dir",
                                        data,
                                        "--listen-client-urls",
                                        clients,
                                        "--advertise-client-urls",
                                        clients,
                                        "--listen-peer-urls",
                                        peers,
                                        "--initial-advertise-peer-urls",
                                        peers,
                                        "--initial-cluster",
                                        "tessera=" + peers,
                                        "--logger",
                                        "zap",
                                        "--log-level",
                                        "error"};
    if (!key_.empty()) std::ranges::copy(tls_options(key_, directory_.path()), std::back_inserter(command));
    pid_ = spawn(std::move(command), log);
    if (pid_ < 0) throw device_error("the system starts no further process for etcd");
    int status = 0;
    for (const auto until = Clock::now() + kStartPatience; Clock::now() < until;) {
      if (answers(address_, key_)) return;
      if (::waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = -1;
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    const bool missing = WIFEXITED(status) && WEXITSTATUS(status) == 127;
    if (missing) {
      throw device_error("several processes meet at etcd, which is not installed", {},
                         "apt-get install etcd-server, or name one that runs with --coordinator-address HOST:PORT");
    }
    const std::string why = last_line(log);
    if (i + 1 == kTries) throw device_error(fmt::format("etcd does not start: {}", why.empty() ? "it says nothing" : why));
    end();
    fs::remove_all(data);
  }
}

void LocalEtcd::end() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_ = -1;
}

}  // namespace tessera::group
