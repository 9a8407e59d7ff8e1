#include "train/step/step_state.h"

#include <utility>

#include "recipe/teacher.h"
#include "train/step/step.h"

namespace tessera::train {

StepState::StepState(std::shared_ptr<pjrt::Client> client, const state::StateLayout& layout)
    : client_(std::move(client)), layout_(layout) {}

void StepState::take_teacher(recipe::Recipe& recipe) {
  if (!recipe.teacher) return;
  teacher_ = state::to_device(recipe.teacher->layout, recipe.teacher->params, *client_);
  recipe.teacher.reset();
}

std::vector<state::Moments> StepState::draw(const pjrt::Executable& init_program, int64_t seed,
                                            const state::HostArrays& given) {
  const auto key = seed_key(static_cast<uint64_t>(seed));
  state::DeviceArrays rng = state::replicate(*client_, layout_.mesh, key.data(), {DType::kU32, {2}});
  const std::vector<float> measured = replace(init_program.execute(state::argument_lists(rng, 1))).to_host<float>();
  std::vector<state::Moments> moments;
  for (size_t i = 0; i < layout_.params; ++i) moments.push_back({measured[2 * i], measured[2 * i + 1]});
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i].size() == 0) continue;
    state::put_entry(layout_, i, given[i], *client_, arrays_);
    if (layout_.averages > 0) state::put_entry(layout_, layout_.average_index() + i, given[i], *client_, arrays_);
    moments[i] = state::moments_of(given[i]);
  }
  return moments;
}

void StepState::read(const state::ReadBox& read) {
  arrays_ = state::to_device(layout_, layout_.entries.size(), read, *client_);
}

state::ArgumentLists StepState::arguments(DeviceBatch& batch, state::DeviceArrays& numbers, state::DeviceArrays* votes) {
  state::ArgumentLists lists = state::argument_lists(arrays_, layout_.entries.size(), teacher_.empty() ? nullptr : &teacher_);
  state::append_arguments(lists, batch.arguments());
  if (votes) state::append_arguments(lists, *votes);
  state::append_arguments(lists, numbers);
  return lists;
}

pjrt::Buffer StepState::step(const pjrt::Executable& train_program, const state::ArgumentLists& arguments) {
  return replace(train_program.execute(arguments));
}

// The last result of each device is what was measured, and is the same on all.
pjrt::Buffer StepState::replace(state::DeviceArrays results) {
  pjrt::Buffer measured = std::move(state::own_list(results).back());
  for (std::vector<pjrt::Buffer>& list : results) {
    if (!list.empty()) list.pop_back();
  }
  arrays_ = std::move(results);
  state::name_entries(layout_, arrays_);
  return measured;
}

}  // namespace tessera::train
