// jobset:N: N pods of a Kubernetes JobSet (jobset.x-k8s.io/v1alpha2), given to kubectl.

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "cluster/group/run_key.h"
#include "cluster/launch/launcher.h"
#include "cluster/launch/tpu.h"

namespace tessera::launch {
namespace {

// A text or a list of texts as YAML takes it: JSON is YAML.
std::string yaml(const nlohmann::json& value) { return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace); }

// {0}: the name. {1}: the key.
constexpr const char* kSecret = R"(# Who has this key may come to the etcd where the processes meet.
apiVersion: v1
kind: Secret
metadata:
  name: {0}-coordinator
stringData:
  key.pem: {1}
---
)";

// {0}: the name. {1}: the variables, an object.
constexpr const char* kEnvironment = R"(# The values of --env.
apiVersion: v1
kind: Secret
metadata:
  name: {0}-environment
stringData: {1}
---
)";

// {0}: the name. {1}: restarts.
constexpr const char* kHead = R"(apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: {0}
spec:
  successPolicy:
    operator: All
    targetReplicatedJobs: [workers]
  failurePolicy:
    maxRestarts: {1}
    rules:
    # Another start goes on from exit code 75, a process that was killed, and a node that is taken away.
    - name: goesOn
      action: RestartJobSet
      onJobFailureReasons: [PodFailurePolicy]
    # And would end with any other exit code of a worker as well.
    - name: ends
      action: FailJobSet
      targetReplicatedJobs: [workers]
  replicatedJobs:
)";

// {0}: the image. {1}: the name. etcd takes certificates of authorities from a file without keys.
constexpr const char* kEtcd = R"(  # Where the processes meet. It ends with the workers.
  - name: coordinator
    replicas: 1
    template:
      spec:
        backoffLimit: 0
        completions: 1
        parallelism: 1
        completionMode: Indexed
        template:
          spec:
            restartPolicy: Never
            containers:
            - name: etcd
              image: {0}
              command:
              - sh
              - -c
              - |
                sed -n '/BEGIN CERTIFICATE/,$p' /coordinator/key.pem > /tmp/certificate.pem
                exec etcd --name tessera --data-dir /tmp/etcd --logger zap --log-level error \
                  --listen-client-urls https://0.0.0.0:2379 --advertise-client-urls https://0.0.0.0:2379 \
                  --client-cert-auth --key-file /coordinator/key.pem --cert-file /tmp/certificate.pem \
                  --trusted-ca-file /tmp/certificate.pem
              volumeMounts:
              - name: key
                mountPath: /coordinator
            volumes:
            - name: key
              secret:
                secretName: {1}-coordinator
)";

// {0}: number of pods. {1}: seconds.
constexpr const char* kWorkers = R"(  - name: workers
    replicas: 1
    template:
      spec:
        backoffLimit: 0
        completions: {0}
        parallelism: {0}
        completionMode: Indexed
        podFailurePolicy:
          rules:
          - action: FailJob
            onExitCodes:
              containerName: tessera
              operator: In
              values: [75, 137, 143]
          - action: FailJob
            onPodConditions:
            - type: DisruptionTarget
              status: "True"
        template:
          spec:
            restartPolicy: Never
            terminationGracePeriodSeconds: {1}  # for the last checkpoint
)";

// {0}: image. {1}: command. {2}: number of processes. {3}: the coordinator. {4}: seconds. A JobSet makes its jobs anew for each
// start, so that the job's UID tells the starts apart, and JobSets that share an etcd.
constexpr const char* kContainer = R"(            containers:
            - name: tessera
              image: {0}
              command: {1}
              env:
              - name: TESSERA_NUM_PROCESSES
                value: "{2}"
              - name: TESSERA_COORDINATOR_ADDRESS
                value: {3}
              - name: TESSERA_RUN_ID
                valueFrom:
                  fieldRef:
                    fieldPath: metadata.labels['batch.kubernetes.io/controller-uid']
              - name: TESSERA_SAVE_TIMEOUT
                value: "{4}"
)";

// {0}: the name.
constexpr const char* kEnvironmentOfContainer = R"(              envFrom:
              - secretRef:
                  name: {0}-environment
)";

// {0}: the name.
constexpr const char* kKeyVariable = R"(              - name: TESSERA_COORDINATOR_KEY
                valueFrom:
                  secretKeyRef:
                    name: {0}-coordinator
                    key: key.pem
)";

struct Volume {
  std::string claim, path;
};

std::optional<Volume> volume_of(const Request& request) {
  if (request.volume.empty()) return std::nullopt;
  const size_t colon = request.volume.find(":/");
  if (colon == std::string::npos || colon == 0) {
    throw usage_error(fmt::format("`--volume` takes CLAIM:DIR, and is \"{}\"", request.volume), {}, "--volume shared:/shared");
  }
  return Volume{request.volume.substr(0, colon), request.volume.substr(colon + 1)};
}

std::optional<TpuSlice> slice_of(const Request& request) {
  return request.topology.empty() ? std::nullopt : std::optional(find_slice(request.topology));
}

