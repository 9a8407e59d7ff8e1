#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "checkpoint/commit.h"
#include "checkpoint/formats/npz.h"
#include "checkpoint/formats/pickle.h"
#include "checkpoint/formats/safetensors.h"
#include "checkpoint/formats/torch_file.h"
#include "checkpoint/slices.h"
#include "fuzz/targets.h"
#include "store/encoding/crc32c.h"
#include "store/memory_files.h"

namespace tessera::fuzz {
namespace {

using namespace checkpoint;

void check(const NpzArray& array) { TESSERA_CHECK(static_cast<int64_t>(array.data.size()) == byte_count(array.type)); }

// A place in memory for a file that is written whole: libzip opens paths.
std::string npz_path() {
  static const std::string path = [] {
    const std::string folder =
        std::filesystem::exists("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path().string();
    return fmt::format("{}/tessera-fuzz-{}.npz", folder, getpid());
  }();
  return path;
}

// What was read is read again as it was written.
void check_written(const std::vector<NpzArray>& arrays) {
  write_npz(npz_path(), arrays);
  const std::vector<NpzArray> again = read_npz(npz_path());
  std::filesystem::remove(npz_path());
  TESSERA_CHECK(again.size() == arrays.size());
  for (size_t i = 0; i < arrays.size(); ++i) {
    TESSERA_CHECK(again[i].name == arrays[i].name && again[i].type == arrays[i].type && again[i].data == arrays[i].data);
  }
}

// The bytes as a file that libzip can open; the same one each time.
std::string as_file(std::string_view bytes) {
  static const int file = memfd_create("fuzz", 0);
  TESSERA_CHECK(file >= 0 && ftruncate(file, 0) == 0);
  TESSERA_CHECK(pwrite(file, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  return fmt::format("/proc/self/fd/{}", file);
}

bool torch(std::string_view bytes) {
  const std::string path = as_file(bytes);
  return parses([&] {
    for (const NpzArray& array : read_torch(path)) check(array);
    return true;
  });
}

// What a file of torch.save holds beside elements.
bool pickle(std::string_view bytes) {
  return parses([&] {
    const Pickle made(bytes, "fuzz");
    made.root().find("state_dict");
    return true;
  });
}

// NumPy's archives: a .npz, and the same bytes as one .npy.
bool npz(std::string_view bytes) {
  const std::string path = as_file(bytes);
  const bool archive = parses([&] {
    const std::vector<NpzArray> arrays = read_npz(path);
    for (const NpzArray& array : arrays) check(array);
    check_written(arrays);
    return true;
  });
  // What the error of a prefix that no name has, as none has a zero byte, tells of the names.
  const std::string none(1, '\0');
  if (archive) TESSERA_CHECK(!parses([&] { return !read_npz(path, {none, none}).empty(); }));
  const std::span<const std::byte> all = store::as_bytes(bytes);
  const bool array = parses([&] {
    check(parse_npy("a", {all.begin(), all.end()}, "fuzz"));
    return true;
  });
  return archive || array;
}

// Written by this program, a file holds the same arrays.
void check_written(const SafetensorsFile& file) {
  testing::MemoryFiles files;
  const FileSum sum = write_safetensors(files, "written", file.tensors(), file.metadata());
  const SafetensorsFile again = SafetensorsFile::open("written", files);
  TESSERA_CHECK(sum.size == static_cast<int64_t>(again.bytes().size()) && sum.crc32c == store::crc32c(again.bytes().data));
  TESSERA_CHECK(again.metadata() == file.metadata() && again.tensors().size() == file.tensors().size());
  for (const TensorView& tensor : file.tensors()) {
    const TensorView* same = again.find(tensor.name);
    TESSERA_CHECK(same && same->type == tensor.type && std::ranges::equal(same->data, tensor.data));
  }
}

bool safetensors(std::string_view bytes) {
  return parses([&] {
    const SafetensorsFile file = SafetensorsFile::parse(store::copy_bytes(store::as_bytes(bytes)), "fuzz");
    size_t sum = 0;
    for (const TensorView& tensor : file.tensors()) {
      TESSERA_CHECK(tensor.data.size() == static_cast<size_t>(byte_count(tensor.type)));
      TESSERA_CHECK(file.find(tensor.name) == &tensor);
      store::crc32c(tensor.data);
      sum += tensor.data.size();
    }
    TESSERA_CHECK(sum + 8 <= bytes.size());
    check_written(file);
    return true;
  });
}

bool slices(std::string_view bytes) {
  const auto name = parse_slice_name(bytes);
  TESSERA_CHECK(!name || slice_name(name->array, name->offset) == bytes);
  const bool shapes = parses([&] {
    const Shapes found = parse_shapes(bytes, "fuzz");
    TESSERA_CHECK(parse_shapes(shapes_text(found), "fuzz") == found);
    return true;
  });
  return name || shapes;
}

// The directory that a list tells of: no checkpoint without its list, nor when a file is longer or gone, unless it may be on
// another host.
void check_directory(const Commit& commit) {
  constexpr int64_t kMaxFile = 1 << 16;
  testing::MemoryFiles files;
  files.make_directories("step");
  for (const CommittedFile& file : commit.files) {
    if (file.size > kMaxFile) return;
    files.create("step/" + file.name)->write(store::as_bytes(std::string(static_cast<size_t>(file.size), 'x')));
  }
  const auto is_checkpoint = [&] { return parses([&] { return read_commit(files, "step").files == commit.files; }); };
  TESSERA_CHECK(!is_checkpoint());
  files.create("step/COMMIT")->write(store::as_bytes(commit_text(commit)));
  is_checkpoint();  // unless it lists a name twice, or its own
  const std::string last = "step/" + commit.files.back().name;
  files.append(last)->write(store::as_bytes("x"));
  TESSERA_CHECK(!is_checkpoint());
  files.remove_file(last);
  TESSERA_CHECK(commit.version == kHostsVersion || !is_checkpoint());
}

// A list of files, the name of a step's directory, or RUN@STEP.
bool commit(std::string_view bytes) {
  const auto directory = parse_directory_name(bytes);
  TESSERA_CHECK(!directory || (directory->step >= 0 && directory->writer.value_or(0) >= 0));
  if (const auto at = parse_run_at_step(std::string(bytes))) {
    const auto again = parse_run_at_step(fmt::format("{}@{}", at->run, at->step));
    TESSERA_CHECK(at->step >= 0 && bytes.starts_with(at->run + "@") && again && again->run == at->run &&
                  again->step == at->step);
  }
  const bool parsed = parses([&] {
    const Commit found = parse_commit(bytes, "fuzz");
    TESSERA_CHECK(found.step >= 0 && state_files(found) && !state_files(found)->empty());
    for (const CommittedFile& file : found.files) {
      TESSERA_CHECK(file.size >= 0 && file.name.find('/') == std::string::npos && !file.name.starts_with('.'));
    }
    const Commit again = parse_commit(commit_text(found), "fuzz");
    TESSERA_CHECK(again.step == found.step && again.version == found.version && again.run == found.run &&
                  again.files == found.files);
    check_directory(found);
    return true;
  });
  return parsed || directory;
}

bool resealed_commit(std::string_view bytes) { return commit(reseal_commit(bytes)); }

}  // namespace

const std::vector<NamedTarget>& checkpoint_targets() {
  static const std::vector<NamedTarget> all = {{"npz", npz, 2048},
                                               {"torch", torch, 8192},
                                               {"pickle", pickle, 2048},
                                               {"safetensors", safetensors, 2048},
                                               {"slices", slices, 256},
                                               {"commit", commit, 1024},
                                               {"commit_resealed", resealed_commit, 1024}};
  return all;
}

std::string reseal_commit(std::string_view bytes) {
  constexpr std::string_view kLast = "  \"crc32c\": \"";
  const std::string before(bytes.substr(0, bytes.rfind(kLast)));
  return before + fmt::format("{}{}\"\n}}\n", kLast, store::crc32c_text(store::crc32c(store::as_bytes(before))));
}

}  // namespace tessera::fuzz
