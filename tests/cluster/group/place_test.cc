#include "cluster/group/place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace tessera::group {
namespace {

using ::testing::HasSubstr;

Environment environment(const std::map<std::string, std::string>& values) {
  return [values](const char* name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
}

std::string message_of(const PlaceOptions& options, const std::map<std::string, std::string>& values = {}) {
  try {
    find_place(options, environment(values));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::kUsage);
    return error.message();
  }
  return "none";
}

TEST(Place, IsOneProcessWhereNothingIsSaid) {
  EXPECT_FALSE(find_place({}, environment({})).several());
  EXPECT_FALSE(find_place({.process_id = 0, .num_processes = 1}, environment({})).several());
  // By hand on a machine of a job: no coordinator is named.
  EXPECT_FALSE(find_place({}, environment({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}})).several());
}

TEST(Place, IsWhatTheOptionsSay) {
  const Place place = find_place({3, 4, "host:2379", "mine"}, environment({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}}));
  EXPECT_EQ(place.process_id, 3);
  EXPECT_EQ(place.num_processes, 4);
  EXPECT_EQ(place.coordinator, "host:2379");
  EXPECT_EQ(place.run, "mine");
  EXPECT_FALSE(place.leads());
}

TEST(Place, IsWhatTheSchedulerSays) {
  const PlaceOptions options{.coordinator = "host"};
  const Place slurm = find_place(options, environment({{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "77"}}));
  EXPECT_EQ(slurm.process_id, 1);
  EXPECT_EQ(slurm.num_processes, 8);
  EXPECT_EQ(slurm.run, "slurm-77.0.0");
  const Place mpi = find_place(
      options, environment({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "3"}, {"OMPI_MCA_ess_base_jobid", "5"}}));
  EXPECT_EQ(mpi.process_id, 2);
  EXPECT_EQ(mpi.run, "mpi-5");
  const Place job = find_place(options, environment({{"JOB_COMPLETION_INDEX", "4"}, {"TESSERA_NUM_PROCESSES", "6"}}));
  EXPECT_EQ(job.process_id, 4);
  EXPECT_EQ(job.num_processes, 6);
}

TEST(Place, IsWhatTheSlicesOfTpusSay) {
  const PlaceOptions options{.coordinator = "host"};
  std::map<std::string, std::string> values = {{"TPU_WORKER_ID", "1"}, {"TPU_WORKER_HOSTNAMES", "a,b,c,d"}};
  const Place one = find_place(options, environment(values));
  EXPECT_EQ(one.process_id, 1);
  EXPECT_EQ(one.num_processes, 4);
  // A pod's index counts within its slice.
  values.insert({{"MEGASCALE_SLICE_ID", "2"}, {"MEGASCALE_NUM_SLICES", "3"}, {"JOB_COMPLETION_INDEX", "1"}});
  values["TESSERA_NUM_PROCESSES"] = "12";
  const Place several = find_place({.num_processes = 12, .coordinator = "host"}, environment(values));
  EXPECT_EQ(several.process_id, 9);
  EXPECT_EQ(several.num_processes, 12);
  // One host by itself, alone and among the pods of a job.
  values = {{"TPU_WORKER_ID", "0"}, {"TPU_WORKER_HOSTNAMES", "localhost"}};
  EXPECT_FALSE(find_place(options, environment(values)).several());
  values.insert({{"JOB_COMPLETION_INDEX", "2"}, {"TESSERA_NUM_PROCESSES", "4"}});
  EXPECT_EQ(find_place({.num_processes = 4, .coordinator = "host"}, environment(values)).process_id, 2);
  // An id that is given belongs to a run of several processes. A slice of one host does not say how many.
  EXPECT_THAT(
      message_of({.process_id = 0, .coordinator = "host"}, {{"TPU_WORKER_ID", "0"}, {"TPU_WORKER_HOSTNAMES", "localhost"}}),
      HasSubstr("not how many processes"));
  // What mpirun starts in such a pod counts itself.
  values = {{"TPU_WORKER_ID", "1"},        {"TPU_WORKER_HOSTNAMES", "a,b"}, {"MEGASCALE_SLICE_ID", "1"},
            {"MEGASCALE_NUM_SLICES", "2"}, {"OMPI_COMM_WORLD_RANK", "2"},   {"OMPI_COMM_WORLD_SIZE", "4"}};
  EXPECT_EQ(find_place(options, environment(values)).process_id, 2);
  // Slices of which not all is said matter where they are those of the run.
  values = {{"TPU_WORKER_ID", "0"},
            {"TPU_WORKER_HOSTNAMES", "a,b"},
            {"MEGASCALE_NUM_SLICES", "2"},
            {"JOB_COMPLETION_INDEX", "1"},
            {"TESSERA_NUM_PROCESSES", "2"}};
  EXPECT_EQ(find_place({.num_processes = 2, .coordinator = "host"}, environment(values)).process_id, 1);
  // What is said by hand counts, and a run without a coordinator is no part of a job.
  values = {{"TPU_WORKER_ID", "1"}, {"TPU_WORKER_HOSTNAMES", "a,b"}};
  EXPECT_EQ(find_place({.process_id = 0, .coordinator = "host"}, environment(values)).process_id, 0);
  EXPECT_FALSE(find_place({}, environment(values)).several());
  EXPECT_THAT(message_of({.num_processes = 3, .coordinator = "host"}, values), HasSubstr("nothing says which"));
}

