#pragma once
// The state of training on the devices, which each step replaces, and the weights of the teacher that it reads.

#include <cstdint>
#include <memory>
#include <vector>

#include "pjrt/client.h"
#include "pjrt/executable.h"
#include "recipe/recipe.h"
#include "state/device_arrays.h"
#include "state/state.h"
#include "train/step/device_batch.h"

namespace tessera::train {

class StepState {
 public:
  // `layout` is borrowed.
  StepState(std::shared_ptr<pjrt::Client> client, const state::StateLayout& layout);
  // Puts the recipe's teacher on the devices, where it has one, and gives its weights on the host back.
  void take_teacher(recipe::Recipe& recipe);

  // What init_program() draws from `seed`; then each parameter of `given` whose bytes are not empty (by parameter, or nothing
  // at all). Returns the moments of the parameters.
  std::vector<state::Moments> draw(const pjrt::Executable& init_program, int64_t seed, const state::HostArrays& given);
  // Every entry read by `read`.
  void read(const state::ReadBox& read);

  // What train_program() takes, in its order; `votes` where several processes train together.
  state::ArgumentLists arguments(DeviceBatch& batch, state::DeviceArrays& numbers, state::DeviceArrays* votes = nullptr);
  // Makes one step, which takes over the memory of the state. Returns the step's measurements; the devices may still work on
  // them.
  pjrt::Buffer step(const pjrt::Executable& train_program, const state::ArgumentLists& arguments);

  state::DeviceArrays& arrays() { return arrays_; }
  const state::DeviceArrays& arrays() const { return arrays_; }

 private:
  pjrt::Buffer replace(state::DeviceArrays results);

  std::shared_ptr<pjrt::Client> client_;
  const state::StateLayout& layout_;
  state::DeviceArrays teacher_, arrays_;
};

}  // namespace tessera::train
