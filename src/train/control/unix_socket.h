#pragma once
// Sockets of the file system whose path may be longer than an address has room for (108 bytes).

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <string>
#include <utility>

namespace tessera::train {

// An open descriptor, closed at the end; -1 is none.
class Descriptor {
 public:
  explicit Descriptor(int descriptor = -1) : descriptor_(descriptor) {}
  ~Descriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }

 private:
  int descriptor_;
};

// The address of `name` in the directory that `directory` is open on. It holds as long as the descriptor is open, in this
// process.
sockaddr_un socket_address(const Descriptor& directory, const std::string& name);

// bind() and connect(): 0 or an errno value.
int bind_to(const Descriptor& socket, const sockaddr_un& address);
int connect_to(const Descriptor& socket, const sockaddr_un& address);

// The user at the other end; -1 where that can't be told.
uid_t peer_user(const Descriptor& socket);

}  // namespace tessera::train
