#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "checkpoint/commit.h"
#include "checkpoint/npz.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/slices.h"
#include "fuzz/targets.h"
#include "store/crc32c.h"

namespace tessera::fuzz {
namespace {

using namespace checkpoint;

void check(const NpzArray& array) { TESSERA_CHECK(static_cast<int64_t>(array.data.size()) == byte_count(array.type)); }

// NumPy's archives: a .npz, and the same bytes as one .npy.
bool npz(std::string_view bytes) {
  static const int file = memfd_create("fuzz.npz", 0);
  TESSERA_CHECK(file >= 0 && ftruncate(file, 0) == 0);
  TESSERA_CHECK(pwrite(file, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  const bool archive = parses([] {
    for (const NpzArray& array : read_npz(fmt::format("/proc/self/fd/{}", file))) check(array);
    return true;
  });
  const std::span<const std::byte> all = store::as_bytes(bytes);
  const bool array = parses([&] {
    check(parse_npy("a", {all.begin(), all.end()}, "fuzz"));
    return true;
  });
  return archive || array;
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

bool commit(std::string_view bytes) {
  const auto directory = parse_directory_name(bytes);
  TESSERA_CHECK(!directory || (directory->step >= 0 && directory->writer.value_or(0) >= 0));
  const bool parsed = parses([&] {
    const Commit found = parse_commit(bytes, "fuzz");
    TESSERA_CHECK(found.step >= 0 && state_files(found) && !state_files(found)->empty());
    for (const CommittedFile& file : found.files) {
      TESSERA_CHECK(file.size >= 0 && file.name.find('/') == std::string::npos && !file.name.starts_with('.'));
    }
    const Commit again = parse_commit(commit_text(found), "fuzz");
    TESSERA_CHECK(again.step == found.step && again.version == found.version && again.run == found.run &&
                  again.files.size() == found.files.size());
    return true;
  });
  return parsed || directory;
}

bool resealed_commit(std::string_view bytes) { return commit(reseal_commit(bytes)); }

}  // namespace

const std::vector<NamedTarget>& checkpoint_targets() {
  static const std::vector<NamedTarget> all = {
      {"npz", npz}, {"safetensors", safetensors}, {"slices", slices}, {"commit", commit}, {"commit_resealed", resealed_commit}};
  return all;
}

std::string reseal_commit(std::string_view bytes) {
  constexpr std::string_view kLast = "  \"crc32c\": \"";
  const std::string before(bytes.substr(0, bytes.rfind(kLast)));
  return before + fmt::format("{}{}\"\n}}\n", kLast, store::crc32c_text(store::crc32c(store::as_bytes(before))));
}

}  // namespace tessera::fuzz
