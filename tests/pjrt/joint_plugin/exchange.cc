#include "exchange.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <thread>
#include <utility>

#include "inner.h"

namespace tessera::joint {
namespace {

namespace fs = std::filesystem;

void write_whole(const std::string& path, const std::string& content) {
  const std::string half = path + "~";
  std::ofstream file(half, std::ios::binary);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  file.close();
  if (!file) throw Failure(PJRT_Error_Code_INTERNAL, fmt::format("can't write {}", half));
  fs::rename(half, path);
}

std::string read_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void await_file(const std::string& path, int64_t node) {
  const double patience = std::stod(environment("TESSERA_JOINT_PATIENCE", "120"));
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(patience);
  while (!fs::exists(path)) {
    if (std::chrono::steady_clock::now() >= end) {
      throw Failure(PJRT_Error_Code_UNAVAILABLE, fmt::format("process {} did not come within {} s", node, patience));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

std::string environment(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

Exchange::Exchange(KeyValues store, int64_t node) : store_(store), node_(node) {}

// The store is asked once the nodes first run something together, as the CUDA plugin asks it for NCCL's unique ids. A token that is
// drawn each time keeps files apart that a killed run left in the directory.
Exchange::Clique& Exchange::clique(const std::vector<int64_t>& nodes) {
  if (const auto found = cliques_.find(nodes); found != cliques_.end()) return found->second;
  const std::string key = fmt::format("clique/cuda/{}", fmt::join(nodes, ","));
  std::string token;
  if (node_ == nodes.front()) {
    std::random_device random;
    token = fmt::format("{:08x}{:08x}", random(), random());
    store_.put(key, token);
  } else {
    token = store_.get(key);
  }
  return cliques_[nodes] = {.token = std::move(token)};
}

std::string Exchange::path(const Clique& clique, int64_t call, int64_t node) const {
  return fmt::format("{}/{}.{}.{}", environment("TESSERA_JOINT_DIRECTORY", "."), clique.token, call, node);
}

std::map<int64_t, std::string> Exchange::swap(const std::vector<int64_t>& nodes, const std::string& message) {
  Clique& ours = clique(nodes);
  const int64_t call = ours.calls++;
  write_whole(path(ours, call, node_), message);
  std::map<int64_t, std::string> all;
  for (const int64_t node : nodes) {
    if (node == node_) {
      all[node] = message;
      continue;
    }
    await_file(path(ours, call, node), node);
    all[node] = read_whole(path(ours, call, node));
  }
  // Who has written this message has read those of the call before.
  if (call > 0) fs::remove(path(ours, call - 1, node_));
  return all;
}

std::string Exchange::last(const std::vector<int64_t>& nodes) const {
  const Clique& ours = cliques_.at(nodes);
  return fmt::format("{}.{}", ours.token, ours.calls - 1);
}

}  // namespace tessera::joint
