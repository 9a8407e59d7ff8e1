#include "host/units/scratch.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "host/units/parallel_for.h"

namespace tessera::host {
namespace {

using Block = Scratch::Block;

Block new_block(int64_t bytes) {
  Block block;
  block.bytes = divided_up(bytes, Scratch::kAlign) * Scratch::kAlign;
  block.memory.reset(std::aligned_alloc(Scratch::kAlign, static_cast<size_t>(block.bytes)));
  if (!block.memory) throw std::bad_alloc();
  return block;
}

// Blocks that no call uses.
class FreeBlocks {
 public:
  // A call within a call asks for another block: a small request leaves the large ones alone.
  static constexpr int64_t kMaxTimes = 4;

  // The smallest that fits. Where none does, the largest of the smaller ones is replaced.
  Block take(int64_t bytes) {
    Block replaced;
    {
      const std::scoped_lock lock(mutex_);
      const auto fits = std::lower_bound(blocks_.begin(), blocks_.end(), bytes, smaller);
      if (fits != blocks_.end() && fits->bytes <= kMaxTimes * std::max(bytes, Scratch::kAlign)) return remove(fits);
      if (fits != blocks_.begin()) replaced = remove(fits - 1);
    }
    replaced = {};  // before there is another
    return new_block(bytes);
  }

  void add(Block block) {
    const std::scoped_lock lock(mutex_);
    const auto place = std::lower_bound(blocks_.begin(), blocks_.end(), block.bytes, smaller);
    blocks_.insert(place, std::move(block));
  }

 private:
  static bool smaller(const Block& block, int64_t bytes) { return block.bytes < bytes; }

  Block remove(std::vector<Block>::iterator at) {
    Block block = std::move(*at);
    blocks_.erase(at);
    return block;
  }

  std::mutex mutex_;
  std::vector<Block> blocks_;  // by size
};

// Never destroyed: a plugin's threads may outlast everything.
FreeBlocks& free_blocks() {
  static auto* const blocks = new FreeBlocks;
  return *blocks;
}

}  // namespace

Scratch::~Scratch() {
  if (!shared_ || !block_.memory) return;
  try {
    free_blocks().add(std::move(block_));
  } catch (const std::bad_alloc&) {  // no room to keep it: it is freed
  }
}

void Scratch::grow(int64_t bytes) {
  Block smaller = std::exchange(block_, {});
  if (!shared_) {
    smaller = {};  // before there is another
    block_ = new_block(bytes);
    return;
  }
  if (smaller.memory) free_blocks().add(std::move(smaller));
  block_ = free_blocks().take(bytes);
}

}  // namespace tessera::host
