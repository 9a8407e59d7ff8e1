#pragma once
// Names that Google's tools have for slices of TPUs.

#include <cstdint>
#include <string>

namespace tessera::launch {

struct TpuSlice {
  std::string accelerator_type;  // for gcloud: "v5litepod-256"
  std::string runtime;           // for gcloud: the VM's image
  std::string gke_accelerator;   // of GKE's nodes: "tpu-v5-lite-podslice"
  std::string grid;              // "16x16"
  int64_t chips = 0, hosts = 0;
  int64_t chips_of_a_host() const { return chips / hosts; }
};

// Of "v5e:16x16". A usage Error names the chips that are known.
TpuSlice find_slice(const std::string& topology);

}  // namespace tessera::launch
