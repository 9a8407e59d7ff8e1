#include "data/text/merges.h"

#include <functional>
#include <queue>
#include <tuple>

namespace tessera::data {
namespace {

uint64_t key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

// Letters of a word as a list; a merged one is in the place of its first letter.
struct Letter {
  int32_t id, previous, next;
  bool gone = false;
};

}  // namespace

void Merges::add(int32_t left, int32_t right, int32_t merged) { merges_[key(left, right)] = {next_rank_++, merged}; }

const Merges::Merge* Merges::find(int32_t left, int32_t right) const {
  const auto found = merges_.find(key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void Merges::apply(std::vector<int32_t>& word) const {
  const auto count = static_cast<int32_t>(word.size());
  std::vector<Letter> letters;
  for (int32_t i = 0; i < count; ++i) letters.push_back({word[static_cast<std::size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1});
  const auto at = [&](int32_t i) -> Letter& { return letters[static_cast<std::size_t>(i)]; };
  using Candidate = std::tuple<int32_t, int32_t, int32_t, int32_t>;  // rank, place, the ids it was found for
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto consider = [&](int32_t i) {
    if (i < 0 || at(i).next < 0) return;
    const int32_t right = at(at(i).next).id;
    if (const Merge* merge = find(at(i).id, right)) queue.emplace(merge->rank, i, at(i).id, right);
  };
  for (int32_t i = 0; i < count; ++i) consider(i);
  while (!queue.empty()) {
    const auto [rank, i, left, right] = queue.top();
    queue.pop();
    Letter& letter = at(i);
    if (letter.gone || letter.id != left || letter.next < 0 || at(letter.next).id != right) continue;  // changed meanwhile
    Letter& second = at(letter.next);
    letter.id = find(left, right)->id;
    second.gone = true;
    letter.next = second.next;
    if (letter.next >= 0) at(letter.next).previous = i;
    consider(letter.previous);
    consider(i);
  }
  word.clear();
  for (int32_t i = count > 0 ? 0 : -1; i >= 0; i = at(i).next) word.push_back(at(i).id);
}

}  // namespace tessera::data
