#include "store/file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "base/printable.h"
#include "base/text/text.h"
#include "store/url.h"

namespace tessera::store {
namespace {

std::string help_for(int number) {
  switch (number) {
    case ENOSPC:
    case EDQUOT: return "free some space there, or choose another directory";
    case EACCES:
    case EPERM: return "check the permissions of the file and of its directory";
    case EROFS: return "choose a directory on a file system that can be written";
    case EFBIG: return "raise the limit of file sizes (ulimit -f), or choose a file system that takes larger files";
    case EIO: return "the disk, or the network that holds it, failed: see what the system's log says (dmesg)";
    case ELOOP: return "a symbolic link lies there, and what it leads to is left alone: remove the link";
    case ENOTDIR: return "a file lies in the place of a directory: move it away, or name another place";
    case EMFILE: return "raise the limit of open files (ulimit -n)";
    case ENFILE: return "raise the machine's limit of open files (fs.file-max)";
    default: return {};
  }
}

bool exhausted(int number) { return number == EMFILE || number == ENFILE || number == ENOMEM; }

}  // namespace

IoError::IoError(int number, std::string_view action, const std::string& path)
    : Error(exhausted(number) ? Exit::kDevice : Exit::kData,
            fmt::format("cannot {} `{}`: {}", action, one_line(path), std::strerror(number)), {}, help_for(number)),
      number_(number) {}

OutOfFiles::OutOfFiles(int number, std::string_view path)
    : text_(fmt::format("cannot open `{}`: {}", one_line(path), std::strerror(number))), of_process_(number == EMFILE) {}

void expect_not_exhausted(int number, std::string_view path) {
  if (number == ENOMEM) throw std::bad_alloc();
  if (exhausted(number)) throw OutOfFiles(number, path);
}

void fail_reading(int number, std::string_view action, const std::string& path) {
  expect_not_exhausted(number, path);
  throw IoError(number, action, path);
}

Bytes own_bytes(std::vector<std::byte> bytes) {
  auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  const std::span<const std::byte> data(*owner);
  return {std::move(owner), data};
}

Bytes copy_bytes(std::span<const std::byte> bytes) { return own_bytes({bytes.begin(), bytes.end()}); }

std::string join_path(std::string_view directory, std::string_view name) {
  if (directory.empty()) return std::string(name);
  return fmt::format("{}{}{}", directory, directory.back() == '/' ? "" : "/", name);
}

std::string parent_path(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const auto slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return std::string(path.substr(0, slash == 0 ? 1 : slash));
}

std::string last_part(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return std::string(path.substr(path.rfind('/') + 1));
}

std::string read_text(FileSystem& files, const std::string& path) {
  constexpr int64_t kMaxText = int64_t{4} << 30;
  const auto file = files.open(path);
  if (file->size() > kMaxText) {
    throw data_error(fmt::format("`{}` is read as a text, and has {} bytes, more than {}", path, file->size(), kMaxText));
  }
  std::string text(static_cast<size_t>(file->size()), '\0');
  file->read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

std::vector<std::byte> read_range(FileSystem& files, const std::string& path, int64_t offset, int64_t length) {
  const auto file = files.open(path);
  TESSERA_CHECK(offset >= 0 && length >= 0);
  if (offset > file->size() || length > file->size() - offset) {
    throw data_error(
        fmt::format("`{}` is too short: {} bytes from {} are wanted, it has {}", path, length, offset, file->size()));
  }
  std::vector<std::byte> bytes(static_cast<size_t>(length));
  file->read(offset, bytes);
  return bytes;
}

void write_atomic(FileSystem& files, const std::string& path, const std::function<void(const std::string& temporary)>& write) {
  if (is_remote(path)) return write(path);  // an object is there when all of it is
  const std::string temporary = fmt::format("{}.tmp-{}", path, getpid());
  // Whatever has the name is a leftover, and may be a symbolic link that leads to somebody's file.
  if (files.info(temporary)) files.remove_file(temporary);
  try {
    write(temporary);
    files.rename(temporary, path);
  } catch (const std::exception&) {
    try {
      files.remove_file(temporary);
    } catch (const IoError&) {
      // The first failure is the one to tell; it may be that there was nothing to remove.
    }
    throw;
  }
  files.sync_directory(parent_path(path));
}

void write_atomic(FileSystem& files, const std::string& path, std::span<const std::byte> content) {
  write_atomic(files, path, [&](const std::string& temporary) {
    const auto file = files.create(temporary);
    file->write(content);
    file->sync();
    file->close();
  });
}

void write_atomic(FileSystem& files, const std::string& path, std::string_view content) {
  write_atomic(files, path, as_bytes(content));
}

void write_atomic(Directory& directory, const std::string& name, std::string_view content) {
  const std::string temporary = fmt::format("{}.tmp-{}", name, getpid());
  if (directory.info(temporary)) directory.remove_file(temporary);
  try {
    const auto file = directory.create(temporary);
    file->write(as_bytes(content));
    file->sync();
    file->close();
    directory.rename(temporary, name);
  } catch (const std::exception&) {
    try {
      directory.remove_file(temporary);
    } catch (const IoError&) {
      // As above.
    }
    throw;
  }
  directory.sync();
}

namespace {

void remove_below(Directory& parent, const FileInfo& entry) {
  if (!entry.directory) return parent.remove_file(entry.name);
  {
    const auto directory = parent.open(entry.name);
    for (const FileInfo& child : directory->list()) remove_below(*directory, child);
  }
  parent.remove_directory(entry.name);
}

}  // namespace

void make_directories_below(FileSystem& files, const std::string& root, std::string_view folders) {
  std::string path = root;
  for (const std::string& folder : split(folders, '/')) {
    path = join_path(path, folder);
    const auto there = files.info(path);
    if (there && there->symlink) {
      throw usage_error(fmt::format("`{}` is a symbolic link, and nothing is written where it leads to", one_line(path)), {},
                        "remove the link");
    }
    if (!there) files.make_directories(path);
  }
}

void remove_tree(FileSystem& files, const std::string& path) {
  const auto parent = files.open_directory(parent_path(path));
  const auto entry = parent->info(last_part(path));
  if (!entry) throw IoError(ENOENT, "remove", path);
  remove_below(*parent, *entry);
}

}  // namespace tessera::store