TEST(Place, IsToldByPmixWhereThatIsThere) {
  const auto several = [](std::map<std::string, std::string> more) {
    more.insert({{"PMIX_NAMESPACE", "7"}, {"PMIX_RANK", "1"}});
    return several_by_pmix(environment(more));
  };
  EXPECT_TRUE(several({}));
  EXPECT_TRUE(several({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}}));
  EXPECT_FALSE(several({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}));
  EXPECT_FALSE(several_by_pmix(environment({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}})));
}

TEST(Place, MistakesAreExplained) {
  EXPECT_THAT(message_of({.process_id = 1}), HasSubstr("not how many processes there are"));
  EXPECT_THAT(message_of({.coordinator = "host"}),
              HasSubstr("--coordinator-address is given, and not how many processes there are"));
  EXPECT_THAT(message_of({.coordinator = "host"}, {{"TPU_WORKER_HOSTNAMES", "a,b"}}), HasSubstr("not how many processes"))
      << "no id is set, and there are two hosts";
  EXPECT_THAT(message_of({.num_processes = 2}), HasSubstr("one of 2 processes, and nothing says which"));
  EXPECT_THAT(message_of({2, 2, "host", ""}), HasSubstr("--process-id is 2, and there are 2 processes"));
  EXPECT_THAT(message_of({0, 2, "", ""}), HasSubstr("2 processes need a coordinator"));
  EXPECT_THAT(message_of({.key = "key.pem"}), HasSubstr("the key of an etcd, and nothing says which"));
  EXPECT_THAT(message_of({.coordinator = "host"}, {{"SLURM_PROCID", "one"}, {"SLURM_NTASKS", "2"}}),
              HasSubstr("SLURM_PROCID is `one`, which is no whole number"));
  const auto of_tpus = [](std::map<std::string, std::string> more) {
    more.insert({{"TPU_WORKER_ID", "0"}, {"TPU_WORKER_HOSTNAMES", "a,b"}});
    return message_of({.coordinator = "host"}, more);
  };
  EXPECT_THAT(of_tpus({{"TPU_WORKER_ID", "2"}}), HasSubstr("TPU_WORKER_ID is 2, and TPU_WORKER_HOSTNAMES names 2 hosts"));
  EXPECT_THAT(of_tpus({{"MEGASCALE_NUM_SLICES", "2"}}), HasSubstr("MEGASCALE_SLICE_ID is not set"));
  EXPECT_THAT(of_tpus({{"MEGASCALE_NUM_SLICES", "2"}, {"MEGASCALE_SLICE_ID", "2"}}),
              HasSubstr("MEGASCALE_SLICE_ID is 2, and MEGASCALE_NUM_SLICES is 2"));
}

}  // namespace
}  // namespace tessera::group
