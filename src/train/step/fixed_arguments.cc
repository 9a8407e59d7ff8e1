#include "train/step/fixed_arguments.h"

#include <algorithm>

namespace tessera::train {

FixedArguments::FixedArguments(const Compiled& program, state::DeviceArrays& arrays, size_t count, size_t first)
    : lists_(state::argument_lists(arrays, count, nullptr, first)) {
  if (!program.prepare) return;
  std::vector<pjrt::Buffer*>& list = lists_.at(0);
  prepared_ = program.prepare->run(list);
  std::vector<pjrt::Buffer*> taken;
  for (const size_t place : program.kept) taken.push_back(list[place]);
  for (pjrt::Buffer& array : prepared_) taken.push_back(&array);
  list = std::move(taken);
}

state::ArgumentLists FixedArguments::with(state::DeviceArrays& more) const {
  state::ArgumentLists lists = lists_;
  state::append_arguments(lists, more);
  return lists;
}

std::vector<pjrt::Buffer*> FixedArguments::with(const std::vector<pjrt::Buffer*>& more) const {
  std::vector<pjrt::Buffer*> list = lists_.at(0);
  list.insert(list.end(), more.begin(), more.end());
  return list;
}

void free_prepared(std::initializer_list<const Compiled*> programs, state::DeviceArrays& arrays) {
  const auto is_read = [&](size_t entry) {
    return std::ranges::any_of(
        programs, [&](const Compiled* program) { return !program->prepare || std::ranges::count(program->kept, entry) > 0; });
  };
  for (size_t i = 0; i < arrays.at(0).size(); ++i) {
    if (!is_read(i)) arrays[0][i] = {};
  }
}

}  // namespace tessera::train
