#include "train/loop/stop_votes.h"

#include <array>
#include <utility>

namespace tessera::train {

state::DeviceArrays* StopVotes::arguments() {
  if (!run_.processes.several()) return nullptr;
  if (!votes_.empty() && voted_ == run_.stop.wanted()) return &votes_;
  voted_ = run_.stop.wanted();
  const auto index = static_cast<int32_t>(run_.processes.index());
  std::array<float, kVotes> votes{};
  votes[kVoteStop] = voted_ == Exit::kDone ? 0 : 1;
  votes[kVoteInterrupt] = voted_ == Exit::kInterrupted ? 1 : 0;
  votes_ = state::replicate(*run_.client, run_.layout.mesh, &index, {DType::kI32, {}});
  state::DeviceArrays wanted = state::replicate(*run_.client, run_.layout.mesh, votes.data(), {DType::kF32, {kVotes}});
  for (size_t d = 0; d < votes_.size(); ++d) votes_[d].push_back(std::move(wanted[d][0]));
  return &votes_;
}

void StopVotes::take_kept() {
  if (kept_) take(kept_->data());
  kept_.reset();
}

void StopVotes::take(const float* sums) {
  if (sums[kVoteStop] > 0) run_.stop.agree(sums[kVoteInterrupt] > 0 ? Exit::kInterrupted : Exit::kPreempted);
}

}  // namespace tessera::train
