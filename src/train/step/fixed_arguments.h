#pragma once
// The parameters of a model as the calls of a program take them, while they stay the same (Program::prepare).

#include <cstddef>
#include <initializer_list>
#include <vector>

#include "pjrt/buffer.h"
#include "state/device_arrays.h"
#include "train/step/compile.h"

namespace tessera::train {

class FixedArguments {
 public:
  // `count` entries of `arrays` from `first` on. Prepares what the program wants prepared. Entries that `program.kept` names are
  // read by calls and must outlive this.
  FixedArguments(const Compiled& program, state::DeviceArrays& arrays, size_t count, size_t first = 0);

  // The arguments of a call, which goes on with what `more` has for each device.
  state::ArgumentLists with(state::DeviceArrays& more) const;
  // The same of a program on one device.
  std::vector<pjrt::Buffer*> with(const std::vector<pjrt::Buffer*>& more) const;

 private:
  std::vector<pjrt::Buffer> prepared_;
  state::ArgumentLists lists_;
};

// Frees the entries that no call of these programs reads, once FixedArguments were made for each of them.
void free_prepared(std::initializer_list<const Compiled*> programs, state::DeviceArrays& arrays);

}  // namespace tessera::train
