#pragma once
// What servers that keep objects can do, behind one interface: S3, Google Cloud Storage and Azure (bucket_server.cc), and servers
// of the web (web_server.cc). For store/servers/buckets.cc, which tries again, caches and tells users.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace tessera::store {

enum class ObjectKind { kNothing, kObject, kFolder };

struct ObjectInfo {
  ObjectKind kind = ObjectKind::kNothing;
  int64_t size = 0;     // bytes, of an object
  int64_t version = 0;  // another number once it is written anew, as the time of that; 0: not known
};

// An error that a server answers with.
class ServerError : public std::exception {
 public:
  // `reason` is the server's; `help` says what to do and may be empty; `passes`: another try may succeed.
  ServerError(std::string reason, std::string help, bool passes)
      : reason_(std::move(reason)), help_(std::move(help)), passes_(passes) {}
  const char* what() const noexcept override { return reason_.c_str(); }
  const std::string& help() const { return help_; }
  bool passes() const { return passes_; }

 private:
  std::string reason_, help_;
  bool passes_;
};

// Thread-safe.
class ServedObject {
 public:
  virtual ~ServedObject() = default;
  virtual int64_t size() const = 0;
  // The object's ETag or generation, which changes when it is written anew; empty where the server gives none.
  virtual std::string tag() const = 0;
  // How many bytes were read into `out`; fewer than its size where the object ends before.
  virtual int64_t read(int64_t offset, std::span<std::byte> out) = 0;
};

// Thread-safe. All throw ServerError, or std::bad_alloc.
class ObjectServer {
 public:
  virtual ~ObjectServer() = default;
  // Asks for the size and the tag, but where `known` has the size of a listing, which has to be right.
  virtual std::unique_ptr<ServedObject> open(const std::string& url, const ObjectInfo* known) = 0;
  virtual ObjectInfo info(const std::string& url) = 0;
  // What is in a folder, at any depth where `deep`, in no particular order. `name` is relative to `url`.
  using Visit = std::function<void(std::string name, const ObjectInfo& info)>;
  virtual void list(const std::string& url, bool deep, const Visit& visit) = 0;
  // Writes an object anew, from what next() puts into its argument, 0 bytes at the end; it is there when all of it is. What next()
  // throws leaves here, and the object is as it was, or not there.
  using Next = std::function<int64_t(std::span<std::byte> out)>;
  virtual void write(const std::string& url, const Next& next) = 0;
  // Whether or not it is there; a folder goes with all that is in it.
  virtual void remove(const std::string& url) = 0;
};

ObjectServer& bucket_server();
ObjectServer& web_server();

// `reason`, which Arrow gave, as part of one line: without what google-cloud-cpp says around it, and of a long one both ends, as
// either has the cause.
std::string short_reason(std::string_view reason);
// What to do about `reason`, which Arrow gave; empty where that is not known.
std::string bucket_help(std::string_view reason);

}  // namespace tessera::store
