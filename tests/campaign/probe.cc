// What the campaign asks our own readers, many times in one process. Prints one JSON object a line.
//
//   campaign_probe latest                        for each directory of checkpoints named on stdin: what is found in it
//   campaign_probe damage SEED COUNT CHECKPOINT  COUNT damaged copies of the checkpoint: each must be refused, and passed over
//   for
//                                                the whole one before it
//   campaign_probe images SEED COUNT FOLDER      COUNT damaged copies of the image files in the folder: each must give pixels
//   or
//                                                a reason; the longest time and the peak of memory
//   campaign_probe parsers SEED COUNT CORPUS     COUNT damaged copies of the files of the fuzzers' corpus, each to its parser

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/commit.h"
#include "fuzz/targets.h"
#include "image/codec/decode.h"
#include "store/encoding/crc32c.h"
#include "store/memory_files.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void print(const Json& json) { std::cout << json.dump() << std::endl; }

// Of everything that a run continues from.
std::string sum_of(const checkpoint::LoadedCheckpoint& loaded) {
  uint32_t crc = store::crc32c(store::as_bytes(loaded.state_json));
  for (const auto& [name, array] : loaded.arrays) {
    crc = store::crc32c(store::as_bytes(name), crc);
    for (const checkpoint::StoredPiece& piece : array.pieces) crc = store::crc32c(piece.data, crc);
  }
  return store::crc32c_text(crc);
}

int latest() {
  for (std::string directory; std::getline(std::cin, directory);) {
    try {
      const checkpoint::LatestCheckpoint found = checkpoint::find_latest(directory);
      if (found.checkpoint) {
        print({{"step", found.checkpoint->step}, {"sum", sum_of(*found.checkpoint)}});
      } else {
        print({{"step", -1}});
      }
    } catch (const Error& error) {
      print({{"error", error.message()}});
    }
  }
  return 0;
}

using Files = std::vector<std::pair<std::string, std::string>>;  // name, content

Files files_of(const fs::path& directory) {
  Files files;
  for (const auto& entry : fs::directory_iterator(directory)) {
    files.emplace_back(entry.path().filename().string(), read_file(entry.path()));
  }
  std::sort(files.begin(), files.end());
  return files;
}

void put_files(testing::MemoryFiles& disk, const std::string& directory, const Files& files) {
  disk.make_directories(directory);
  for (const auto& [name, content] : files) disk.create(store::join_path(directory, name))->write(store::as_bytes(content));
}

// One damage: bits turned over, a file cut, lengthened, emptied, missing, or another's in its place.
void damage(Files& files, Rng& rng) {
  auto& [name, content] = files[rng.below(files.size())];
  const auto anywhere = [&] { return rng.below(std::max<uint64_t>(1, content.size())); };
  switch (rng.below(8)) {
    case 0: content.resize(anywhere()); return;
    case 1: content += static_cast<char>(rng.next()); return;
    case 2: content.insert(anywhere(), 1, static_cast<char>(rng.next())); return;
    case 3: {
      const auto other = rng.below(files.size());
      if (files[other].second == content) break;
      std::swap(content, files[other].second);
      return;
    }
    default: break;
  }
  for (uint64_t i = rng.below(3) + 1; i > 0; --i) content[anywhere()] ^= static_cast<char>(1u << (i - 1));
}

// A copy in which a byte is added behind the end, say, need not be another checkpoint: what counts is that what is loaded is
// what was saved.
int damage_checkpoint(uint64_t seed, int64_t count, const fs::path& directory) {
  const Files good = files_of(directory);
  const std::string name = directory.filename().string();
  const checkpoint::LoadedCheckpoint whole = checkpoint::load(directory.string());
  const std::string sum = sum_of(whole);
  Rng rng(seed);
  int64_t refused = 0, passed_over = 0, unharmed = 0;
  Json wrong = Json::array();
  for (int64_t i = 0; i < count; ++i) {
    Files files = good;
    damage(files, rng);
    testing::MemoryFiles disk;
    put_files(disk, "c/" + name, files);
    try {
      const checkpoint::LoadedCheckpoint loaded = checkpoint::load("c/" + name, disk);
      (sum_of(loaded) == sum && loaded.step == whole.step ? ++unharmed : (wrong.push_back(i), 0));
      continue;
    } catch (const Error& error) {
      ++refused;
    }
    // Among others the one before is what a run continues from; here the same arrays, as a checkpoint alone in its directory.
    if (i % 16 != 0) continue;
    testing::MemoryFiles both;
    put_files(both, "c/" + name, files);
    try {
      checkpoint::find_latest("c", both);
      wrong.push_back(i);  // all are damaged: that must be said
    } catch (const Error&) {
      ++passed_over;
    }
  }
  print({{"tried", count}, {"refused", refused}, {"unharmed", unharmed}, {"all_damaged_said", passed_over}, {"wrong", wrong}});
  return wrong.empty() ? 0 : 1;
}

