#pragma once
// Archives that data sets are given away as: tar, also inside another tar, and zip.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tessera::data {

struct ArchiveMember {
  std::string name;     // as the archive has it: it may lead anywhere
  int64_t size = 0;     // bytes, unpacked
  int64_t at = 0;       // where its archive finds it
  bool regular = true;  // a file; else a directory, a link, …
};

class Archive {
 public:
  virtual ~Archive() = default;
  // For messages: "train.tar", "train.tar: n01440764.tar".
  const std::string& name() const { return name_; }
  const std::vector<ArchiveMember>& members() const { return members_; }
  // A member's bytes, in order and in parts of at most 1 MiB. Throws a data Error where the archive is damaged, and what `take` throws.
  // Thread-safe.
  virtual void read(const ArchiveMember& member, const std::function<void(std::span<const std::byte>)>& take) const = 0;
  // Throws a data Error where the member says that it is longer than `most`.
  void expect_at_most(const ArchiveMember& member, int64_t most) const;
  // The whole member. Throws as expect_at_most().
  std::string read_all(const ArchiveMember& member, int64_t most) const;

 protected:
  std::string name_;
  std::vector<ArchiveMember> members_;
};

// A whole tar archive, whose end is marked; its headers are read here. Throws a data Error for what is cut short or is none.
std::shared_ptr<const Archive> open_tar(const std::string& path);
// The tar archive that is a member of another.
std::shared_ptr<const Archive> open_inner_tar(const Archive& outer, const ArchiveMember& member);
// One that is in memory.
std::shared_ptr<const Archive> open_tar_bytes(std::string bytes, const std::string& name);
// Throws a data Error where its members would unpack to far more than it has bytes.
std::shared_ptr<const Archive> open_zip(const std::string& path);

// "./a/b" -> "a/b".
std::string_view without_dot(std::string_view name);
// The last part of a member's name where it is fit for a file of ours: letters, digits, "-", "_" and "." (not first). Else a data
// Error that names archive and member. Links and devices are refused, too.
std::string file_name_of(const Archive& archive, const ArchiveMember& member);

}  // namespace tessera::data