// What each pod asks the cluster for; nothing where that is its processors alone. A pod has no GPU that it didn't ask for.
std::string devices_of(const Request& request, const std::optional<TpuSlice>& slice) {
  const bool tpus = slice || request.accelerator == "tpu";
  if (request.pod_gpus && tpus)
    throw usage_error("the pods of TPUs have no GPUs", "--gpus-per-node", "leave it, or --topology and --platform tpu, out");
  if (request.accelerator == "cuda" && !request.pod_gpus) {
    throw usage_error("the pods need GPUs, and nothing says how many each has", "--platform cuda",
                      "--gpus-per-node 8, before the --, where the nodes have eight");
  }
  const auto limit = [](const char* what, int64_t count) {
    return fmt::format("              resources:\n                limits:\n                  {}: {}\n", what, count);
  };
  if (request.pod_gpus) return limit("nvidia.com/gpu", *request.pod_gpus);
  return slice ? limit("google.com/tpu", slice->chips_of_a_host()) : "";
}

int64_t pods_of(const Request& request, const std::optional<TpuSlice>& slice) {
  if (!slice) return process_count(request, kJobset);
  if (request.where.empty()) return slice->hosts;
  const int64_t count = process_count(request, kJobset);
  if (count != slice->hosts) {
    throw usage_error(fmt::format("{} has {} hosts, and jobset:{} names another number", request.topology, slice->hosts, count),
                      {}, "leave the number out: jobset --topology " + request.topology);
  }
  return count;
}

// `key`: of the etcd where the processes meet; empty: it asks for none.
std::string text_of(const Request& request, const std::string& key) {
  if (request.image.empty()) {
    throw usage_error(
        "the containers need an image: `--image` is missing", {},
        "--image REGISTRY/NAME:TAG, with the program, its plugin and etcd in it; docs/devices/pod.md says how it is made");
  }
  const auto volume = volume_of(request);
  const std::optional<TpuSlice> slice = slice_of(request);
  const std::string devices = devices_of(request, slice);
  const int64_t pods = pods_of(request, slice), save_timeout = request.save_timeout.value_or(kSaveTimeout);
  const std::string name = run_name(request), directory = !request.directory.empty() ? request.directory
                                                          : volume                   ? volume->path
                                                                                     : "";
  Request inside = request;
  if (inside.program.empty()) inside.program = "tessera";

  std::string text = fmt::format(kHead, name, request.restarts);
  if (!request.environment.empty()) {
    nlohmann::json values = nlohmann::json::object();
    for (const Variable& variable : request.environment) values[variable.name] = variable.value;
    text = fmt::format(kEnvironment, name, yaml(values)) + text;
  }
  if (!key.empty()) text = fmt::format(kSecret, name, yaml(key)) + text;
  if (request.coordinator.address.empty()) text += fmt::format(kEtcd, yaml(request.image), name);
  text += fmt::format(kWorkers, pods, save_timeout);
  if (slice) {
    text += fmt::format(
        "            nodeSelector:\n              cloud.google.com/gke-tpu-accelerator: {}\n              "
        "cloud.google.com/gke-tpu-topology: {}\n",
        slice->gke_accelerator, slice->grid);
  }
  const std::string coordinator =
      request.coordinator.address.empty() ? fmt::format("{0}-coordinator-0-0.{0}:2379", name) : request.coordinator.address;
  text += fmt::format(kContainer, yaml(request.image), yaml(program_words(inside)), pods, yaml(coordinator), save_timeout);
  if (!key.empty()) text += fmt::format(kKeyVariable, name);
  if (!request.environment.empty()) text += fmt::format(kEnvironmentOfContainer, name);
  if (!directory.empty()) text += fmt::format("              workingDir: {}\n", yaml(directory));
  text += devices;
  if (volume) {
    text += fmt::format(
        "              volumeMounts:\n              - name: shared\n                mountPath: {}\n            volumes:\n      "
        "      - "
        "name: shared\n              persistentVolumeClaim:\n                claimName: {}\n",
        yaml(volume->path), yaml(volume->claim));
  }
  return text;
}

Plan plan_with(const Request& request, const std::string& key) {
  Plan plan;
  plan.written = text_of(request, key);
  plan.submit = {"kubectl", "apply", "-f", "-"};
  plan.submit.insert(plan.submit.end(), request.options.begin(), request.options.end());
  return plan;
}

bool has_key(const Request& request) { return request.coordinator.address.empty() || !request.coordinator.key.empty(); }

Plan plan_jobset(const Request& request) {
  Plan plan = plan_with(request, has_key(request) ? kKey : "");
  if (request.coordinator.address.empty()) {
    plan.notes = {fmt::format("{} is a key that launch makes, as `tessera launch key` prints one", kKey)};
  } else if (has_key(request)) {
    plan.notes = {fmt::format("{} is what --coordinator-key names", kKey)};
  }
  return plan;
}

Exit run_jobset(const Request& request) {
  std::string key = request.coordinator.key;
  if (key.empty() && has_key(request)) key = group::new_run_key();
  return submit(plan_with(request, key));
}

}  // namespace

const Launcher kJobset = {"jobset",
                          "jobset:N",
                          "N pods of a Kubernetes JobSet, given to kubectl; needs --image",
                          "jobset:4 --image IMAGE",
                          /*copies=*/false,
                          plan_jobset,
                          run_jobset};

}  // namespace tessera::launch
