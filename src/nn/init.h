#pragma once
// Initial values of parameters: what is drawn, as data, and the graph that draws it. Initialisation runs on the device as one
// compiled program, so that the values do not depend on mesh or host.

#include <cstdint>
#include <string>

#include "base/shape.h"
#include "ir/graph.h"

namespace tessera::nn {

// A distribution. Fans are those of one layer's array [.., in, out]: the dimensions before the last two (a convolution's
// window) multiply both, the stacked axis of a scanned block counts for neither.
struct Init {
  enum class Kind {
    kConstant,         // value
    kNormal,           // N(0, value^2)
    kTruncatedNormal,  // value times a standard normal cut to [-2, 2] (its standard deviation is 0.88 value)
    kUniform,          // [-value, value]
    kLecunNormal,      // truncated normal whose standard deviation, after the cut, is sqrt(1 / fan_in)
    kXavierUniform,    // [-a, a], a = sqrt(6 / (fan_in + fan_out)), fan_out divided by `parts`
  };
  Kind kind = Kind::kConstant;
  double value = 0;
  int64_t parts = 1;

  bool operator==(const Init&) const = default;
};

namespace init {
inline Init zeros() { return {Init::Kind::kConstant, 0}; }
inline Init ones() { return {Init::Kind::kConstant, 1}; }
inline Init constant(double value) { return {Init::Kind::kConstant, value}; }
inline Init normal(double std) { return {Init::Kind::kNormal, std}; }
inline Init truncated_normal(double std) { return {Init::Kind::kTruncatedNormal, std}; }
inline Init uniform(double limit) { return {Init::Kind::kUniform, limit}; }
inline Init lecun_normal() { return {Init::Kind::kLecunNormal}; }
// `parts`: how many matrices stand side by side in one kernel (3 in a fused qkv), each with a fan of its own.
inline Init xavier_uniform(int64_t parts = 1) { return {Init::Kind::kXavierUniform, 0, parts}; }
}  // namespace init

struct ParamSpec;

// The initial value of a parameter, f32, as nodes of the current graph. `key` (u32[2]) is the run's: the parameter's name is
// folded in here, so that adding a parameter changes no other one.
ir::Value initial_value(const ParamSpec& spec, ir::Value key);

// "zeros", "normal(0.02)", "xavier_uniform(parts=3)": for tables of parameters.
std::string describe(const Init& init);

}  // namespace tessera::nn
