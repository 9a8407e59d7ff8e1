#include "ir/program/program.h"

#include "base/error.h"
#include "ir/passes/expand_composites.h"
#include "ir/passes/grouped_convolutions.h"
#include "ir/passes/lower.h"
#include "ir/passes/split_fixed.h"
#include "ir/passes/verify.h"

namespace tessera::ir {
namespace {

// An argument that is donated must be what takes its place, in type and in layout: a difference would show as a silent copy.
void check_aliases(const Graph& graph, const EmitOptions& options) {
  for (const auto& [argument, result] : options.aliases) {
    const auto a = static_cast<size_t>(argument), r = static_cast<size_t>(result);
    TESSERA_CHECK(graph.results.at(r).type() == graph.parameters().at(a).type(), "an alias between different types");
    const bool both = !options.argument_specs.empty() && !options.result_specs.empty();
    TESSERA_CHECK(options.argument_specs.empty() == options.result_specs.empty() &&
                      (!both || options.argument_specs.at(a) == options.result_specs.at(r)),
                  "donated argument {} and result {} lie differently", argument, result);
  }
}

}  // namespace

std::unique_ptr<Graph> finish(const Graph& graph, const std::optional<mesh::Mesh>& mesh, const Target* target) {
  std::unique_ptr<Graph> finished = lower(*expand_composites(graph, target), target);
  if (target) finished = target->select_kernels(*finished);
  if (mesh) finished = split_grouped_convolutions(*finished, *mesh);
  verify(*finished);
  return finished;
}

std::string program_text(const Graph& graph, const EmitOptions& options, const Target* target) {
  check_aliases(graph, options);
  return emit(*finish(graph, options.by_device ? std::nullopt : options.mesh, target), options);
}

SplitText split_program_text(const Graph& graph, const EmitOptions& options, size_t fixed, const Target& target) {
  TESSERA_CHECK(!options.mesh, "a program for several devices is not split");
  check_aliases(graph, options);
  const SplitGraph split = split_fixed(target.prepare(*finish(graph, {}, &target), fixed), fixed);
  verify(*split.run);
  EmitOptions run = options;
  const auto more = static_cast<int64_t>(split.run->parameters().size()) - static_cast<int64_t>(graph.parameters().size());
  for (auto& [argument, result] : run.aliases) argument += more;
  SplitText text{.prepare = "", .run = emit(*split.run, run), .kept = split.kept, .donated = {}};
  for (const auto& [argument, result] : run.aliases) text.donated.push_back(argument);
  if (!split.prepare) return text;
  verify(*split.prepare);
  text.prepare = emit(*split.prepare, {.name = "prepare_" + options.name});
  return text;
}

}  // namespace tessera::ir
