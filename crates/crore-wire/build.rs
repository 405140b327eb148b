//! Generates types and services from the files under `proto`, without `protoc`.

use std::path::PathBuf;
use std::{env, fs};

use prost::Message;

const FILES: &[&str] = &[
    "crore/v1/job.proto",
    "crore/v1/jobs.proto",
    "crore/v1/work.proto",
    "crore/v1/admin.proto",
    "lakh.proto",
    "jobworkerp/data/common.proto",
    "jobworkerp/data/worker.proto",
    "jobworkerp/data/job.proto",
    "jobworkerp/data/job_result.proto",
    "jobworkerp/service/common.proto",
    "jobworkerp/service/worker.proto",
    "jobworkerp/service/job.proto",
    "jobworkerp/service/job_result.proto",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile(FILES, ["proto"])?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    // Served by gRPC reflection.
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        // Payloads are not copied out of their message.
        .bytes(".crore.v1")
        .btree_map(".")
        .build_transport(false)
        // This codec bounds the memory of decoded messages.
        .codec_path("crate::grpc::Codec")
        .compile_fds(descriptors)?;
    Ok(())
}
