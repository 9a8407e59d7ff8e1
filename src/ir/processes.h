#pragma once
// Collectives between processes, for plugins that have none (the CPU's): each process runs a program of its own over its rows of
// the batch, and the program calls functions of ours. Where the plugin has collectives, one mesh spans all processes and none of
// this is used.

#include <cstdint>

#include "ir/ops.h"
#include "mesh/partition.h"

namespace tessera::ir {

// All processes run the same program text; the process's index is an argument.
struct Processes {
  int64_t count = 1;
  Value index;  // i32 scalar; none where there is one process

  bool several() const { return count > 1; }
};

// The sum over all processes of each array, f32, added up in pairs in the order of the processes: the same bytes in each. The cotangent of
// an input is the sum of the cotangents over the processes: the loss is the sum of what each process adds to it. With one
// process, the arrays themselves.
Values sum_over_processes(const Processes& processes, const Values& xs);
// The same of arrays that lie on the mesh of each process as `specs` say: a device sends its part. It has no gradient.
Values sum_over_processes(const Processes& processes, const Values& xs, const mesh::Mesh& mesh,
                          const std::vector<mesh::PartitionSpec>& specs);
Value sum_over_processes(const Processes& processes, Value x);

// [rows, …] -> [count * rows, …]: the rows of all processes, in their order. Differentiable where floats are.
Value gather_over_processes(const Processes& processes, Value x);
// The part of a gathered array that is this process's: [count * rows, …] -> [rows, …].
Value rows_of_process(const Processes& processes, Value x);

// The number of a process's first row, u32, when each has so many; none with one process.
Value first_row(const Processes& processes, int64_t rows);

}  // namespace tessera::ir