std::string mutant(std::string file, Rng& rng) {
  if (file.empty()) return file;
  if (rng.below(4) == 0) file.resize(rng.below(file.size()) + 1);
  // Headers are short and matter most.
  const uint64_t header = std::min<uint64_t>(file.size(), 512);
  for (uint64_t i = rng.below(8) + 1; i > 0; --i) {
    const uint64_t at = rng.below(rng.below(2) ? header : file.size());
    switch (rng.below(4)) {
      case 0: file[at] = static_cast<char>(0xff); break;
      case 1: file[at] = static_cast<char>(rng.next()); break;
      case 2: {  // a stretch twice
        const uint64_t size = std::min<uint64_t>(rng.below(256), file.size() - at);
        file.insert(at, file.substr(at, size));
        break;
      }
      default: file[at] = static_cast<char>(file[at] ^ (1 << rng.below(8)));
    }
  }
  return file;
}

int64_t peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{1024} * usage.ru_maxrss;
}

int damage_images(uint64_t seed, int64_t count, const fs::path& folder) {
  std::vector<std::string> files;
  std::vector<fs::path> paths;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) files.push_back(read_file(path));
  if (files.empty()) throw usage_error("no files in " + folder.string());
  Rng rng(seed);
  image::Decoder decoder;
  image::Image image;
  int64_t decoded = 0, refused = 0;
  double longest = 0;
  const int64_t before = peak_bytes();
  for (int64_t i = 0; i < count; ++i) {
    const std::string bytes = mutant(files[rng.below(files.size())], rng);
    const auto start = Clock::now();
    const auto failed = decoder.decode({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, image);
    longest = std::max(longest, std::chrono::duration<double>(Clock::now() - start).count());
    if (failed && failed->reason.empty()) throw InternalError("a file is refused without a reason");
    ++(failed ? refused : decoded);
  }
  print({{"tried", count},
         {"decoded", decoded},
         {"refused", refused},
         {"longest_seconds", longest},
         {"memory_bytes", peak_bytes() - before}});
  return 0;
}

int damage_parsers(uint64_t seed, int64_t count, const fs::path& corpus) {
  std::vector<fuzz::NamedTarget> targets;
  for (const auto* list : {&fuzz::data_targets(), &fuzz::index_targets(), &fuzz::pp_targets(), &fuzz::checkpoint_targets(),
                           &fuzz::config_targets(), &fuzz::models_targets(), &fuzz::train_targets(), &fuzz::report_targets()}) {
    targets.insert(targets.end(), list->begin(), list->end());
  }
  Rng rng(seed);
  for (size_t t = 0; t < targets.size(); ++t) {
    const fs::path folder = corpus / targets[t].name;
    if (!fs::is_directory(folder)) continue;
    Files files = files_of(folder);
    if (files.empty()) continue;
    const int64_t share = count / static_cast<int64_t>(targets.size()) + 1;
    int64_t taken = 0;
    double longest = 0;
    for (int64_t i = 0; i < share; ++i) {
      const std::string bytes = mutant(files[rng.below(files.size())].second, rng);
      const auto start = Clock::now();
      taken += targets[t].target(bytes);
      longest = std::max(longest, std::chrono::duration<double>(Clock::now() - start).count());
    }
    print({{"parser", targets[t].name}, {"tried", share}, {"refused", share - taken}, {"longest_seconds", longest}});
  }
  return 0;
}

int run(const std::vector<std::string>& args) {
  const auto number = [&](size_t i) { return std::strtoll(args[i].c_str(), nullptr, 10); };
  if (args.size() == 1 && args[0] == "latest") return latest();
  if (args.size() == 4) {
    const auto seed = static_cast<uint64_t>(number(1));
    if (args[0] == "damage") return damage_checkpoint(seed, number(2), args[3]);
    if (args[0] == "images") return damage_images(seed, number(2), args[3]);
    if (args[0] == "parsers") return damage_parsers(seed, number(2), args[3]);
  }
  std::cerr << "campaign_probe latest | damage SEED COUNT CHECKPOINT | images SEED COUNT FOLDER | parsers SEED COUNT CORPUS\n";
  return 2;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  try {
    return tessera::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
