#pragma once
// Composites: named computations that a layer emits as a whole, so that a machine may have one kernel for all of it. A composite
// carries its decomposition into ops: it runs without such a kernel, and has a gradient, which is a composite too.

#include <any>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ir/attributes.h"
#include "ir/graph.h"
#include "ir/program/target.h"

namespace tessera::ir {

class Composite {
 public:
  // Of the operands, in ops. It outlives the trace: it captures numbers, and no scope of a model.
  using Decomposition = std::function<Values(const Values&)>;

  // `attributes`: a struct that encode() takes. ir/composites.h lists names, attributes, operands and results.
  template <class T>
  Composite(std::string name, const T& attributes, Decomposition decomposition)
      : name_(std::move(name)),
        attributes_(attributes),
        encoded_(encode(attributes)),
        decomposition_(std::move(decomposition)) {}

  const std::string& name() const { return name_; }
  // Those it was made with, of the same type.
  template <class T>
  const T& attributes() const {
    return std::any_cast<const T&>(attributes_);
  }
  const AttrDict& encoded() const { return encoded_; }
  Values decompose(const Values& operands) const { return decomposition_(operands); }

  // `<name>_gradient` with the same attributes: its operands, then the cotangents of the results ->
  // the cotangents of the operands, which are all floats. Its decomposition is the gradient of this one's.
  Composite gradient(size_t operands) const;

 private:
  std::string name_;
  std::any attributes_;
  AttrDict encoded_;
  Decomposition decomposition_;
};

// The results of a composite: a node where the target has a kernel for it, which the target's pass then finds in the finished
// graph; else its decomposition. That is decided here and not in a pass, since the gradient of a scan can save the results of
// ops, but nothing from inside a node.
Values composite(const Target* target, const Composite& composite, const Values& operands);
// The node, whoever takes it. Where nobody does, it becomes its decomposition later (ir/passes/expand_composites.h).
Values composite_node(const Composite& composite, const Values& operands);

}  // namespace tessera::ir
