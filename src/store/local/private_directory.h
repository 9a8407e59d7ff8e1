#pragma once
// A directory that nobody but this user can write to. What lies in it was put there by this user (or by root), so that it may
// be trusted further than other input. Directories are made with mode 0700 and files with 0600, whatever the umask.
//
// Owner and mode are asked of the opened descriptor and files are named relative to it, so that nothing can be put in their
// place between the question and the use. Symbolic links are followed to the directory, never in it.

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <ctime>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/encoding/bytes.h"

namespace tessera::store {

class PrivateDirectory {
 public:
  // Nothing where there is none. Throws a data Error that says why and what to do where it belongs to another user, or others
  // may write to it.
  static std::optional<PrivateDirectory> find(const std::string& path);
  // The same, made where there is none with all above it. Root makes none in another user's home (`sudo` keeps HOME): that user
  // could not use it afterwards.
  static PrivateDirectory make(const std::string& path);

  const std::string& path() const { return path_; }

  // The whole content; nothing where there is no such file. A file that another user owns, that others may write to, or that is
  // no regular file is an Error, as is what the system refuses.
  std::optional<std::string> read(const std::string& name) const;
  // The same, and an Error where others may read it.
  std::optional<std::string> read_secret(const std::string& name) const;
  // The same, mapped: ask Bytes::check().
  std::optional<Bytes> map(const std::string& name) const;

  // The file is there with all parts, end to end, or as it was before; synced. Throws IoError.
  void write(const std::string& name, std::initializer_list<std::string_view> parts) const;
  void write(const std::string& name, const std::vector<std::string_view>& parts) const;
  // The same where there is no such file yet; false, and nothing done, where there is one.
  bool write_new(const std::string& name, std::string_view content) const;

  // One holder at a time, over all processes: waits while another has the lock of this name, `patience` at most. Null where
  // that was in vain, or the file system knows no locks. A file of this name is there while somebody holds it or waits. `waited`
  // becomes true where somebody else had it.
  std::shared_ptr<const void> lock(const std::string& name, std::chrono::milliseconds patience, bool& waited) const;

  struct Entry {
    std::string name;
    int64_t size = 0;  // bytes
    timespec changed{};
  };
  std::vector<Entry> list() const;
  // Sets the time of change to now, and removes. Neither ever fails: what can't be done is left.
  void touch(const std::string& name) const;
  bool remove(const std::string& name) const;

 private:
  PrivateDirectory(std::string path, int descriptor);
  struct File;
  std::optional<File> open_file(const std::string& name, mode_t refused) const;
  std::optional<std::string> read_file(const std::string& name, mode_t refused) const;
  std::string write_temporary(const std::string& name, const std::vector<std::string_view>& parts) const;
  std::string path_of(const std::string& name) const;

  std::string path_;
  std::shared_ptr<const int> descriptor_;
};

// The 32 random bytes with which this user's program seals what it will trust later. They are in `seal.key` of
// $XDG_CONFIG_HOME/tessera, else of ~/.config/tessera, and made when missing: not in the cache, which people copy, mount, share
// and point elsewhere (--cache-dir), since who can write a cache must not learn how to seal. Throws a data Error where they
// can't be read or kept, or may be known to others.
std::string user_key();

}  // namespace tessera::store
