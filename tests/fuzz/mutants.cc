#include "fuzz/mutants.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/rng.h"
#include "support/paths.h"

namespace tessera::fuzz {
namespace {

int rounds() {
  const char* text = std::getenv("TESSERA_FUZZ_ROUNDS");
  return text ? std::atoi(text) : 60;
}

// What formats care about: ends, zeros, large numbers, and what text formats are made of.
constexpr std::string_view kWords[] = {"\xff\xff\xff\xff\xff\xff\xff\xff",
                                       "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
                                       "\x7f",
                                       "{",
                                       "}",
                                       "\"",
                                       ":",
                                       "[",
                                       "]",
                                       ",",
                                       "\n",
                                       "..",
                                       "-1",
                                       "9223372036854775807",
                                       "%",
                                       "/",
                                       "."};

std::string mutate(std::string bytes, Rng& rng) {
  if (rng.below(4) == 0) bytes.resize(rng.below(bytes.size() + 1));
  for (uint64_t i = rng.below(6) + 1; i > 0 && !bytes.empty(); --i) {
    const uint64_t at = rng.below(rng.below(2) ? std::min<uint64_t>(bytes.size(), 700) : bytes.size());
    switch (rng.below(5)) {
      case 0: bytes[at] = static_cast<char>(rng.next()); break;
      case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1u << rng.below(8))); break;
      case 2: {
        const std::string_view word = kWords[rng.below(std::size(kWords))];
        bytes.replace(at, rng.below(word.size() + 1), word);
        break;
      }
      case 3: bytes.erase(at, rng.below(20) + 1); break;
      default: bytes.insert(at, bytes.substr(rng.below(bytes.size()), rng.below(40)));
    }
  }
  return bytes;
}

}  // namespace

void expect_result_or_error(const NamedTarget& target, const std::vector<std::string>& files, bool some_pass) {
  SCOPED_TRACE(target.name);
  Rng rng(4, hash_name(target.name));
  int64_t good = 0, taken = 0, refused = 0;
  for (const std::string& file : files) {
    good += target.target(file);
    const int count = file.size() > 100'000 ? rounds() / 4 + 1 : rounds() * 4;
    for (int i = 0; i < count; ++i) (target.target(mutate(file, rng)) ? taken : refused) += 1;
  }
  EXPECT_GT(good, 0);
  EXPECT_GT(refused, 0);
  EXPECT_TRUE(taken > 0 || !some_pass);
}

std::vector<std::string> corpus(const std::string& target) {
  std::vector<std::string> paths, files;
  for (const auto& entry : std::filesystem::directory_iterator(testing::source_path("tests/fuzz/corpus/") + target))
    paths.push_back(entry.path());
  std::ranges::sort(paths);
  for (const std::string& path : paths) {
    std::ifstream file(path, std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return files;
}

}  // namespace tessera::fuzz
