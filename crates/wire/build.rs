//! Compiles the protobuf files, for which no other program is needed.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    #[cfg(feature = "grpc")]
    protobuf::compile()?;
    println!("cargo::rerun-if-changed=build.rs");
    Ok(())
}

#[cfg(feature = "grpc")]
mod protobuf {
    use std::error::Error;
    use std::path::PathBuf;
    use std::{env, fs};

    use prost::Message;

    const FILES: [&str; 2] = ["envoy/service/ratelimit/v3/rls.proto", "tidegate/v1/limiter.proto"];

    pub(super) fn compile() -> Result<(), Box<dyn Error>> {
        let descriptors = protox::compile(FILES, ["proto"])?;
        let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo says where to build to")?);
        fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
        let mut config = prost_build::Config::new();
        config.include_file("protobuf.rs");
        // What answers carry is built per request: no second copy of it, and maps that keep their order.
        config.btree_map(["."]);
        config.compile_fds(descriptors)?;
        println!("cargo::rerun-if-changed=proto");
        Ok(())
    }
}
