#include "train/control/unix_socket.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace tessera::train {

sockaddr_un socket_address(const Descriptor& directory, const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = fmt::format("/proc/self/fd/{}/{}", directory.get(), name);
  TESSERA_CHECK(path.size() < sizeof address.sun_path, "{}", path);
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

int bind_to(const Descriptor& socket, const sockaddr_un& address) {
  return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
}

int connect_to(const Descriptor& socket, const sockaddr_un& address) {
  int result = 0;
  do {
    result = ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  } while (result != 0 && errno == EINTR);
  return result == 0 || errno == EISCONN ? 0 : errno;
}

uid_t peer_user(const Descriptor& socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return static_cast<uid_t>(-1);
  return peer.uid;
}

}  // namespace tessera::train
