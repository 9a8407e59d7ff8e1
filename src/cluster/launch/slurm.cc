// slurm:N: a job of N nodes with one process on each, as an sbatch file.

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "base/text/shell.h"
#include "cluster/launch/launcher.h"

namespace tessera::launch {
namespace {

// Who ran so long does not count as started again in a row, as in cluster/launch/processes/supervise.h.
constexpr int kSteady = 3600;  // seconds
// Nor who ran so long until its time was up: it came beyond its start.
constexpr int kBegun = 600;  // seconds

constexpr const char* kKeyOfJob = R"sh(
# Who has this key may come to the etcd of this job.
TESSERA_COORDINATOR_KEY="$({} launch key)" || exit 4
export TESSERA_COORDINATOR_KEY
)sh";
// {0}: the name of a variable.
constexpr const char* kPassedOn =
    ": \"${{{0}?is not set here: submit with it in the environment, without --export=NONE}}\"; export {0}\n";
// The nodes reach each other, so that etcd runs on the first of them.
constexpr const char* kEtcdOfJob = R"(
# The processes meet at an etcd on this node, the first one.
export port=$((20000 + SLURM_JOB_ID % 5000)); peer=$((port + 5000))
data=$(mktemp -d); key="$data/key.pem"; certificate="$data/certificate.pem"
(umask 077; echo "$TESSERA_COORDINATOR_KEY" > "$key"; sed -n '/BEGIN CERTIFICATE/,$p' "$key" > "$certificate")
etcd --name tessera --data-dir "$data" --logger zap --log-level error \
  --listen-client-urls "https://0.0.0.0:$port" --advertise-client-urls "https://$(hostname):$port" \
  --client-cert-auth --key-file "$key" --cert-file "$certificate" --trusted-ca-file "$certificate" \
  --listen-peer-urls "http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" \
  --initial-cluster "tessera=http://127.0.0.1:$peer" &
etcd=$!
trap 'kill $etcd; rm -rf "$data"' EXIT
until (: </dev/tcp/127.0.0.1/$port) 2>/dev/null; do kill -0 $etcd || exit 4; sleep 0.1; done
)";
// The tasks know this node's address as srun says it to them.
constexpr const char* kTask = R"(sh -c 'TESSERA_COORDINATOR_ADDRESS=$SLURM_LAUNCH_NODE_IPADDR:$port exec "$@"' tessera )";

// {0}: how long before the time limit.
constexpr const char* kTimeIsUp = R"(
# Slurm says TERM {0} s before the time limit: the processes save and end with exit code 75. They warn where a save takes half of
# that.
export TESSERA_SAVE_TIMEOUT={0}
time_is_up=
trap 'time_is_up=yes; scancel --signal=TERM "$SLURM_JOB_ID"' TERM
)";
// {0}: restarts. {1}: the name. {2}: kSteady. {3}: kBegun. scancel sends TERM as the time limit does, but Slurm is done with the
// job before that, and would take it again.
constexpr const char* kWait = R"(srun=$!
wait $srun; code=$?
while kill -0 $srun 2>/dev/null; do wait $srun; code=$?; done

# 75 and what a signal killed go on from the last checkpoint: always when the time was up after {3} s or more, else {0} times
# in a row. The count begins anew after {2} s of running.
count="{1}-$SLURM_JOB_ID.restarts" restarts=0
[ $SECONDS -ge {2} ] || restarts=$(cat "$count" 2>/dev/null || echo 0)
rm -f "$count"
# What scancel ended is not queued again.
state=$(squeue --noheader --format=%T,%r --jobs="$SLURM_JOB_ID" 2>/dev/null)
[ "$state" != COMPLETING,None ] || exit $code
if [ $code -eq 75 ] || [ $code -ge 128 ]; then
  if [ "$time_is_up" ] && [ $SECONDS -ge {3} ]; then
    scontrol requeue "$SLURM_JOB_ID"
  elif [ "$restarts" -lt {0} ]; then
    echo $((restarts + 1)) > "$count" && scontrol requeue "$SLURM_JOB_ID"
  fi
fi
exit $code
)";

// The word as sbatch takes it for one in a line of options: a blank ends it outside of quotes alone, a backslash holds within both
// kinds.
std::string option_word(const std::string& word) {
  if (word.find_first_of(" \t\\'\"#") == std::string::npos) return word;
  std::string text = "\"";
  for (const char c : word) text += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return text + "\"";
}

Plan plan_slurm(const Request& request) {
  const std::string name = run_name(request);
  const int64_t save_timeout = request.save_timeout.value_or(kSaveTimeout);
  std::string text = fmt::format(R"(#!/bin/bash
#SBATCH --job-name={0}
#SBATCH --nodes={1}
#SBATCH --ntasks-per-node=1
#SBATCH --chdir={2}
#SBATCH --output={0}-%j.log
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:TERM@{3}
)",
                                 name, process_count(request, kSlurm), option_word(request.directory), save_timeout);
  for (const std::string& option : request.options) text += fmt::format("#SBATCH {}\n", option);
  if (!request.environment.empty())
    text += "\n# Of --env. Their values are not in this file: sbatch passes the environment on.\n";
  for (const Variable& variable : request.environment) text += fmt::format(kPassedOn, variable.name);
  const bool named = !request.coordinator.address.empty();
  const std::vector<std::string> words = program_words(request);
  text += named ? fmt::format("\nexport TESSERA_COORDINATOR_ADDRESS={}\n", shell_quoted(request.coordinator.address))
                : fmt::format(kKeyOfJob, command_line({words[0]})) + kEtcdOfJob;
  text += fmt::format(kTimeIsUp, save_timeout);
  text += fmt::format("\nsrun --kill-on-bad-exit=0 {}{} &\n", named ? "" : kTask, command_line(words));
  text += fmt::format(kWait, request.restarts, name, kSteady, kBegun);
  Plan plan;
  plan.written = std::move(text);
  plan.submit = {"sbatch"};
  return plan;
}

// sbatch passes its environment on to the job. The file for it shows no key and no value of --env.
Exit run_slurm(const Request& request) {
  std::vector<Variable> environment = request.environment;
  if (!request.coordinator.key.empty()) environment.push_back({"TESSERA_COORDINATOR_KEY", request.coordinator.key});
  return submit(plan_slurm(request), std::move(environment));
}

}  // namespace

const Launcher kSlurm = {
    "slurm",   "slurm:N",        "a job of N nodes, given to sbatch; --option=--time=24:00:00 becomes a line of it",
    "slurm:4", /*copies=*/false, plan_slurm,
    run_slurm};

}  // namespace tessera::launch
